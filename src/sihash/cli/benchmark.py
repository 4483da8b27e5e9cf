"""``sihash benchmark``: every method of the package under one protocol, on any data."""

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
        "sihash-benchmark"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print paths and tables as JSON.")] = False,
) -> None:
    """Compare all methods on your data: quality, bytes, times.

    Results are written as they come: run the same command again to continue. A method that fails or takes too
    long appears in the table with the reason.

    Example: sihash benchmark digits --method sih --method sdh --bits 32
    """
    from sihash.datasets import loading
    from sihash.experiments import field
    from sihash.experiments.field_report import write_field_report

    for name in method or ():
        if name not in field.METHODS:
            raise ValueError(f"There is no method {name!r}; choose from {', '.join(field.METHODS)}.")
    for name in data:  # a missing one is reported before hours are spent on the others
        loading.read(name, mapped=True)
    wanted = field.Field(data, method or field.METHODS, bits or [32], seeds, rows, queries, seconds, features)
    page, tables = write_field_report(field.benchmark(wanted, out, retry=retry, tell=talk), out)
    told = "\n".join(table.markdown() for table in tables)
    shown = [{"title": t.title, "columns": t.columns, "rows": [r.cells for r in t.rows]} for t in tables]
    emit({"report": str(page), "tables": shown}, f"{told}\nReport: {page}", as_json)
