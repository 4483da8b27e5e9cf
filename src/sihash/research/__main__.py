"""``python -m sihash.research``: the paper's tables and figures, and all methods side by side on any data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sihash.cli.output import emit, errors_as_sentences, print_message

if TYPE_CHECKING:
    from sihash.research.runner import RunProgress

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=__doc__)


@app.command()
@errors_as_sentences()
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

    Writes a report with our numbers beside those of the paper. Results are written as they come: run the same
    command again to continue. Kernel width and soft margin are chosen on training rows only.

    Example: python -m sihash.research reproduce table1 --data cifar10 --scale smoke
    """
    from sihash import research

    _check("experiment", what, (*research.EXPERIMENTS, "all"))
    _check("scale", scale, tuple(research.SCALES))
    names = data or research.available()
    with _bar() as tell:
        page = research.reproduce(what, names, scale, out, tell)
    emit({"report": str(page), "data": names, "scale": scale}, f"Report: {page}", as_json)


@app.command()
@errors_as_sentences()
def field(
    data: Annotated[
        list[str], typer.Argument(metavar="DATA...", help="cifar10, mnist, nuswide, digits, or paths.")
    ],
    method: Annotated[
        list[str] | None, typer.Option(help="A method; repeat for more. A wrong one lists all. Default: all.")
    ] = None,
    bits: Annotated[
        list[int] | None, typer.Option(min=1, help="Code length; repeat for more. Default: 32.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs per method that uses random numbers.")] = 3,
    rows: Annotated[int | None, typer.Option(min=10, help="Use at most this many training rows.")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Use at most this many test rows as queries.")] = 1000,
    seconds: Annotated[float, typer.Option(min=1, help="Time limit per run, in seconds.")] = 600.0,
    features: Annotated[
        str | None,
        typer.Option(
            help="For images: gist, pixels or onnx:FILE. Default: pixels for mnist and digits, else gist."
        ),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed runs again.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for records, tables, plots and page.")] = Path(
        "sihash-field"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print paths and tables as JSON.")] = False,
) -> None:
    """Compare all methods on your data: quality, bytes, times.

    Results are written as they come: run the same command again to continue. A method that fails or takes too
    long appears in the table with the reason.

    Example: python -m sihash.research field digits --method sih --method sdh --bits 32
    """
    from sihash.research import field as runs
    from sihash.research.data import read
    from sihash.research.field_report import write_field_report
    from sihash.research.methods import FIELD

    for name in method or ():
        _check("method", name, FIELD)
    for name in data:  # a missing one is reported before hours are spent on the others
        read(name, mapped=True)
    wanted = runs.FieldPlan(data, method or FIELD, bits or [32], seeds, rows, queries, seconds, features)
    page, tables = write_field_report(runs.compare_methods(wanted, out, retry=retry, tell=_line), out)
    told = "\n".join(table.markdown() for table in tables)
    shown = [{"title": t.title, "columns": t.columns, "rows": [r.cells for r in t.rows]} for t in tables]
    emit({"report": str(page), "tables": shown}, f"{told}\nReport: {page}", as_json)


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"There is no {name} {value!r}; choose one of {', '.join(known)}.")


@contextmanager
def _bar() -> Iterator[Callable[[RunProgress], None]]:
    """A bar with the time left, from the rough costs of the runs; a line per run if there is no terminal."""
    if not sys.stderr.isatty():
        yield _line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=1800) as bar:
        task = bar.add_task("starting", total=None)

        def tell(told: RunProgress) -> None:
            words = f"{told.done} of {told.total}: {told.run}"
            bar.update(task, description=words, completed=told.cost_done, total=told.cost_total)

        yield tell


def _line(told: RunProgress) -> None:
    failed = told.result.get("failed")
    print_message(f"{told.done} of {told.total}: {told.run}: {failed or 'done'} ({told.seconds:.1f} s)")


if __name__ == "__main__":
    app()
