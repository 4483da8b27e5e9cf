"""``sihash merge``: combine two databases in a third."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sihash.cli.options import Json
from sihash.cli.output import emit, phase_bars


def merge(
    first: Annotated[Path, typer.Argument(metavar="A", help="A database.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another database with the same model.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="C", help="A new or empty folder.")],
    as_json: Json = False,
) -> None:
    """Combine two databases in a new one.

    Both must share a model: one began as a copy of the other, and neither was updated since. Neither is
    changed. Items in both are kept once; two different items under one id are an error.

    Example: sihash merge A B -o C
    """
    with phase_bars() as progress:
        from sihash.database import Database

        with Database.merge(output, first, second, progress=progress) as merged:
            report, n_items = merged.merged_, len(merged)
    text = (
        f"{output} holds {n_items:,} items: {report.n_first:,} from {first}, {report.n_second:,} from "
        f"{second}; {len(report.skipped):,} are in both."
    )
    emit({**asdict(report), "n_items": n_items}, text, as_json)
