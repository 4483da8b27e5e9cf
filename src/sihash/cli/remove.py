"""``sihash remove``: remove items from a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sihash.cli.options import DatabasePath, Json, open_database
from sihash.cli.output import emit

if TYPE_CHECKING:
    from sihash.database import Database
    from sihash.database.answers import Id


def remove(
    database: DatabasePath,
    ids: Annotated[list[str] | None, typer.Option("--id", help="An item; repeat for more.")] = None,
    classes: Annotated[
        list[str] | None, typer.Option("--class", help="All items of a class; repeat for more.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    as_json: Json = False,
) -> None:
    """Remove items by id or by class. `sihash undo` brings them back.

    With --class, an item that has other labels loses only the label of that class, and stays.

    Example: sihash remove DB --class dog --dry-run
    """
    if bool(ids) == bool(classes):
        raise typer.BadParameter("give items with --id, or classes with --class.")
    with open_database(database) as opened:
        from sihash.store.labels import written_labels

        labels = written_labels(opened.labels(), classes or [])
        own = [opened.id_of(text) for text in ids or []]
        if dry_run:
            (gone, stays), version = _would_go(opened, own, labels), opened.version
        else:
            report = opened.remove(own) if ids else opened.remove_classes(labels)
            gone, stays, version = report.removed, report.relabelled, report.version
    data = {"version": version, "dry_run": dry_run, "n_removed": len(gone), "removed": gone}
    words = "would be removed; nothing is changed" if dry_run else "removed"
    lose = "would lose" if dry_run else "lost"
    more = f" {len(stays):,} more {lose} the label and stay." if stays else ""
    text = f"{len(gone):,} {'item' if len(gone) == 1 else 'items'} {words}.{more}"
    emit({**data, "relabelled": stays}, text, as_json)


def _would_go(database: Database, ids: list[Id], labels: list[Any]) -> tuple[list[Id], list[Id]]:
    """Ids of the items that would be removed, and of those that would lose a label only."""
    if ids:
        return list(dict.fromkeys(database.item(own).id for own in ids)), []
    items = database.items(limit=len(database), classes=labels)
    goes = [set(item.labels) <= set(labels) for item in items]
    return (
        [item.id for item, gone in zip(items, goes, strict=True) if gone],
        [item.id for item, gone in zip(items, goes, strict=True) if not gone],
    )
