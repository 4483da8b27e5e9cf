"""`python -m sihash.research field`: every method by one protocol, resumable, with failures told."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from sihash.evaluation.ranked import ranked_scores
from sihash.research import field
from sihash.research.__main__ import app
from sihash.research.records import Records

FEW = ["--bits", "8", "--seeds", "2", "--rows", "400", "--queries", "60"]


def run(*arguments):
    return CliRunner().invoke(app, ["field", *map(str, arguments)])


def methods(*names):
    return [part for name in names for part in ("--method", name)]


def test_a_benchmark_goes_on_where_it_was_and_its_numbers_are_those_of_its_records(tmp_path):
    first = run("digits", *methods("lsh"), *FEW, "--out", tmp_path)
    assert first.exit_code == 0, first.output
    second = run("digits", *methods("lsh", "cosine"), *FEW, "--out", tmp_path, "--json")
    assert second.stderr.count(" of 1: ") == 1, "only what is missing is run"
    told = json.loads(second.stdout)["tables"][0]
    assert [row[0] for row in told["rows"]] == ["LSH", "cosine, raw vectors"]
    records = Records(tmp_path / "records.jsonl")
    scores = [r["result"]["mAP"] for r in records.where(method="lsh")]
    assert len(scores) == 2
    with open(tmp_path / "tables" / "field_1.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["mAP"]) == pytest.approx(np.mean(scores))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "<img" not in page
    assert "<script" not in page


def test_what_fails_stands_in_the_table_with_its_reason_and_can_be_tried_again(tmp_path):
    rng = np.random.RandomState(0)
    Y = rng.rand(200, 3) < 0.5
    Y[:, 0] |= ~Y.any(axis=1)
    X = rng.standard_normal((200, 6)) + 3 * Y @ rng.standard_normal((3, 6))
    path = tmp_path / "several.npz"
    np.savez(path, X_train=X[:150], Y_train=Y[:150], X_test=X[150:], Y_test=Y[150:])
    out = tmp_path / "out"
    given = [path, *methods("sdh", "lsh", "search"), "--bits", "8", "--seeds", "1", "--out", out]
    assert run(*given).exit_code == 0
    found = {r["key"]["method"]: r["result"] for r in Records(out / "records.jsonl").where(kind="field")}
    assert "several" in found["sdh"]["failed"]
    assert min(found[name]["mAP"] for name in ("lsh", "search")) > 0.5
    assert "several" in (out / "tables" / "field_1.md").read_text(encoding="utf-8")
    assert " of " not in run(*given).stderr
    assert " of 1: " in run(*given, "--retry").stderr


def test_a_run_that_takes_too_long_is_stopped(tmp_path):
    records = field.compare_methods(field.FieldPlan(["digits"], ["sih"], [8], 1, seconds=0.01), tmp_path)
    assert [r["result"]["failed"] for r in records.where(kind="field")] == ["not done after 0.01 s"]


def test_an_unknown_method_is_told_before_anything_runs(tmp_path):
    result = run("digits", "--method", "best", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "'best'" in result.stderr
    assert "sih" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_label_in_common_is_relevant():
    y = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 1]], dtype=bool)
    asked = np.array([[1, 0, 1], [0, 1, 0]], dtype=bool)
    scores = np.array([[3.0, 2, 1], [3, 2, 1]], dtype=np.float32)
    found = ranked_scores(lambda _: scores, y, np.zeros((2, 1), np.float32), asked, np.full(2, -1))
    assert found.p_at_1 == 0.5
    assert found.map == pytest.approx((1 + 0.5) / 2)
