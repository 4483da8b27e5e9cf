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

    With --class, an item that has other labels loses only the label of that class, and relabelled.

    Example: sihash remove DB --class dog --dry-run
    """
    if bool(ids) == bool(classes):
        raise typer.BadParameter("give items with --id, or classes with --class.")
    with open_database(database) as opened:
        from sihash.store.labels import written_labels

        labels = written_labels(opened.labels(), classes or [])
        items = [opened.id_of(text) for text in ids or []]
        if dry_run:
            (removed, relabelled), version = _would_remove(opened, items, labels), opened.version
        else:
            report = opened.remove(items) if ids else opened.remove_classes(labels)
            removed, relabelled, version = report.removed, report.relabelled, report.version
    data = {"version": version, "dry_run": dry_run, "n_removed": len(removed), "removed": removed}
    words = "would be removed; nothing is changed" if dry_run else "removed"
    lose = "would lose" if dry_run else "lost"
    more = f" {len(relabelled):,} more {lose} the label and stay." if relabelled else ""
    text = f"{len(removed):,} {'item' if len(removed) == 1 else 'items'} {words}.{more}"
    emit({**data, "relabelled": relabelled}, text, as_json)


def _would_remove(database: Database, ids: list[Id], labels: list[Any]) -> tuple[list[Id], list[Id]]:
    """Ids of the items that would be removed, and of those that would lose a label only."""
    if ids:
        return list(dict.fromkeys(database.item(id).id for id in ids)), []
    removed: list[Id] = []
    relabelled: list[Id] = []
    for item in database.items(limit=len(database), classes=labels):
        (removed if set(item.labels) <= set(labels) else relabelled).append(item.id)
    return removed, relabelled
