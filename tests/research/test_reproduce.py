"""`reproduce all --scale smoke`: it ends, it resumes, and every number is traced to a raw record."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import re
import shutil
import sys
from importlib import import_module

import numpy as np
import pytest
from test_task import write_nuswide
from typer.testing import CliRunner

from sihash.research import available
from sihash.research.__main__ import app
from sihash.research.methods import METHODS, PAPER
from sihash.research.paper import write_report
from sihash.research.records import Records
from sihash.research.scales import SMOKE

DATA = available()
pytestmark = pytest.mark.slow  # a whole reproduction, also of CIFAR-10 and MNIST where they are


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", *arguments, "--scale", "smoke"])


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One reproduction for all processes that share the tests: who comes first does it, the others wait."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "reproduction"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "report.html").exists():
            result = reproduce("all", "--out", str(folder), "--json")
            assert result.exit_code == 0, result.output
            assert json.loads(result.stdout) == {
                "report": str(folder / "report.html"),
                "data": DATA,
                "scale": "smoke",
            }
    return folder


@pytest.fixture(scope="module")
def raw(out):
    """The raw results as anybody would read them."""
    lines = (out / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return {record["id"]: record for record in map(json.loads, lines)}


def table(out, name):
    with open(out / "tables" / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def behind(row, raw):
    return [raw[name] for name in row["records"].split()]


def test_every_row_names_records_that_exist(out, raw):
    tables = sorted((out / "tables").glob("*.csv"))
    assert len(tables) >= 8
    for path in tables:
        for row in table(out, path.stem):
            if row.get("verdict") != "not measured":
                assert behind(row, raw), (path.stem, row)


@pytest.mark.parametrize("data", DATA)
def test_map_is_the_mean_of_its_records(out, raw, data):
    labels = {METHODS[name].label: name for name in PAPER}
    rows = [row for row in table(out, f"map_{data}") if row["method"] in labels]
    assert len(rows) == len(PAPER)
    for row in rows:
        for n_bits in SMOKE.code_lengths:
            scores = [r["result"]["mAP"] for r in behind(row, raw) if r["key"]["n_bits"] == n_bits]
            assert float(row[f"{n_bits} bits"]) == pytest.approx(np.mean(scores))


@pytest.mark.parametrize("data", DATA)
def test_table1_is_made_of_its_records(out, raw, data):
    labels = {METHODS[name].label: name for name in PAPER}
    for row in table(out, f"table1_{data}"):
        if row["method"] in labels:
            own = [r for r in behind(row, raw) if r["key"]["method"] == labels[row["method"]]]
            assert float(row["mAP"]) == pytest.approx(np.mean([r["result"]["mAP"] for r in own]))
            assert float(row["training s"]) == pytest.approx(
                np.median([r["result"]["seconds"]["fit"]["cpu"] for r in own])
            )
            assert {r["key"]["n_anchors"] for r in own} == {int(row["anchors"]) if row["anchors"] else None}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("method", SMOKE.repeats)
def test_changes_are_made_of_their_records(out, raw, data, method):
    rows = table(out, f"incremental_{data}_{method}")
    assert len(rows) == 2 * (len(SMOKE.class_points) + len(SMOKE.image_points))
    for row in rows:
        found = [r["result"] for r in behind(row, raw)]
        assert len(found) == SMOKE.repeats[method]
        gap = np.mean([r["incremental"]["mAP"] - r["scratch"]["mAP"] for r in found])
        assert float(row["difference"]) == pytest.approx(gap)


def test_page_needs_no_other_file(out):
    page = (out / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"<(img|script|link)\b", page)
    assert not re.search(r"(src|href)=.(https?:|file:)", page.replace("http://www.w3.org/", ""))
    assert page.count("<svg") == len(list((out / "figures").glob("*.svg"))) >= 5
    assert len(list((out / "figures").glob("*.png"))) == page.count("<svg")
    assert ("Not measured here:" in page) == (not {"cifar10", "mnist", "nuswide"} <= set(DATA))


def test_scores_and_plots_need_nothing_but_the_records(out, tmp_path):
    shutil.copy(out / "records.jsonl", tmp_path)
    write_report(Records(tmp_path / "records.jsonl"), SMOKE, tmp_path)
    for path in sorted((out / "tables").iterdir()):
        assert (tmp_path / "tables" / path.name).read_text() == path.read_text()
    assert (tmp_path / "report.html").read_text() == (out / "report.html").read_text()


@pytest.mark.parametrize("share", [0, 0.05, 0.3, 0.9])
def test_an_unfinished_reproduction_can_be_looked_at(out, tmp_path, share):
    lines = (out / "records.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "records.jsonl").write_text("\n".join(lines[: round(share * len(lines))]), encoding="utf-8")
    page = write_report(Records(tmp_path / "records.jsonl"), SMOKE, tmp_path)
    assert "not measured" in page.read_text(encoding="utf-8")


def test_a_second_run_does_only_what_is_missing(out, raw, tmp_path):
    lines = (out / "records.jsonl").read_text(encoding="utf-8").splitlines()
    lost = next(i for i, line in enumerate(lines) if '"method": "cca_itq"' in line)
    (tmp_path / "records.jsonl").write_text(
        "\n".join(lines[:lost] + lines[lost + 1 :]) + "\n", encoding="utf-8"
    )
    result = reproduce("all", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert re.findall(r"^(\d+) of (\d+):", result.stderr, re.MULTILINE) == [("1", "1")]
    again = Records(tmp_path / "records.jsonl")
    before = json.loads(lines[lost])
    assert again.by_id(before["id"])["result"]["mAP"] == before["result"]["mAP"], "a seed fixes a run"


def test_nuswide_where_a_user_has_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SIHASH_DATA", str(tmp_path / "data"))
    write_nuswide(tmp_path / "data" / "nuswide")
    result = reproduce("pr", "--data", "nuswide", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    methods = {row["method"] for row in table(tmp_path / "out", "pr_nuswide")}
    assert methods == {METHODS[name].label for name in PAPER}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(("figure9",), "no experiment 'figure9'"), (("all", "--data", "nowhere/at/all"), "nothing at")],
)
def test_what_cannot_be_done_is_told_in_a_sentence(tmp_path, arguments, sentence):
    result = reproduce(*arguments, "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1, "before anything is run"
    assert not (tmp_path / "out").exists()


def test_a_missing_package_is_told_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "sihash.research.figures")
    with pytest.raises(ImportError, match=r"need matplotlib: pip install 'sihash\[plots\]'\."):
        import_module("sihash.research.figures")
