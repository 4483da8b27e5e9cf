"""The paper reproduced: plan the runs, do those that are missing, write everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sihash.datasets import loading
from sihash.research import fits, modifications, planes, selection, stream
from sihash.research.lab import Lab, Run, RunProgress
from sihash.research.methods import BASELINES, METHODS
from sihash.research.records import Records
from sihash.research.report import write_report
from sihash.research.scales import SCALES, Scale

EXPERIMENTS = ("table1", "map", "pr", "incremental", "svm", "stream")
RECORDS = "records.jsonl"


def reproduce(
    what: str, data: list[str], scale_name: str, out: Path, tell: Callable[[RunProgress], None] | None = None
) -> Path:
    """Run experiments (one of `EXPERIMENTS`, or "all") on data sets, and write the report of all records.

    What is recorded in ``out`` is not run again. Returns the path of the HTML report.
    """
    scale = SCALES[scale_name]
    for name in data:  # one that is not there is told before hours are spent on the others
        loading.read(name, mapped=True)
    wanted = EXPERIMENTS if what == "all" else (what,)
    lab = Lab(scale, Records(out / RECORDS))
    lab.execute(plan(wanted, data, scale), tell)
    return write_report(lab.records, scale, out)


def plan(wanted: tuple[str, ...], data: list[str], scale: Scale) -> list[Run]:
    """The runs of some experiments, the cheap and telling ones first, data set after data set."""
    runs = planes.plan(scale) if "svm" in wanted else []
    for name in data:
        if set(wanted) != {"svm"}:
            runs += selection.plan(name, scale)
        if "table1" in wanted:
            runs += table1(name, scale)
        if "pr" in wanted:
            runs += pr(name, scale)
        if "map" in wanted:
            runs += map_by_length(name, scale)
        if "stream" in wanted:
            runs += stream.plan(name, scale)
        if "incremental" in wanted:
            runs += modifications.plan(name, scale)
    return runs


def table1(data: str, scale: Scale) -> list[Run]:
    """The rows of the paper's Table 1, then ours: more anchors, our defaults, other rankings."""
    runs = []
    for seed in range(scale.table_seeds):
        for n_train, n_anchors in scale.table_sizes:
            runs.append(fits.run(data, "sih", scale, seed, n_train=n_train, n_anchors=n_anchors))
        runs += [fits.run(data, method, scale, seed) for method in (*BASELINES, "sih_preset", "sih_ours")]
    for method in ("sih", "sih_ours"):
        runs += [fits.run(data, method, scale, 0, n_anchors=n) for n in scale.more_anchors]
        runs.append(fits.ranking_run(data, method, scale, 0))
    return runs


def pr(data: str, scale: Scale) -> list[Run]:
    """Every method at 32 bits."""
    return [fits.run(data, method, scale, 0) for method in METHODS]


def map_by_length(data: str, scale: Scale) -> list[Run]:
    """Every method at every code length, seed after seed."""
    return [
        fits.run(data, method, scale, seed, n_bits=n_bits)
        for seed in range(scale.n_seeds)
        for n_bits in scale.code_lengths
        for method in METHODS
        if seed < scale.seeds(method)
    ]
