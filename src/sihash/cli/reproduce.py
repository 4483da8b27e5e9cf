"""``sihash reproduce``: the tables and figures of the paper."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sihash.cli.output import emit, talk

if TYPE_CHECKING:
    from sihash.experiments.lab import RunProgress as Told


def reproduce(
    what: Annotated[str, typer.Argument(help="table1, map, pr, incremental, svm, stream or all.")] = "all",
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="cifar10, mnist, nuswide, digits or a path; repeat for more. Default: those found."
        ),
    ] = None,
    scale: Annotated[str, typer.Option(help="smoke (minutes), small, or full (hours).")] = "small",
    out: Annotated[Path, typer.Option(help="Folder for records, tables, figures and report.")] = Path(
        "sihash-reproduction"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print the paths and counts as JSON.")] = False,
) -> None:
    """Reproduce the tables and figures of the paper.

    Writes a report with our numbers beside those of the paper.

    Results are written as they come: run the same command again to continue. Kernel width and soft margin are
    chosen on training rows only.

    Example: sihash reproduce table1 --data cifar10 --scale smoke
    """
    from sihash import experiments

    _check("experiment", what, (*experiments.EXPERIMENTS, "all"))
    _check("scale", scale, tuple(experiments.SCALES))
    names = data or experiments.available()
    with _bar() as tell:
        page = experiments.reproduce(what, names, scale, out, tell)
    emit({"report": str(page), "data": names, "scale": scale}, f"Report: {page}", as_json)


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"There is no {name} {value!r}; choose one of {', '.join(known)}.")


@contextmanager
def _bar() -> Iterator[Callable[[Told], None]]:
    """A bar with the time left, from the rough costs of the runs; a line per run if there is no terminal."""
    if not sys.stderr.isatty():
        yield _line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=1800) as bar:
        task = bar.add_task("starting", total=None)

        def tell(told: Told) -> None:
            words = f"{told.done} of {told.total}: {told.run}"
            bar.update(task, description=words, completed=told.cost_done, total=told.cost_total)

        yield tell


def _line(told: Told) -> None:
    talk(f"{told.done} of {told.total}: {told.run}: {told.seconds:.1f} s")
