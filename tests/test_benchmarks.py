"""The benchmarks can still be started: they use inner parts of the package, and nothing else runs them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sihash.research.records import Records

FOLDER = Path(__file__).parents[1] / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("data", "timing"))


@pytest.mark.parametrize("name", NAMES)
def test_it_tells_how_it_is_called(name, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit, match="0"):
        importlib.import_module(f"benchmarks.{name}").main()
    assert "usage" in capsys.readouterr().out


@pytest.fixture
def protocols(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    return importlib.import_module("benchmarks.protocols")


def asked(monkeypatch, protocols, *options):
    monkeypatch.setattr(sys, "argv", ["protocols", *map(str, options)])
    protocols.main()


def test_seven_classes_then_three(protocols, monkeypatch, tmp_path, capsys):
    options = ["split", "--data", "digits", "--bits", 16, "--seeds", 1, "--out", tmp_path]
    asked(monkeypatch, protocols, *options)
    (record,) = Records(tmp_path / "records.jsonl").where(kind="split")
    found = record["result"]
    for way in ("hashed / hashed", "new query / old code", "label-coded"):
        assert found[way] > found["passive, hashed / hashed"]
    told = capsys.readouterr().out
    asked(monkeypatch, protocols, *options)
    assert capsys.readouterr().out == told, "what is recorded is not run again"


def test_queries_of_the_split_are_no_items(protocols):
    args = SimpleNamespace(data="digits", features=None)
    items, queries, old = protocols.dihn_rows(args, 0)
    assert np.bincount(queries.y).tolist() == [100] * 10
    assert len(items) + len(queries) == 1797
    assert len(np.unique(items.y[old])) == 7
    assert not set(items.y[old]) & set(items.y[~old])


def test_a_stream_of_additions_and_deletions(protocols, monkeypatch, tmp_path, capsys):
    options = ["stream", "--data", "digits", "--bits", 16, "--steps", 20, "--out", tmp_path]
    asked(monkeypatch, protocols, *options)
    (record,) = Records(tmp_path / "records.jsonl").where(kind="stream")
    steps = record["result"]["steps"]
    assert len(steps) == 20
    assert ["scratch" in step for step in steps] == 2 * [*9 * [False], True]
    assert np.mean([step["kept"] for step in steps]) > np.mean([step["passive"] for step in steps])
    assert "0 codes rewritten" in capsys.readouterr().out
    assert list(tmp_path.glob("*.png"))
