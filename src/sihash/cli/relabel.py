"""``sihash relabel``: change labels of items."""

from __future__ import annotations

from typing import Annotated

import typer

from sihash.cli.options import DatabasePath, Json, open_database
from sihash.cli.output import emit, one_line

WRITTEN = (
    "write `sihash relabel DB ID LABEL...` or `sihash relabel DB --class OLD LABEL`; --none instead of "
    "labels removes them"
)


def relabel(
    database: DatabasePath,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID] [LABEL]...", help="An item (unless --class is given), and its labels, known or new."
        ),
    ] = None,
    more: Annotated[list[str] | None, typer.Option("--id", help="Another item; repeat for more.")] = None,
    classes: Annotated[
        list[str] | None, typer.Option("--class", help="All items of a class; repeat for more.")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Remove the labels.")] = False,
    as_json: Json = False,
) -> None:
    """Change the labels of items, or of whole classes.

    The labels replace all labels of an item. With --class, one label replaces that class; other labels of its
    items stay. Searches use the new labels at once; the next update learns from them. `sihash undo` reverts
    it.

    Example: sihash relabel DB 17 cat

    Example: sihash relabel DB 17 cat asleep
    """
    texts, labels = _read(words or [], more or [], bool(classes), none)
    with open_database(database) as opened:
        from sihash.store.labels import written_labels

        known, ids = opened.labels(), [opened.id_of(text) for text in texts]
        wanted = written_labels(known, labels)
        if classes:
            report = opened.relabel_classes(written_labels(known, classes), wanted)
        else:
            report = opened.relabel(ids, wanted)
    n, n_same = len(report.relabelled), len(set(ids)) - len(report.relabelled)
    now = f"labelled {', '.join(one_line(str(label)) for label in report.labels)}"
    if not report.labels:
        now = "without that label" if classes else "without a label"
    text = f"{n:,} {'item is' if n == 1 else 'items are'} now {now}."
    if n_same > 0:
        text += f" {n_same:,} already had it."
    data = {"version": report.version, "label": report.label, "labels": report.labels}
    emit({**data, "relabelled": report.relabelled}, text, as_json)


def _read(words: list[str], more: list[str], whole_classes: bool, none: bool) -> tuple[list[str], list[str]]:
    """The items and the labels that are meant."""
    n_ids = 0 if whole_classes else 1
    ids, labels = words[:n_ids], words[n_ids:]
    mixed = whole_classes and (more or len(labels) > 1)  # an id beside classes would become a label
    if len(ids) != n_ids or bool(labels) == none or mixed or "" in words:
        raise typer.BadParameter(WRITTEN + ".")
    return [*ids, *more], labels
