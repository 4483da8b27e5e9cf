"""Tables from raw records, as Markdown and CSV, and one HTML page that needs no other file.

Every row of a table names the records that it was computed from.
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sihash.research.records import Record

DATA_TITLES = {"cifar10": "CIFAR-10", "mnist": "MNIST", "nuswide": "NUS-WIDE", "digits": "digits"}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 1180px; margin: 2rem auto;
       padding: 0 1.2rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.4rem; border-bottom: 1px solid #ccc; }
h3 { font-size: 1rem; margin-bottom: 0.3rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 9px; text-align: right; border-bottom: 1px solid #e4e4e4; white-space: nowrap; }
th { border-bottom: 2px solid #555; text-align: right; vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
td.text { white-space: normal; min-width: 7.5em; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
p.note { color: #444; margin: 0.2rem 0 0.5rem; }
.confirmed { color: #1b6e37; } .in-part { color: #8a5a00; } .not { color: #a11d1d; } .missing { color: #666; }
details { margin-top: 0.4rem; } summary { cursor: pointer; color: #444; }
"""
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
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>",
        *(f"<p>{html.escape(text)}</p>" for text in introduction),
    ]
    for section in sections:
        items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in section.sentences)
        parts += [f"<h2>{section.heading}</h2>", f"<ul>{items}</ul>" if items else ""]
        parts += [f"<figure>{inline_svg(figure)}</figure>" for figure in section.figures]
        parts += [html_table(table, section.folded) for table in section.tables]
    path.write_text("\n".join([*parts, "</body></html>\n"]), encoding="utf-8")
    return path


def inline_svg(path: Path) -> str:
    """The drawing itself, its ids made its own so that figures on one page do not mix."""
    text = path.read_text(encoding="utf-8")
    svg = text[text.index("<svg") :]
    for mark in ('id="', "url(#", 'href="#'):
        svg = svg.replace(mark, f"{mark}{path.stem}-")
    return svg


def html_table(table: ResultTable, folded: bool = False) -> str:
    textual = [form == "" for form in table.formats]
    head = "".join(_cell("th", name, text) for name, text in zip(table.columns, textual, strict=True))
    rows = "".join(_html_row(table, row, textual) for row in table.rows)
    note = f"<p class='note'>{html.escape(table.note)}</p>" if table.note else ""
    body = f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    title = html.escape(table.title)
    if folded:
        return f"<details><summary>{title}</summary>{body}</details>"
    return f"<h3>{title}</h3>{note}{body}"


def _html_row(table: ResultTable, row: TableRow, textual: list[bool]) -> str:
    cells = "".join(
        _cell("td", text, is_text) for text, is_text in zip(table.texts(row), textual, strict=True)
    )
    few = " ".join(row.records[:12]) + (" …" if len(row.records) > 12 else "")
    return f"<tr title='records: {few}'>{cells}</tr>"


def _cell(tag: str, text: str, is_text: bool) -> str:
    classes = [*(["text"] if is_text else []), *([_CLASSES[text]] if text in _CLASSES else [])]
    marked = f" class='{' '.join(classes)}'" if classes else ""
    return f"<{tag}{marked}>{html.escape(text)}</{tag}>"
