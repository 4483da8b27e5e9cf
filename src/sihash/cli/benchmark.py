"""``sihash benchmark``: every method of the package by one protocol, on any data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sihash.cli.output import emit, talk


def benchmark(
    data: Annotated[
        list[str], typer.Argument(metavar="DATA...", help="cifar10, mnist, nuswide, digits, or paths.")
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="search (as sihash search answers), sih, sih_paper, dbc, sdh, fasthash, ksh, bre, "
            "cca_itq, pca_itq, lsh; without codes: cosine, sign_bits, rescored, pq, lda. Repeat for more. "
            "Default: all."
        ),
    ] = None,
    bits: Annotated[
        list[int] | None, typer.Option(min=1, help="Code length; repeat for more. Default: 32.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of a method that draws at random.")] = 3,
    rows: Annotated[int | None, typer.Option(min=10, help="Training rows at most.")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Test rows that ask, at most.")] = 1000,
    seconds: Annotated[float, typer.Option(min=1, help="Seconds that a run may take.")] = 600.0,
    features: Annotated[
        str | None, typer.Option(help="Of images: gist, pixels or onnx:FILE. Default: the usual ones.")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run again what failed.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for records, tables, plots and page.")] = Path(
        "sihash-benchmark"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print paths and tables as JSON.")] = False,
) -> None:
    """Compare all methods on your data: quality, bytes, times.

    Results are written as they come: the same command goes on where a stopped one was. A method that fails or
    takes too long stands in the table with the reason.

    Example: sihash benchmark digits --method sih --method sdh --bits 32
    """
    from sihash.datasets import loading
    from sihash.experiments import field
    from sihash.experiments.field_report import write_field_report

    for name in method or ():
        if name not in field.METHODS:
            raise ValueError(f"There is no method {name!r}; choose of {', '.join(field.METHODS)}.")
    for name in data:  # one that is not there is told before hours are spent on the others
        loading.read(name, mapped=True)
    wanted = field.Field(data, method or field.METHODS, bits or [32], seeds, rows, queries, seconds, features)
    page, tables = write_field_report(field.benchmark(wanted, out, retry=retry, tell=talk), out)
    told = "\n".join(table.markdown() for table in tables)
    shown = [{"title": t.title, "columns": t.columns, "rows": [r.cells for r in t.rows]} for t in tables]
    emit({"report": str(page), "tables": shown}, f"{told}\nReport: {page}", as_json)
