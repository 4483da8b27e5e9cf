"""The paper reproduced: plan the runs, do those that are missing, write everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sihash.research import changes, fits, planes
from sihash.research.claims import claims_table
from sihash.research.data import read
from sihash.research.figures import write_figures
from sihash.research.methods import BASELINES, PAPER
from sihash.research.paper_tables import MACHINE, all_tables, data_sets
from sihash.research.records import Records, made_by
from sihash.research.report import ResultTable, Section, page, title_of, write_tables
from sihash.research.runner import Run, Runner, RunProgress
from sihash.research.scales import SCALES, Scale

EXPERIMENTS = ("table1", "map", "pr", "incremental", "svm", "stream")
RECORDS = "records.jsonl"
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


def reproduce(
    what: str, data: list[str], scale_name: str, out: Path, tell: Callable[[RunProgress], None] | None = None
) -> Path:
    """Run experiments (one of `EXPERIMENTS`, or "all") on data sets, and write the report of all records.

    What is recorded in ``out`` is not run again. Returns the path of the HTML report.
    """
    scale = SCALES[scale_name]
    for name in data:  # one that is not there is told before hours are spent on the others
        read(name, mapped=True)
    wanted = EXPERIMENTS if what == "all" else (what,)
    runner = Runner(scale, Records(out / RECORDS))
    runner.execute(plan(wanted, data, scale), tell)
    return write_report(runner.records, scale, out)


def plan(wanted: tuple[str, ...], data: list[str], scale: Scale) -> list[Run]:
    """The runs of some experiments, the cheap and telling ones first, data set after data set."""
    runs = planes.plan(scale) if "svm" in wanted else []
    for name in data:
        if set(wanted) != {"svm"}:
            runs += fits.selection_runs(name, scale)
        if "table1" in wanted:
            runs += table1(name, scale)
        if "pr" in wanted:
            runs += pr(name, scale)
        if "map" in wanted:
            runs += map_by_length(name, scale)
        if "stream" in wanted:
            runs += changes.stream_runs(name, scale)
        if "incremental" in wanted:
            runs += changes.change_runs(name, scale)
    return runs


def table1(data: str, scale: Scale) -> list[Run]:
    """The rows of the paper's Table 1, then ours: more anchors, our defaults."""
    runs = []
    for seed in range(scale.table_seeds):
        for n_train, n_anchors in scale.table_sizes:
            runs.append(fits.run(data, "sih_constants", scale, seed, n_train=n_train, n_anchors=n_anchors))
        runs += [fits.run(data, method, scale, seed) for method in (*BASELINES, "sih_paper", "sih")]
    for method in ("sih_constants", "sih"):
        runs += [fits.run(data, method, scale, 0, n_anchors=n) for n in scale.more_anchors]
    return runs


def pr(data: str, scale: Scale) -> list[Run]:
    """Every method at 32 bits."""
    return [fits.run(data, method, scale, 0) for method in PAPER]


def map_by_length(data: str, scale: Scale) -> list[Run]:
    """Every method at every code length, seed after seed."""
    return [
        fits.run(data, method, scale, seed, n_bits=n_bits)
        for seed in range(scale.n_seeds)
        for n_bits in scale.code_lengths
        for method in PAPER
        if seed < scale.seeds(method)
    ]


# The report, from raw records alone.


def write_report(records: Records, scale: Scale, out: Path) -> Path:
    """Write ``tables/``, ``figures/`` and ``report.html`` below ``out``; returns the page."""
    tables = [claims_table(records, scale), *all_tables(records, scale)]
    write_tables(tables, out)
    figures = write_figures(records, scale, out / "figures")
    sections = [Section("Beside the paper, in words", sentences=in_words(tables))]
    for prefix, heading in _SECTIONS:
        mine = [table for table in tables if table.name.split("_")[0] == prefix]
        if mine:
            drawings = [path for path in figures if path.stem.split("_")[0] == prefix]
            sections.append(Section(heading, drawings, mine, folded=prefix == "pr"))
    title = "Supervised Incremental Hashing, reproduced"
    return page(out / "report.html", title, introduction(records, scale), sections)


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
