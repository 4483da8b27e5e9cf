"""``sihash add``: more items for a database."""

from __future__ import annotations

from itertools import repeat
from typing import Annotated, Any

import typer

from sihash.cli.options import (
    AllowRejects,
    Columns,
    DatabasePath,
    IdColumn,
    Json,
    Labels,
    Progress,
    Vectors,
    emit_added,
    open_database,
    refuse_missing_source,
)
from sihash.cli.output import ProgressKind, phase_bars


def add(
    database: DatabasePath,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="An image, a folder, zip or tar of class folders, a file of vectors, a table, or a "
            "data set's name.",
        ),
    ],
    label: Annotated[
        list[str] | None, typer.Option(help="A label for all of SOURCE; repeat for more.")
    ] = None,
    labels: Labels = None,
    id_column: IdColumn = None,
    vectors: Vectors = None,
    columns: Columns = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace items that have the same ids.")] = False,
    prefix: Annotated[
        str, typer.Option(help="Put this before file paths when they become ids, like --prefix holiday/.")
    ] = "",
    allow_rejects: AllowRejects = False,
    progress: Progress = ProgressKind.auto,
    as_json: Json = False,
) -> None:
    """Add items to a database.

    Searches find them at once; the next `sihash update` learns from them.

    Images that are already there are skipped. Vectors without ids are all added, also those that equal
    earlier ones. A different item under an id that is already there is an error, unless --replace is given.
    Files that cannot be used are listed on stderr; the exit code is then 3. What equals an earlier item with
    another label is listed too. An image that is in SOURCE twice becomes one item with the labels of both.

    Example: sihash add DB more-photos/
    """
    if label is not None and labels is not None:
        raise typer.BadParameter("give --label (one for all items) or --labels (a file), not both.")
    refuse_missing_source(source)
    with phase_bars(progress) as tell, open_database(database) as opened:
        from sihash.store.labels import written_labels

        given: Any = labels if label is None else repeat(written_labels(opened.labels(), label))
        report = opened.add(
            source,
            given,
            ids=id_column,
            columns=columns,
            vectors=vectors,
            replace=replace,
            prefix=prefix,
            progress=tell,
        )
        if not (report.added or report.skipped or report.rejected):
            raise ValueError(f"{source} holds nothing to add; is it empty?")
    text = f"`sihash update {database}` learns from them." if report.added else "nothing has changed."
    emit_added(report, text, as_json, allow_rejects)
