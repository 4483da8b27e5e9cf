"""Tables from raw records, as Markdown and CSV, and one HTML page that needs no other file.

Every row of a table names the records that it was computed from.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sihash.pages import render
from sihash.research.records import Record

DATA_TITLES = {"cifar10": "CIFAR-10", "mnist": "MNIST", "nuswide": "NUS-WIDE", "digits": "digits"}
_CLASSES = {
    "confirmed": "confirmed",
    "confirmed in part": "in-part",
    "not confirmed": "not",
    "not measured": "missing",
}
Cell = str | float | int | None


@dataclass(frozen=True)
class TableRow:
    """Cells in the order of the columns, and the ids of the records behind them."""

    cells: list[Cell]
    records: list[str]


@dataclass(frozen=True)
class ResultTable:
    """``name`` is that of its files. ``formats`` has one format per column, "" for text."""

    name: str
    title: str
    columns: list[str]
    formats: list[str]
    rows: list[TableRow] = field(default_factory=list)
    note: str = ""

    def texts(self, row: TableRow) -> list[str]:
        """The cells of a row as they are shown."""
        return [_text(cell, form) for cell, form in zip(row.cells, self.formats, strict=True)]

    def markdown(self) -> str:
        lines = ["| " + " | ".join(self.columns) + " |", "|" + " --- |" * len(self.columns)]
        lines += ["| " + " | ".join(self.texts(row)) + " |" for row in self.rows]
        return f"**{self.title}.** {self.note}".rstrip() + "\n\n" + "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Numbers in full, and a last column with the ids of the records."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*self.columns, "records"])
        writer.writerows([*row.cells, " ".join(row.records)] for row in self.rows)
        return stream.getvalue()


def _text(cell: Cell, form: str) -> str:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return "–"
    return cell if isinstance(cell, str) else format(cell, form)


def title_of(data: str) -> str:
    return DATA_TITLES.get(data, data)


def columns(names: str) -> list[str]:
    return names.split(", ")


def numbers(records: list[Record], *path: str) -> list[float]:
    """A number of every record's result, by the names that lead to it."""
    found = []
    for record in records:
        value: Any = record["result"]
        for step in path:
            value = value[step]
        found.append(float(value))
    return found


def mean(records: list[Record], *path: str) -> float | None:
    return float(np.mean(numbers(records, *path))) if records else None


def ids(records: list[Record]) -> list[str]:
    return [record["id"] for record in records]


def write_tables(tables: Sequence[ResultTable], out: Path) -> None:
    """``tables/*.md`` and ``*.csv`` below ``out``."""
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for table in tables:
        (out / "tables" / f"{table.name}.md").write_text(table.markdown(), encoding="utf-8")
        (out / "tables" / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")


@dataclass(frozen=True)
class Section:
    """A part of a page: sentences, then drawings (SVG files), then tables."""

    heading: str
    figures: Sequence[Path] = ()
    tables: Sequence[ResultTable] = ()
    sentences: Sequence[str] = ()
    folded: bool = False


def page(path: Path, title: str, introduction: Sequence[str], sections: Sequence[Section]) -> Path:
    """Write one page with everything in it; returns its path."""
    html = render(
        "report.html",
        heading=title,
        introduction=introduction,
        sections=sections,
        inline_svg=inline_svg,
        classes=_CLASSES,
    )
    path.write_text(html, encoding="utf-8")
    return path


def inline_svg(path: Path) -> str:
    """The drawing itself, its ids made its own so that figures on one page do not mix."""
    text = path.read_text(encoding="utf-8")
    svg = text[text.index("<svg") :]
    for mark in ('id="', "url(#", 'href="#'):
        svg = svg.replace(mark, f"{mark}{path.stem}-")
    return svg
