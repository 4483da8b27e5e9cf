"""``sihash merge``: two databases become a third."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sihash.cli.options import Json
from sihash.cli.output import emit, phase_bars


def merge(
    first: Annotated[Path, typer.Argument(metavar="A", help="A database.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another that shares its model.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="C", help="A folder that is not there yet, or empty.")
    ],
    as_json: Json = False,
) -> None:
    """Make a database with the items of two.

    They share a model: one began as a copy of the other. Neither is changed. Items that both have come
    once; two different ones under one id are an error.

    Example: sihash merge A B -o C
    """
    with phase_bars() as progress:
        from sihash.database import ImageDatabase

        with ImageDatabase.merge(output, first, second, progress=progress) as merged:
            report, n_items = merged.merged_, len(merged)
    text = (
        f"{output} holds {n_items:,} items: {report.n_first:,} of {first}, {report.n_second:,} of {second}; "
        f"{len(report.skipped):,} are in both."
    )
    emit({**asdict(report), "n_items": n_items}, text, as_json)
