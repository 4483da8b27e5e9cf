"""The figures of the README: measured, recorded, and written where they are printed.

``make bench`` runs ``python -m benchmarks.figures --write``: each command below runs as a process of its own,
its output is read, the values go to docs/figures.jsonl with command, commit, date and machine, and the
numbers of README.md and docs/benchmarks.md are replaced. ``--only NAME`` measures one of them. A test holds
the pages against the records.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from sihash.research.records import commit, machine

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs" / "figures.jsonl"
PAGES = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md")
FIRST = (
    r"P@1 (?P<p1>[\d.]+) P@10 (?P<p10>[\d.]+) mAP [\d.]+; cosine P@1 (?P<cosine1>[\d.]+) "
    r"P@10 (?P<cosine10>[\d.]+); LDA's label P@1 (?P<lda>[\d.]+)"
)


@dataclass(frozen=True)
class Figure:
    """A line of the README's table.

    ``commands`` are arguments of ``python -m``, each with a pattern that finds values in what it prints
    (their medians, where it prints several); ``printed`` is how the values stand on the pages.
    """

    name: str
    commands: dict[str, str]
    printed: tuple[str, ...]

    def measure(self) -> dict[str, float]:
        values: dict[str, float] = {}
        for command, pattern in self.commands.items():
            done = subprocess.run(
                [sys.executable, "-m", *command.split()], cwd=ROOT, capture_output=True, text=True
            )
            found = [match.groupdict() for match in re.finditer(pattern, done.stdout)]
            if done.returncode or not found:
                raise SystemExit(
                    f"python -m {command} did not print its figures.\n{done.stdout}{done.stderr}"
                )
            values |= {name: median(float(each[name]) for each in found) for name in found[0]}
        return values


def _first(name: str, label: str, *more: str) -> Figure:
    row = f"| {label} | **{{p1:.3f}}, {{p10:.3f}}** | {{cosine1:.3f}}, {{cosine10:.3f}} |"
    return Figure(f"first hits, {name}", {f"benchmarks.search first --data {name}": FIRST}, (row, *more))


FIGURES = (
    _first("cifar10", "CIFAR-10 GIST, 32 bits"),
    _first("mnist", "MNIST pixels, 32 bits"),
    _first("clinc150", "CLINC150 sentences, 150 classes, 64 bits"),
    _first(
        "tiny-imagenet",
        "Tiny-ImageNet-200, 64 bits",
        "its label is right for {lda:.3f} of 10,000 queries, our first hit for {p1:.3f}",
    ),
    Figure(
        "one query",
        {"benchmarks.search time": r"combined: (?P<milliseconds>[\d.]+) ms"},
        ("| one query among a million items | {milliseconds:.1f} ms |",),
    ),
    Figure(
        "learning",
        {
            "benchmarks.sih speed": r"SIH (?P<seconds>[\d.]+) s;",
            "benchmarks.sih memory": r"peak of a fit: (?P<megabytes>\d+) MB",
        },
        ("| learning from 50,000 rows, 32 bits | {seconds:.1f} s, {megabytes:.0f} MB |",),
    ),
    Figure(
        "a million vectors",
        {"benchmarks.end_to_end": r"create +(?P<create>[\d.]+) s(?s:.*?)update +(?P<update>[\d.]+) s"},
        ("| a million vectors: create; update after + 1 % | {create:.1f} s; {update:.1f} s |",),
    ),
    Figure(
        "Hamming mAP",
        {"benchmarks.quality cifar10:32:1000": r"cifar10:32:1000 +(?P<mAP>[\d.]+) ± (?P<spread>[\d.]+)"},
        ("| Hamming mAP, CIFAR-10, 1,000 anchors | {mAP:.3f} ± {spread:.3f} (paper: 0.429) |",),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=[f.name for f in FIGURES], help="default: all")
    parser.add_argument("--write", action="store_true", help="replace the numbers on the pages")
    parser.add_argument("--no-run", action="store_true", help="with --write: from the records that are there")
    args = parser.parse_args()
    if not args.no_run and os.getloadavg()[0] > (os.cpu_count() or 1):
        print(f"This machine is busy (load {os.getloadavg()[0]:.0f}): times will come out worse.", flush=True)
    for figure in FIGURES:
        if not args.no_run and (not args.only or figure.name in args.only):
            started = time.perf_counter()
            values = figure.measure()
            keep(figure, values)
            print(f"{figure.name}: {values} ({time.perf_counter() - started:.0f} s)", flush=True)
    if args.write:
        for page in PAGES:
            page.write_text(rewritten(page.read_text(encoding="utf-8"), records()), encoding="utf-8")


def records() -> dict[str, dict[str, Any]]:
    """The records by the name of their figure."""
    if not RECORDS.exists():
        return {}
    lines = RECORDS.read_text(encoding="utf-8").splitlines()
    return {record["figure"]: record for record in map(json.loads, lines)}


def keep(figure: Figure, values: dict[str, float]) -> None:
    """Put a measurement in the place of the one before; the file is in the order of the figures."""
    found = records()
    found[figure.name] = {
        "figure": figure.name,
        "commands": [f"python -m {command}" for command in figure.commands],
        "commit": commit(),
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {**machine(), "load": os.getloadavg()[0]},
        "values": values,
    }
    lines = [json.dumps(found[f.name], ensure_ascii=False) for f in FIGURES if f.name in found]
    RECORDS.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def printed(found: dict[str, dict[str, Any]]) -> Iterator[tuple[re.Pattern[str], str]]:
    """For every text with figures: where it stands on a page, whatever its numbers, and what it says."""
    for figure in FIGURES:
        if figure.name in found:
            for text in figure.printed:
                around = [re.escape(part) for part in re.split(r"\{[^}]*\}", text)]
                yield re.compile(r"\d+(?:\.\d+)?".join(around)), text.format(**found[figure.name]["values"])


def rewritten(page: str, found: dict[str, dict[str, Any]]) -> str:
    for place, text in printed(found):
        page = place.sub(lambda _, text=text: text, page)  # type: ignore[misc]
    return page


if __name__ == "__main__":
    main()
