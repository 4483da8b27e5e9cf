"""The figures of the README are those of their records: docs/figures.jsonl, which `make bench` writes."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def figures(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.figures")


def test_the_pages_print_what_was_recorded(figures):
    found = figures.records()
    assert list(found) == [figure.name for figure in figures.FIGURES], "run: make bench"
    pages = {page: page.read_text(encoding="utf-8") for page in figures.PAGES}
    for place, text in figures.printed(found):
        standing = [match for page in pages.values() for match in place.findall(page)]
        assert standing, f"no page has: {text}"
        assert set(standing) == {text}, "run: python -m benchmarks.figures --no-run --write"


def test_every_line_of_the_table_has_a_record(figures):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.split("## Figures")[1].split("\n\n")[2].splitlines()[2:]
    assert len(table) == 8
    for line in table:
        assert any(text in line for _, text in figures.printed(figures.records())), line


def test_records_say_where_they_come_from(figures):
    for figure in figures.FIGURES:
        record = figures.records()[figure.name]
        assert record["commands"] == [f"python -m {command}" for command in figure.commands]
        assert {"commit", "made", "machine"} <= set(record)


def test_numbers_are_replaced_and_nothing_else(figures):
    record = {"one query": {"values": {"milliseconds": 2.345}}}
    page = "| one query among a million items | 1.5 ms | | `x` |\n1.5 ms"
    assert figures.rewritten(page, record) == "| one query among a million items | 2.3 ms | | `x` |\n1.5 ms"
