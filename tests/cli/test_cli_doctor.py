"""``sihash doctor`` and ``sihash relabel``: what one prints, the other mends."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from sihash.cli import app
from sihash.database import Database


def invoke(*arguments):
    """Exit code, stdout, stderr."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def path(tmp_path):
    """A database of three classes, two labels wrong, one item twice but for a trace."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = (rng.normal(size=(3, 16))[y] + 0.3 * rng.normal(size=(120, 16))).astype(np.float32)
    labels = [("cat", "dog", "a b")[k] for k in y]
    labels[6], labels[13] = "dog", "cat"
    X, labels = np.vstack([X, X[20:21] + 1e-4]), [*labels, labels[20]]
    Database.create(tmp_path / "my db", X, labels, n_bits=8, n_anchors=30).close()
    return tmp_path / "my db"


def test_the_commands_that_it_prints_mend_what_it_found(path):
    code, out, _ = invoke("doctor", path, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["found"]["wrong label"] == 2
    assert found["found"]["near-duplicate"] == 1
    assert {each["items"][0]["id"]: each["label"] for each in found["findings"]} == {
        6: "cat",
        13: "dog",
        120: None,
    }
    for each in found["findings"]:
        program, *words = shlex.split(each["command"])
        assert program == "sihash"
        assert invoke(*words)[0] == 0
    code, out, _ = invoke("doctor", path)
    assert out.startswith("No problems found.\n\n120 of 120 labels were judged")


def test_the_text_and_the_page_give_reason_and_command(path, tmp_path):
    page = tmp_path / "doctor.html"
    code, out, _ = invoke("doctor", path, "--limit", 1, "--html", page)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "Labels that neighbours and margins contradict, the first 1 of 2:"
    assert lines[1].startswith("  item ")
    assert "looks like" in lines[1]
    assert lines[2].strip().startswith(f"sihash relabel '{path}' ")
    html = page.read_text()
    assert "<h2>Labels that neighbours and margins contradict</h2>" in html
    assert "sihash relabel" in html
    assert "no picture" in html


def test_items_with_ids_of_the_user(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = (rng.normal(size=(3, 16))[y] + 0.3 * rng.normal(size=(120, 16))).astype(np.float32)
    labels, ids = [("cat", "dog", "cow")[k] for k in y], [f"-{k} x" for k in range(120)]
    labels[6] = "dog"
    Database.create(tmp_path / "db", X, labels, ids=ids, n_bits=8, n_anchors=30).close()
    (finding,) = json.loads(invoke("doctor", tmp_path / "db", "--json")[1])["findings"]
    assert (finding["items"][0]["id"], finding["label"]) == ("-6 x", "cat")
    assert invoke(*shlex.split(finding["command"])[1:])[0] == 0
    with Database(tmp_path / "db") as db:
        assert db.item("-6 x").label == "cat"


def test_relabel_by_item_and_by_class(path):
    assert invoke("relabel", path, 0, "a b", "--id", 1)[1] == "2 items are now labelled a b.\n"
    assert invoke("relabel", path, 0, "a b")[1] == "0 items are now labelled a b. 1 already had it.\n"
    assert invoke("relabel", path, 0, "--none")[1] == "1 item is now without a label.\n"
    assert invoke("undo", path)[1].startswith("Undone: relabel.")
    code, out, _ = invoke("relabel", path, "--class", "a b", "other", "--json")
    assert (code, json.loads(out)["label"]) == (0, "other")
    with Database(path) as db:
        assert db.item(0).label == "other"
        assert sorted(db.labels()) == ["cat", "dog", "other"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([0], "relabel DB ID LABEL"),
        ([], "relabel DB ID LABEL"),
        ([0, "cat", "--none"], "relabel DB ID LABEL"),
        ([0, ""], "relabel DB ID LABEL"),
        (["cat", 0], "No item has the id"),
        ([0, "cat", "--class", "dog"], "relabel DB ID LABEL"),
        ([999, "cat"], "No item has the id '999'."),
        (["--class", "cow", "cat"], "No class is named 'cow'"),
    ],
)
def test_what_cannot_be_relabelled_is_told_and_changes_nothing(path, words, told):
    code, out, err = invoke("relabel", path, *words)
    assert code != 0
    assert not out
    assert told in " ".join(err.replace("│", " ").split())
    with Database(path) as db:
        assert db.info()["operation"] == 1
