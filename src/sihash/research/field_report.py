"""The tables, plots and page of `python -m sihash.research field`, from its records alone."""

from __future__ import annotations

from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from sihash.research.field import KIND
from sihash.research.methods import FIELD, METHODS
from sihash.research.records import Record, Records, made_by
from sihash.research.report import (
    Cell,
    ResultTable,
    Section,
    TableRow,
    columns,
    ids,
    numbers,
    page,
    title_of,
    write_tables,
)

NOTE = (
    "Test rows ask, training rows answer; codes by Hamming distance, ties at random. Means over the seeds, ± "
    "their standard deviation; times are medians: fitting in seconds and encoding in microseconds per item, "
    "both of the processor, one query in milliseconds by one thread. `sihash search` ranks by labels and "
    "vectors what its codes find; its fitting is all of `sihash create`."
)


def write_field_report(records: Records, out: Path) -> tuple[Path, list[ResultTable]]:
    """Write ``tables/``, ``figures/`` and ``report.html`` below ``out``; returns the page and the tables."""
    tables = field_tables(records)
    write_tables(tables, out)
    figures, missing = _figures(records, out / "figures")
    introduction = [
        f"{made_by(records.where(kind=KIND))}.",
        NOTE,
        "Hold the pointer over a row to see the ids of the raw records (records.jsonl) behind it.",
        *missing,
    ]
    section = Section("Measured", figures, tables)
    return page(out / "report.html", "Methods side by side", introduction, [section]), tables


def _groups(records: Records) -> dict[tuple[Any, ...], list[Record]]:
    """Records by data set, features and limits: what may stand in one table."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record in records.where(kind=KIND):
        key = record["key"]
        found.setdefault((key["data"], key["features"], key["n_rows"], key["n_queries"]), []).append(record)
    return found


def field_tables(records: Records) -> list[ResultTable]:
    """A table for every data set; methods that failed stand in it with their reason."""
    tables = []
    for number, (group, found) in enumerate(_groups(records).items(), start=1):
        table = ResultTable(
            f"field_{number}",
            _title(group, found),
            columns(
                "method, bits, bytes, P@1, ±, P@10, ±, mAP, ±, fit s, encode µs, query ms, seeds, failed"
            ),
            ["", "d", ",d", *[".3f"] * 6, ".2f", ".1f", ".2f", "d", ""],
            note=NOTE,
        )
        for method in FIELD:
            own = [r for r in found if r["key"]["method"] == method]
            for n_bits in sorted({r["key"]["n_bits"] for r in own}, key=lambda n: n or 0):
                table.rows.append(_row(method, n_bits, [r for r in own if r["key"]["n_bits"] == n_bits]))
        tables.append(table)
    return tables


def _title(group: tuple[Any, ...], found: list[Record]) -> str:
    data, features, _, _ = group
    sizes = [r["result"] for r in found if "failed" not in r["result"]]
    name = title_of(data) if "/" not in data else Path(data).parent.name + "/" + Path(data).name
    what = f", {Path(features).name}" if features else ""
    if not sizes:
        return f"{name}{what}"
    return f"{name}{what}: {sizes[0]['n_train']:,} items, {sizes[0]['n_queries']:,} queries"


def _row(method: str, n_bits: int | None, found: list[Record]) -> TableRow:
    done = [r for r in found if "failed" not in r["result"]]
    reasons = Counter(r["result"]["failed"] for r in found if "failed" in r["result"])
    cells: list[Cell] = [METHODS[method].label, n_bits]
    if done:
        cells.append(done[0]["result"]["bytes"])
        for name in ("p_at_1", "p_at_10", "mAP"):
            values = np.array(numbers(done, name))
            cells += [float(values.mean()), float(values.std()) if len(values) > 1 else None]
        cells.append(float(np.median(numbers(done, "fit", "cpu"))))
        encoded = [r["result"]["encode_microseconds"] for r in done]
        cells.append(None if None in encoded else float(np.median(encoded)))
        cells.append(float(np.median(numbers(done, "query_milliseconds"))))
    else:
        cells += [None] * 10
    cells += [len(done), "; ".join(f"{reason} ({n} of {len(found)})" for reason, n in reasons.items())]
    return TableRow(cells, ids(found))


def _figures(records: Records, folder: Path) -> tuple[list[Path], list[str]]:
    """P@10 and mAP against bytes per item, a figure a data set; without matplotlib a sentence."""
    try:
        import matplotlib
        from matplotlib.figure import Figure

        from sihash.research.figures import FIGURE_STYLE
    except ImportError:
        return [], ["There are no plots, as matplotlib is not installed: pip install 'sihash[plots]'."]
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, (group, found) in enumerate(_groups(records).items(), start=1):
        done = [r for r in found if "failed" not in r["result"]]
        if not done:
            continue
        with matplotlib.rc_context(FIGURE_STYLE):
            figure = Figure(figsize=(9.5, 4), layout="constrained")
            figure.suptitle(_title(group, found))
            for ax, score, label in zip(
                figure.subplots(1, 2), ("p_at_10", "mAP"), ("P@10", "mAP"), strict=True
            ):
                _plot(ax, done, score)
                ax.set(xlabel="bytes per item", ylabel=label)
            figure.legend(*ax.get_legend_handles_labels(), loc="outside right upper")
            figure.savefig(folder / f"field_{number}.png", dpi=110)
            figure.savefig(folder / f"field_{number}.svg", metadata={"Date": None})
        paths.append(folder / f"field_{number}.svg")
    return paths, []


def _plot(ax: Any, done: list[Record], score: str) -> None:
    """The means of a score against the bytes of an item; what has no code of its own has a hollow mark."""
    for method, marker in zip(FIELD, cycle("dos^DvPX*<>ph8H+"), strict=False):
        own = [r for r in done if r["key"]["method"] == method]
        sizes = sorted({r["result"]["bytes"] for r in own})
        means = [np.mean([r["result"][score] for r in own if r["result"]["bytes"] == b]) for b in sizes]
        hollow = {} if METHODS[method].hasher else {"markerfacecolor": "white", "linestyle": ":"}
        if own:
            ax.plot(sizes, means, marker=marker, markersize=6, label=METHODS[method].label, **hollow)
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_ylim(bottom=0)
