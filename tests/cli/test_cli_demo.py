"""`sihash demo`: figures that hold together, a page that shows what was found."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from sihash.cli import app
from sihash.database import Database


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One run with --json: its result and its folder."""
    folder = tmp_path_factory.mktemp("demo") / "not" / "there"
    return CliRunner().invoke(app, ["demo", "--json", "--out", str(folder)]), folder


@pytest.fixture(scope="module")
def figures(ran):
    result, _ = ran
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_first_hits_are_right_more_often_than_by_chance(figures):
    assert figures["p_at_1"] > 0.65


def test_the_update_learns_what_the_old_functions_do_not_know(figures):
    ways = figures["new_class"]
    assert ways["incremental"]["new_by_codes"] > ways["passive"]["new_by_codes"] + 0.05
    assert ways["incremental"]["new"] > ways["passive"]["new"] - 0.02
    assert ways["incremental"]["old"] > ways["passive"]["old"] - 0.05  # some now look like the new class
    # The story would tell nothing if it learned everything from scratch.
    report = ways["incremental"]["report"]
    assert report.startswith("add:"), report
    assert "from scratch: about" in report


def test_the_database_stays_with_all_sentences(figures):
    with Database(figures["database"]) as database:
        assert database.info()["classes"]["signal"] == figures["n_removed"]
        assert len(database) == figures["n_items"] + figures["n_removed"]
        assert database.verify() == []


def test_words_go_to_stderr_beside_json(ran, figures):
    result, _ = ran
    assert "sihash create DB" in result.stderr
    assert figures["page"] in result.stderr


def test_page(ran, figures):
    _, folder = ran
    assert figures["page"] == str(folder / "index.html")
    page = (folder / "index.html").read_text("utf-8")
    assert not re.search(r'(src|href)="(?!data:)', page)
    queries = re.split("<h2>“", page)[1:]
    assert len(queries) == 3
    for query in queries:
        before, after = query.split("after the update")
        assert before.count('class="wrong"') > after.count('class="wrong"')
        assert (before + after).count("<p") == 10


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
