"""``sihash classify``: the likely class of a query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sihash.cli.options import Database, Json, open_database, refuse_missing_files
from sihash.cli.output import emit, one_line
from sihash.cli.queries import read_queries


def classify(
    database: Database,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE…", help="Images, or files of vectors.")],
    as_json: Json = False,
) -> None:
    """Predict the class of images or vectors, with probabilities.

    Example: sihash classify DB query.jpg
    """
    refuse_missing_files(images)
    with open_database(database) as opened:
        queries, names = read_queries(opened, images)
        found = opened.classify(queries)
    rows: list[dict[str, Any]] = [
        {
            "query": name,
            "label": one.label,
            "probability": one.probability,
            "probabilities": one.probabilities,
        }
        for name, one in zip(names, found, strict=True)
    ]
    lines = [
        f"{one_line(row['query'])}: {one_line(str(row['label']))} ({row['probability']:.3f})" for row in rows
    ]
    emit({"version": found[0].version, "answers": rows}, "\n".join(lines), as_json)
