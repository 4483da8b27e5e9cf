"""The benchmarks can still be started: they use inner parts of the package, and nothing else runs them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("data", "timing"))


@pytest.mark.parametrize("name", NAMES)
def test_it_tells_how_it_is_called(name, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit, match="0"):
        importlib.import_module(f"benchmarks.{name}").main()
    assert "usage" in capsys.readouterr().out


def test_the_solvers_side_by_side_on_few_made_rows(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    solvers = importlib.import_module("benchmarks.solvers")
    monkeypatch.setattr(solvers, "MAX_ITER", 5)
    options = "--made --rows 2000 --anchors 50 --bits-timed 1 --ocas"
    monkeypatch.setattr(sys, "argv", ["solvers", *options.split()])
    solvers.main()
    assert "smooth is proved to be within" in capsys.readouterr().out
