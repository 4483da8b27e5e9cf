"""``sihash classify``: the likely class of a query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sihash.cli.options import DatabasePath, Json, open_database, refuse_missing_files
from sihash.cli.output import emit, one_line
from sihash.cli.queries import read_queries


def classify(
    database: DatabasePath,
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
            "labels": one.labels,
            "probability": one.probability,
            "probabilities": one.probabilities,
        }
        for name, one in zip(names, found, strict=True)
    ]
    lines = [f"{one_line(row['query'])}: {_told(row)}" for row in rows]
    emit({"version": found[0].version, "answers": rows}, "\n".join(lines), as_json)


def _told(row: dict[str, Any]) -> str:
    """The labels of a query, each with its probability."""
    likely = sorted(row["labels"], key=lambda label: -row["probabilities"][label])
    return ", ".join(f"{one_line(str(label))} ({row['probabilities'][label]:.3f})" for label in likely)
