"""``sihash create``: a database from a collection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sihash.cli.options import (
    AllowRejects,
    Columns,
    IdColumn,
    Json,
    Labels,
    Mean,
    Progress,
    Size,
    Std,
    Tensor,
    Vectors,
    emit_added,
    feature_names,
    feature_options,
    refuse_database,
    refuse_missing_source,
)
from sihash.cli.output import ProgressKind, phase_bars


def _indexes(incomplete: str) -> list[str]:
    return [name for name in ("exact", "milvus+http://") if name.startswith(incomplete)]


DEFAULT_TRAINING_ROWS = 100_000  # as in `sihash.hashing.training_sample`, without the import


def _engines(incomplete: str) -> list[str]:
    return [name for name in ("local", "disk", "disk:", "tcp://") if name.startswith(incomplete)]


def create(
    database: Annotated[Path, typer.Argument(metavar="DB", help="A new or empty folder.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder, zip or tar of class folders, a file of vectors, a table, or a data set's name.",
        ),
    ],
    bits: Annotated[
        int | None, typer.Option(min=1, help="Bits per code. Default: by the number of classes.")
    ] = None,
    anchors: Annotated[
        int,
        typer.Option(
            min=1, help="Anchors of the kernel map. More anchors improve retrieval and cost time and memory."
        ),
    ] = 1000,
    features: Annotated[
        str,
        typer.Option(
            help="How images become vectors: efficientnet-lite2 (a network, in the extra photos), gist (a "
            "descriptor from 2001), pixels, or onnx:FILE (yours). auto is the first that is installed.",
            autocompletion=feature_names,
        ),
    ] = "auto",
    size: Size = None,
    mean: Mean = None,
    std: Std = None,
    tensor: Tensor = None,
    labels: Labels = None,
    id_column: IdColumn = None,
    vectors: Vectors = None,
    columns: Columns = None,
    index: Annotated[
        str,
        typer.Option(
            help="Where codes are searched: exact, in this process, or milvus+http://host:port/name.",
            autocompletion=_indexes,
        ),
    ] = "exact",
    sketch: Annotated[
        int, typer.Option(help="Bits kept of each number of a vector, to rank by: 0, 1 or 4.")
    ] = 4,
    training_rows: Annotated[
        str, typer.Option(help="Learn from at most this many items, a fair sample of each class; or all.")
    ] = str(DEFAULT_TRAINING_ROWS),
    engine: Annotated[
        str | None,
        typer.Option(
            help="Where learning keeps its rows: local, disk, disk:<directory>, or the Dask cluster of a "
            "scheduler like tcp://host:8786.",
            autocompletion=_engines,
        ),
    ] = None,
    thumbnails: Annotated[bool, typer.Option(help="Keep small pictures for showing results.")] = True,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    allow_rejects: AllowRejects = False,
    progress: Progress = ProgressKind.auto,
    as_json: Json = False,
) -> None:
    """Make a database from a labelled collection.

    Reads the collection, learns codes from its labels, and encodes it.

    Files that cannot be used are listed on stderr; the exit code is then 3. If it is stopped while it
    describes photos, the same command goes on where it was.

    Example: sihash create DB photos/

    Example: sihash create DB photos/ --features onnx:network.onnx
    """
    refuse_database(database)
    refuse_missing_source(source)
    options = feature_options(size, mean, std, tensor)
    with phase_bars(progress) as tell:
        from sihash.database import Database

        made = Database.create(
            database,
            source,
            labels,
            ids=id_column,
            columns=columns,
            vectors=vectors,
            n_bits=bits,
            n_anchors=anchors,
            features=features,
            feature_options=options,
            index=index,
            sketch=sketch,
            thumbnails=thumbnails,
            training_rows=int(training_rows) if training_rows.isdecimal() else training_rows,  # type: ignore[arg-type]
            progress=tell,
            engine=engine,
            random_state=seed,
        )
        n_classes, n_bits = len(made.labels()), made.info()["n_bits"]
        made.close()
    text = f"{database} holds {n_classes:,} classes in codes of {n_bits} bits, version 1."
    emit_added(made.created_, text, as_json, allow_rejects)
