"""`sihash demo`: figures that hold together, a page that shows what was found."""

from __future__ import annotations

import json
import re
import sys

import pytest
from typer.testing import CliRunner

from sihash.cli import app, demo
from sihash.database import Database

COPIES = 2  # of each digit; people see more


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One run with --json: its result and its folder."""
    folder = tmp_path_factory.mktemp("demo") / "not" / "there"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[demo.__module__], "COPIES", COPIES)
        return CliRunner().invoke(app, ["demo", "--json", "--out", str(folder)]), folder


@pytest.fixture(scope="module")
def figures(ran):
    result, _ = ran
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_codes_retrieve(figures):
    assert figures["mAP"] > 0.95


def test_update_learns_what_the_old_functions_do_not_know(figures):
    ways = figures["new_class"]
    assert ways["passive"]["mAP"] < ways["incremental"]["mAP"] - 0.05
    assert ways["incremental"]["mAP"] > ways["relearn"]["mAP"] - 0.02
    ways = figures["more_images"]
    assert abs(ways["incremental"]["mAP"] - ways["relearn"]["mAP"]) < 0.02


def test_the_database_stays_with_all_images(figures):
    with Database(figures["database"]) as database:
        sizes = database.info()["classes"]
        assert len(database) == COPIES * 1198
        assert sizes["8"] == figures["n_removed"]
        assert database.verify() == []


def test_updates_go_on_from_what_was_learned(figures):
    """The story would tell nothing if one of them learned everything from scratch."""
    for change in ("more_images", "new_class"):
        report = figures[change]["incremental"]["report"]
        assert report.startswith("add:"), report
        assert "from scratch: about" in report


def test_words_go_to_stderr_beside_json(ran, figures):
    result, _ = ran
    assert "sihash create DB" in result.stderr
    assert figures["page"] in result.stderr


def test_page(ran, figures):
    _, folder = ran
    assert figures["page"] == str(folder / "index.html")
    page = (folder / "index.html").read_text("utf-8")
    assert (
        page.count("data:image/png;base64,") == 7 * 11
    )  # three queries before and after, one without its class
    assert not re.search(r'(src|href)="(?!data:)', page)
    before, after = page.split("After the update")
    assert before.count('class="wrong"') > after.split("is removed")[0].count('class="wrong"')


@pytest.mark.parametrize("name", ["index.html", "collection/mine"])
def test_the_folder_of_another_is_left_alone(tmp_path, name):
    theirs = tmp_path / name
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("mine")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "not made by a demo" in result.stderr
    assert theirs.read_text() == "mine"


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {tmp_path / 'file'} exists and was not made by a demo; choose another folder with --out.\n"
    )
