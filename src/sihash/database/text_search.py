"""Items by a text: their ids, their names and the texts in their columns."""

from __future__ import annotations

import numpy as np

from sihash._typing import Array
from sihash.database.snapshot import Snapshot
from sihash.store.ids import folded, rows_under


def containing(snapshot: Snapshot, text: str) -> Array:
    """Numbers of the living items that hold a text, whatever its case, in order of arrival.

    The item with this very id is first.
    """
    in_columns = [_in_columns(snapshot, text.casefold())]
    in_names = snapshot.catalogue.execute(
        "SELECT id FROM items WHERE name LIKE ? ESCAPE '\\' OR folded LIKE ? ESCAPE '\\'",
        (_pattern(text), _pattern(folded(text))),
    )
    named = np.array([row[0] for row in in_names], dtype=np.int64)
    exact = np.array([row[0] for row in rows_under(snapshot.catalogue, snapshot.places, [text]).values()])
    found = np.unique(np.concatenate([named[snapshot.places.alive(named)], *in_columns]))
    return np.concatenate([exact, np.setdiff1d(found, exact)]).astype(np.int64)


def _pattern(text: str) -> str:
    """For LIKE: this text, with anything around it."""
    for special in "\\%_":
        text = text.replace(special, "\\" + special)
    return f"%{text}%"


def _in_columns(snapshot: Snapshot, wanted: str) -> Array:
    parts = [np.empty(0, dtype=np.int64)]
    for segment in snapshot.places.segments:
        for column in segment.columns.columns.values():
            if column.kind == "text":
                places = [k for k, text in enumerate(column.texts) if wanted in text.casefold()]
                rows = np.isin(column.values, places) & ~column.missing & segment.alive
                parts.append(segment.ids[rows])
    return np.concatenate(parts)
