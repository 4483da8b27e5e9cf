"""Tables from raw records. Every row names the records that it was computed from."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sihash.research import modifications, rankings
from sihash.research.methods import BASELINES, METHODS
from sihash.research.paper_values import PrintedRow, printed
from sihash.research.records import Record, Records
from sihash.research.scales import Scale

DATA_TITLES = {"cifar10": "CIFAR-10", "mnist": "MNIST", "nuswide": "NUS-WIDE", "digits": "digits"}
PAPER_DATA = ("cifar10", "mnist", "nuswide")
NOT_MEASURED = "not measured"
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


def _columns(names: str) -> list[str]:
    return names.split(", ")


def title_of(data: str) -> str:
    return DATA_TITLES.get(data, data)


def data_sets(records: Records, scale: Scale) -> list[str]:
    """Those of the paper, measured or not, then others that were measured."""
    found = {r["key"]["data"] for r in records.where(scale=scale.name) if "data" in r["key"]}
    return [*PAPER_DATA, *sorted(found - set(PAPER_DATA))]


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


def fit_records(records: Records, scale: Scale, data: str, method: str, **more: Any) -> list[Record]:
    """Fits of a method at the usual sizes of the scale, unless others are given."""
    usual = {"n_bits": scale.bits, "n_train": None, "n_anchors": scale.n_anchors} | more
    if not METHODS[method].has_anchors:
        usual["n_anchors"] = None
    return records.where(kind="fit", scale=scale.name, data=data, method=method, **usual)


def ids(records: list[Record]) -> list[str]:
    return [record["id"] for record in records]


# Table 1.


def table1(records: Records, scale: Scale, data: str) -> ResultTable:
    """The paper's Table 1, ours beside its printed numbers; then rows that it does not have."""
    table = ResultTable(
        f"table1_{data}",
        f"{title_of(data)}, {scale.bits} bits: training and anchor set sizes",
        _columns("method, training rows, anchors, mAP, paper's mAP, difference, precision at 2")
        + _columns("paper's precision, training s, paper's s, training / SDH, paper's ratio")
        + _columns("test µs, paper's µs, seeds"),
        ["", ",d", ",d", ".3f", ".3f", "+.3f", ".3f", ".3f", ".2f", ".1f", ".2f", ".2f", ".1f", ".1f", "d"],
        note="Our seconds are of the processor, summed over threads, medians; the paper's are by the clock. "
        "† not the paper's protocol: the same codes ranked by the query's margins or by class probabilities.",
    )
    sdh = fit_records(records, scale, data, "sdh")
    for n_train, n_anchors in scale.table_sizes:
        sizes = {"n_train": n_train, "n_anchors": n_anchors}
        _add_fit_row(table, data, "sih", fit_records(records, scale, data, "sih", **sizes), sdh)
    for method in ("sih_preset", *BASELINES):
        _add_fit_row(table, data, method, fit_records(records, scale, data, method), sdh)
    for method in ("sih", "sih_ours"):
        for n_anchors in (scale.n_anchors, *scale.more_anchors):
            if (method, n_anchors) != ("sih", scale.n_anchors):
                found = fit_records(records, scale, data, method, n_anchors=n_anchors)
                _add_fit_row(table, data, method, found, sdh)
    for method in ("sih", "sih_ours"):
        found = records.where(kind="ranking", scale=scale.name, data=data, method=method)
        for kind in rankings.RANKINGS if found else ():
            table.rows.append(_ranking_row(method, kind, found))
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


def _ranking_row(method: str, kind: str, found: list[Record]) -> TableRow:
    label = f"{METHODS[method].label}, {kind} ranking †"
    sizes: list[Cell] = [found[0]["result"]["n_train"], found[0]["key"]["n_anchors"]]
    return TableRow([label, *sizes, mean(found, "mAP", kind), *[None] * 10, len(found)], ids(found))


# mAP against code length.


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
    for method in METHODS:
        found = [fit_records(records, scale, data, method, n_bits=n) for n in lengths]
        if any(found):
            means[method] = [mean(f, "mAP") if f else float("nan") for f in found]  # type: ignore[misc]
            counts = sorted({len(f) for f in found if f})
            seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
            cells: list[Cell] = [METHODS[method].label, *means[method], seeds]
            table.rows.append(TableRow(cells, ids([r for f in found for r in f])))
    others = [means[method] for method in BASELINES if method in means]
    for method in ("sih", "sih_ours"):
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
    for method in METHODS:
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
        _columns("change, smaller collection, passive mAP, from scratch mAP, ±, incremental mAP, ±")
        + _columns("difference, from scratch s, incremental s, incremental / scratch")
        + _columns("with first fit / scratch, repeats"),
        ["", "", ".3f", ".3f", ".3f", ".3f", ".3f", "+.4f", ".2f", ".2f", ".2f", ".2f", "d"],
        note="Mean and standard deviation over random repeats; seconds are of the processor, medians.",
    )
    for kind, label in modifications.KINDS.items():
        for point in modifications.points(kind, scale):
            found = change_records(records, scale, data, method, kind, point)
            if found:
                size = f"{point:g} classes" if kind.endswith("classes") else f"{100 * point:.0f} % of images"
                table.rows.append(TableRow([label, size, *_strategy_cells(found)], ids(found)))
    return table


def _strategy_cells(found: list[Record]) -> list[Cell]:
    passive, scratch, updated = (np.array(numbers(found, s, "mAP")) for s in modifications.STRATEGIES)
    first, fresh, update = (np.array(numbers(found, s, "seconds", "cpu")) for s in modifications.STRATEGIES)
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
        _columns("update, rows, classes, passive mAP, incremental mAP, from scratch mAP, difference")
        + _columns("update s, from scratch s"),
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
        cells += margins if key["method"] == "sih" else [None, None]
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
