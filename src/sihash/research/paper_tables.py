"""The tables of the reproduction, from raw records, beside the numbers that the paper prints: its Table 1.

The paper's figures have no numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sihash.research import changes
from sihash.research.methods import BASELINES, METHODS, PAPER
from sihash.research.records import Record, Records
from sihash.research.report import Cell, ResultTable, TableRow, columns, ids, mean, numbers, title_of
from sihash.research.scales import Scale

PAPER_DATA = ("cifar10", "mnist", "nuswide")
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class PrintedRow:
    """A row of Table 1. ``n_anchors`` is None for methods without anchors."""

    method: str
    n_train: int
    n_anchors: int | None
    mAP: float
    precision_at_2: float
    train_seconds: float
    test_microseconds: float


TABLE_1 = (
    PrintedRow("sih_constants", 5_000, 300, 0.322, 0.383, 2.7, 6.1),
    PrintedRow("sih_constants", 5_000, 1_000, 0.366, 0.420, 7.5, 15.9),
    PrintedRow("sih_constants", 5_000, 3_000, 0.393, 0.438, 47.3, 45.7),
    PrintedRow("sih_constants", 50_000, 300, 0.360, 0.417, 61.7, 6.3),
    PrintedRow("sih_constants", 50_000, 1_000, 0.429, 0.478, 171.1, 17.7),
    PrintedRow("sdh", 50_000, 1_000, 0.422, 0.478, 25.0, 24.9),
    PrintedRow("fasthash", 50_000, None, 0.357, 0.271, 628.4, 102.6),
    PrintedRow("ksh", 5_000, 1_000, 0.343, 0.322, 2802.8, 26.8),
    PrintedRow("cca_itq", 50_000, None, 0.325, 0.410, 1.5, 3.8),
)
MACHINE = "Intel Core i7, four cores, 2.8 GHz, MATLAB"


def printed(data: str, method: str, n_train: int, n_anchors: int | None) -> PrintedRow | None:
    """The paper's row for a measurement of ours, if it prints one."""
    if data != "cifar10":
        return None
    method = "sih_constants" if method == "sih_paper" else method
    rows = [r for r in TABLE_1 if (r.method, r.n_train, r.n_anchors) == (method, n_train, n_anchors)]
    return rows[0] if rows else None


def data_sets(records: Records, scale: Scale) -> list[str]:
    """Those of the paper, measured or not, then others that were measured."""
    found = {r["key"]["data"] for r in records.where(scale=scale.name) if "data" in r["key"]}
    return [*PAPER_DATA, *sorted(found - set(PAPER_DATA))]


def fit_records(records: Records, scale: Scale, data: str, method: str, **more: Any) -> list[Record]:
    """Fits of a method at the usual sizes of the scale, unless others are given."""
    usual = {"n_bits": scale.bits, "n_train": None, "n_anchors": scale.n_anchors} | more
    if not METHODS[method].has_anchors:
        usual["n_anchors"] = None
    return records.where(kind="fit", scale=scale.name, data=data, method=method, **usual)


# Table 1.


def table1(records: Records, scale: Scale, data: str) -> ResultTable:
    """The paper's Table 1, ours beside its printed numbers; then rows that it does not have."""
    table = ResultTable(
        f"table1_{data}",
        f"{title_of(data)}, {scale.bits} bits: training and anchor set sizes",
        columns("method, training rows, anchors, mAP, paper's mAP, difference, precision at 2")
        + columns("paper's precision, training s, paper's s, training / SDH, paper's ratio")
        + columns("test µs, paper's µs, seeds"),
        ["", ",d", ",d", ".3f", ".3f", "+.3f", ".3f", ".3f", ".2f", ".1f", ".2f", ".2f", ".1f", ".1f", "d"],
        note="Our seconds are of the processor, summed over threads, medians; the paper's are by the clock.",
    )
    sdh = fit_records(records, scale, data, "sdh")
    for n_train, n_anchors in scale.table_sizes:
        sizes = {"n_train": n_train, "n_anchors": n_anchors}
        _add_fit_row(
            table, data, "sih_constants", fit_records(records, scale, data, "sih_constants", **sizes), sdh
        )
    for method in ("sih_paper", *BASELINES):
        _add_fit_row(table, data, method, fit_records(records, scale, data, method), sdh)
    for method in ("sih_constants", "sih"):
        for n_anchors in (scale.n_anchors, *scale.more_anchors):
            if (method, n_anchors) != ("sih_constants", scale.n_anchors):
                found = fit_records(records, scale, data, method, n_anchors=n_anchors)
                _add_fit_row(table, data, method, found, sdh)
    return table


def _add_fit_row(table: ResultTable, data: str, method: str, found: list[Record], sdh: list[Record]) -> None:
    if not found:
        return
    n_train, n_anchors = found[0]["result"]["n_train"], found[0]["key"]["n_anchors"]
    paper, paper_sdh = printed(data, method, n_train, n_anchors), printed(data, "sdh", 50_000, 1_000)
    mAP, seconds = mean(found, "mAP"), float(np.median(numbers(found, "seconds", "fit", "cpu")))
    sdh_seconds = float(np.median(numbers(sdh, "seconds", "fit", "cpu"))) if sdh else None
    precision = float(np.mean([r["result"]["precision"][2] for r in found]))
    cells: list[Cell] = [METHODS[method].label, n_train, n_anchors, mAP, *_beside(paper, mAP), precision]
    cells += [paper.precision_at_2 if paper else None, seconds, paper.train_seconds if paper else None]
    cells += [seconds / sdh_seconds if sdh_seconds else None]
    cells += [paper.train_seconds / paper_sdh.train_seconds if paper and paper_sdh else None]
    cells += [float(np.median(numbers(found, "test_microseconds")))]
    cells += [paper.test_microseconds if paper else None, len(found)]
    table.rows.append(TableRow(cells, ids([*found, *sdh])))


def _beside(paper: PrintedRow | None, mAP: float | None) -> list[Cell]:
    return [paper.mAP, mAP - paper.mAP] if paper and mAP is not None else [None, None]


def map_table(records: Records, scale: Scale, data: str) -> ResultTable:
    """Mean over the seeds for every method and code length; how far SIH is ahead of the best other method."""
    lengths = scale.code_lengths
    table = ResultTable(
        f"map_{data}",
        f"{title_of(data)}: mAP by code length, {scale.n_anchors:,} anchors",
        ["method", *[f"{n} bits" for n in lengths], "seeds"],
        ["", *[".3f"] * len(lengths), ""],
    )
    means: dict[str, list[float]] = {}
    for method in PAPER:
        found = [fit_records(records, scale, data, method, n_bits=n) for n in lengths]
        if any(found):
            means[method] = [mean(f, "mAP") if f else float("nan") for f in found]  # type: ignore[misc]
            counts = sorted({len(f) for f in found if f})
            seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
            cells: list[Cell] = [METHODS[method].label, *means[method], seeds]
            table.rows.append(TableRow(cells, ids([r for f in found for r in f])))
    others = [means[method] for method in BASELINES if method in means]
    for method in ("sih_constants", "sih"):
        if method in means and others:
            lead = np.array(means[method]) - np.fmax.reduce(others)
            label = f"{METHODS[method].label}, minus the best baseline"
            behind = [i for row in table.rows for i in row.records]
            table.rows.append(TableRow([label, *lead.tolist(), ""], behind))
    return table


def curve_table(records: Records, scale: Scale, data: str) -> ResultTable:
    """Precision and recall at every Hamming radius, 32 bits, a mean over the seeds."""
    table = ResultTable(
        f"pr_{data}",
        f"{title_of(data)}: precision and recall by radius, {scale.bits} bits",
        ["method", "radius", "precision", "recall"],
        ["", "d", ".4f", ".4f"],
    )
    for method in PAPER:
        found = fit_records(records, scale, data, method)
        if found:
            precision = np.mean([r["result"]["precision"] for r in found], axis=0).tolist()
            recall = np.mean([r["result"]["recall"] for r in found], axis=0).tolist()
            for radius, (p, q) in enumerate(zip(precision, recall, strict=True)):
                table.rows.append(TableRow([METHODS[method].label, radius, p, q], ids(found)))
    return table


# Changing collections.


def change_records(
    records: Records, scale: Scale, data: str, method: str, kind: str, point: float
) -> list[Record]:
    return records.where(kind="change", scale=scale.name, data=data, method=method, change=kind, point=point)


def change_table(records: Records, scale: Scale, data: str, method: str) -> ResultTable:
    """The three strategies for every modification and size."""
    table = ResultTable(
        f"incremental_{data}_{method}",
        f"{title_of(data)}, {scale.bits} bits, {METHODS[method].label}: passive, from scratch, incremental",
        columns("change, smaller collection, passive mAP, from scratch mAP, ±, incremental mAP, ±")
        + columns("difference, from scratch s, incremental s, incremental / scratch")
        + columns("with first fit / scratch, repeats"),
        ["", "", ".3f", ".3f", ".3f", ".3f", ".3f", "+.4f", ".2f", ".2f", ".2f", ".2f", "d"],
        note="Mean and standard deviation over random repeats; seconds are of the processor, medians.",
    )
    for kind, label in changes.KINDS.items():
        for point in changes.points(kind, scale):
            found = change_records(records, scale, data, method, kind, point)
            if found:
                size = f"{point:g} classes" if kind.endswith("classes") else f"{100 * point:.0f} % of images"
                table.rows.append(TableRow([label, size, *_strategy_cells(found)], ids(found)))
    return table


def _strategy_cells(found: list[Record]) -> list[Cell]:
    passive, scratch, updated = (np.array(numbers(found, s, "mAP")) for s in changes.STRATEGIES)
    first, fresh, update = (np.array(numbers(found, s, "seconds", "cpu")) for s in changes.STRATEGIES)
    return [
        float(passive.mean()),
        float(scratch.mean()),
        float(scratch.std()),
        float(updated.mean()),
        float(updated.std()),
        float((updated - scratch).mean()),
        float(np.median(fresh)),
        float(np.median(update)),
        float(np.median(update / fresh)),
        float(np.median((first + update) / fresh)),
        len(found),
    ]


def stream_table(records: Records, scale: Scale, data: str) -> ResultTable:
    """The stream where it was held beside a fit from scratch."""
    table = ResultTable(
        f"stream_{data}",
        f"{title_of(data)}: a stream of {scale.n_updates} updates of all four kinds",
        columns("update, rows, classes, passive mAP, incremental mAP, from scratch mAP, difference")
        + columns("update s, from scratch s"),
        ["d", ",d", "d", ".3f", ".3f", ".3f", "+.4f", ".2f", ".2f"],
    )
    for record in records.where(kind="stream", scale=scale.name, data=data):
        for number, step in enumerate(record["result"]["steps"], start=1):
            if "scratch" in step:
                cells: list[Cell] = [number, step["n_rows"], step["n_classes"], step["passive"]]
                cells += [step["incremental"], step["scratch"], step["incremental"] - step["scratch"]]
                cells += [step["seconds"]["cpu"], step["scratch_seconds"]["cpu"]]
                table.rows.append(TableRow(cells, [record["id"]]))
    return table


# The small ones.


def plane_table(records: Records, scale: Scale) -> ResultTable:
    """Steps of OCAS from the earlier solution and from zero."""
    table = ResultTable(
        "svm",
        "OCAS in the plane: steps from the earlier solution and from zero",
        ["stage", "points", "steps", "steps from zero"],
        ["", "d", "d", "d"],
    )
    for record in records.where(kind="svm", scale=scale.name):
        for s in record["result"]["stages"]:
            cells: list[Cell] = [s["name"], len(s["rows"]), s["n_steps"], s["n_steps_from_zero"]]
            table.rows.append(TableRow(cells, [record["id"]]))
    return table


def selection_table(records: Records, scale: Scale) -> ResultTable:
    """Kernel widths and margins, and the mAP on held-out training rows that they were chosen by."""
    table = ResultTable(
        "selection",
        "Chosen on held-out training rows",
        ["data", "method", "kernel width", "C used", "C by validation", "mAP held out"],
        ["", "", "g", "g", "g", ".3f"],
        note="For CIFAR-10 the paper prints C = 16, which is used; C counts for SIH only.",
    )
    for record in records.where(kind="selection", scale=scale.name):
        key, result = record["key"], record["result"]
        best = max(trial["mAP"] for trial in result["tried"])
        cells: list[Cell] = [title_of(key["data"]), METHODS[key["method"]].label, result["width"]]
        margins: list[Cell] = [result["C"], result["C_by_validation"]]
        cells += margins if key["method"] == "sih_constants" else [None, None]
        table.rows.append(TableRow([*cells, best], [record["id"]]))
    return table


def all_tables(records: Records, scale: Scale) -> list[ResultTable]:
    """Those that have rows."""
    found = data_sets(records, scale)
    tables = [
        make(records, scale, data)
        for make in (table1, map_table, curve_table, stream_table)
        for data in found
    ]
    tables += [change_table(records, scale, data, m) for data in found for m in scale.repeats]
    tables += [plane_table(records, scale), selection_table(records, scale)]
    return [table for table in tables if table.rows]
