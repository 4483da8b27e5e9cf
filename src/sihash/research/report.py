"""Tables as Markdown and CSV, figures, and one HTML page that needs no other file: from raw records alone."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from sihash.research.claims import claims_table
from sihash.research.figures import write_figures
from sihash.research.paper_values import MACHINE
from sihash.research.records import Records, made_by
from sihash.research.scales import Scale
from sihash.research.tables import ResultTable, TableRow, all_tables, data_sets, title_of

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
_SECTIONS = (
    ("claims", "The claims of the paper"),
    ("table1", "Training and anchor set sizes (Table 1)"),
    ("map", "mAP by code length (Figure 2)"),
    ("pr", "Precision and recall (Figure 3)"),
    ("incremental", "Changing collections (Figures 4 to 6)"),
    ("stream", "A stream of updates"),
    ("svm", "OCAS in the plane (Figure 1)"),
    ("selection", "Chosen parameters"),
)
_CLASSES = {
    "confirmed": "confirmed",
    "confirmed in part": "in-part",
    "not confirmed": "not",
    "not measured": "missing",
}


def write_report(records: Records, scale: Scale, out: Path) -> Path:
    """Write ``tables/``, ``figures/`` and ``report.html`` below ``out``; returns the page."""
    tables = [claims_table(records, scale), *all_tables(records, scale)]
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for table in tables:
        (out / "tables" / f"{table.name}.md").write_text(table.markdown(), encoding="utf-8")
        (out / "tables" / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
    figures = write_figures(records, scale, out / "figures")
    page = out / "report.html"
    page.write_text(_page(records, scale, tables, figures), encoding="utf-8")
    return page


def _page(records: Records, scale: Scale, tables: list[ResultTable], figures: list[Path]) -> str:
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>Supervised Incremental Hashing, reproduced</title><style>{STYLE}</style></head><body>",
        "<h1>Supervised Incremental Hashing, reproduced</h1>",
        *(f"<p>{html.escape(text)}</p>" for text in introduction(records, scale)),
        f"<h2>Beside the paper, in words</h2><ul>{_items(in_words(tables))}</ul>",
    ]
    for prefix, heading in _SECTIONS:
        own_tables = [t for t in tables if t.name.split("_")[0] == prefix]
        own_figures = [path for path in figures if path.stem.split("_")[0] == prefix]
        if own_tables:
            parts.append(f"<h2>{heading}</h2>")
            parts += [f"<figure>{inline_svg(path)}</figure>" for path in own_figures]
            parts += [html_table(table, folded=prefix == "pr") for table in own_tables]
    return "\n".join([*parts, "</body></html>\n"])


def introduction(records: Records, scale: Scale) -> list[str]:
    """What was run, on what, and how to trace a number."""
    mine = records.where(scale=scale.name)
    there = {r["key"].get("data") for r in mine}
    missing = [title_of(d) for d in data_sets(records, scale) if d not in there]
    texts = [
        f"Scale “{scale.name}”: {made_by(mine)}. The paper's machine: {MACHINE}. "
        "Our seconds are of the processor, summed over all threads; the paper's are by the clock.",
        "Each test image is the query once against the other test images, ranked by Hamming distance; mAP "
        "and precision by radius as in the paper. Kernel widths were chosen on held-out training rows. SIH "
        "has the paper's constants and our first words for the classes; “random words” are the paper's.",
        "Hold the pointer over a row to see the ids of the raw records (records.jsonl) behind it; the CSV "
        "files in tables/ list them all.",
    ]
    if scale.name != "full":
        texts.append("At this scale the verdicts only show that everything runs; those at full scale count.")
    if missing:
        texts.append(f"Not measured here: {', '.join(missing)}.")
    return texts


def in_words(tables: list[ResultTable]) -> list[str]:
    """Where our numbers are above the paper's printed ones, and where below."""
    sentences = []
    for table in tables:
        if not table.name.startswith("table1"):
            continue
        for row in table.rows:
            cells = dict(zip(table.columns, row.cells, strict=True))
            if cells["difference"] is not None:
                sentences.append(_comparison(cells))
    return sentences or ["No row of this run has a printed number in the paper to stand beside."]


def _comparison(cells: dict[str, Any]) -> str:
    anchors = f" × {cells['anchors']:,}" if cells["anchors"] else ""
    mAP, precision, ratio = (cells[f"paper's {name}"] for name in ("mAP", "precision", "ratio"))
    difference = cells["difference"]
    word = "as good as" if abs(difference) < 0.0015 else "better than" if difference > 0 else "worse than"
    text = (
        f"{cells['method']}, {cells['training rows']:,}{anchors}: mAP {cells['mAP']:.3f}, {word} the paper's "
        f"{mAP:.3f} ({difference:+.3f}); precision at 2 {cells['precision at 2']:.3f} against {precision:.3f}"
    )
    if cells["training / SDH"] is not None:
        text += (
            f"; training {cells['training / SDH']:.2f} times as long as SDH's, in the paper {ratio:.2f} times"
        )
    return text + "."


def _items(sentences: list[str]) -> str:
    return "".join(f"<li>{html.escape(s)}</li>" for s in sentences)


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
