"""``sihash add``: more items for a database."""

from __future__ import annotations

from itertools import repeat
from typing import Annotated, Any

import typer

from sihash.cli.options import (
    AllowRejects,
    Columns,
    Database,
    IdColumn,
    Json,
    Labels,
    Progress,
    emit_added,
    open_database,
    refuse_missing_source,
)
from sihash.cli.output import ProgressKind, phase_bars


def add(
    database: Database,
    source: Annotated[
        str, typer.Argument(help="An image, a folder, zip or tar of class folders, or a vector file.")
    ],
    label: Annotated[
        list[str] | None, typer.Option(help="A label for all of SOURCE; repeat for more.")
    ] = None,
    labels: Labels = None,
    id_column: IdColumn = None,
    columns: Columns = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Let items take the place of those that have their ids.")
    ] = False,
    prefix: Annotated[
        str, typer.Option(help="Put before the paths that are ids of files, as in --prefix holiday/.")
    ] = "",
    allow_rejects: AllowRejects = False,
    progress: Progress = ProgressKind.auto,
    as_json: Json = False,
) -> None:
    """Add items to a database.

    Searches find them at once; the next `sihash update` learns from them.

    Content that is there already is skipped. What comes under an id that is there, and differs from it, is an
    error, unless --replace is given. Files that cannot be used are listed on stderr, and the exit
    code is then 3. Content that is in the database with another label, or twice in SOURCE, is named, too: in
    SOURCE, the item gets both labels.

    Example: sihash add DB more-photos/
    """
    if label is not None and labels is not None:
        raise typer.BadParameter("give --label for all items, or --labels by name; not both.")
    refuse_missing_source(source)
    with phase_bars(progress) as tell, open_database(database) as opened:
        from sihash.database.label_text import written_labels

        given: Any = labels if label is None else repeat(written_labels(opened.labels(), label))
        report = opened.add(
            source,
            given,
            ids=id_column,
            columns=columns,
            replace=replace,
            prefix=prefix,
            progress=tell,
        )
        if not (report.added or report.skipped or report.rejected):
            raise ValueError(f"There is nothing to add in {source}; is it empty?")
    emit_added(report, f"found by version {report.version}.", as_json, allow_rejects)
