"""``sihash refeature``: other features for the photos of a database."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from sihash.cli.options import (
    DatabasePath,
    Json,
    Mean,
    Progress,
    Size,
    Std,
    Tensor,
    feature_names,
    feature_options,
    open_database,
    refuse_missing_source,
)
from sihash.cli.output import ProgressKind, emit, phase_bars


def refeature(
    database: DatabasePath,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="PHOTOS",
            help="A folder, zip or tar that holds the photos. Default: where they were when they came.",
        ),
    ] = None,
    features: Annotated[
        str, typer.Option(help="How photos become vectors; as in create.", autocompletion=feature_names)
    ] = "auto",
    size: Size = None,
    mean: Mean = None,
    std: Std = None,
    tensor: Tensor = None,
    progress: Progress = ProgressKind.auto,
    as_json: Json = False,
) -> None:
    """Describe all photos by other features.

    Ids, labels, columns and the log of versions stay; undo ends here. Searches continue meanwhile. Stopped,
    the same command goes on where it was.

    Example: sihash refeature DB --features efficientnet-lite2
    """
    if source is not None:
        refuse_missing_source(source)
    options = feature_options(size, mean, std, tensor)
    with phase_bars(progress) as tell, open_database(database) as opened:
        report = opened.refeature(features, source, feature_options=options, progress=tell)
        name, n_numbers = opened.features.name, opened.info()["n_features"]
    done = (
        f"{report.n_reencoded:,} photos described"
        if report.changed
        else "Nothing to do: photos are described"
    )
    text = f"{done} by {name} ({n_numbers:,} numbers); version {report.version}."
    emit(asdict(report), text, as_json)
