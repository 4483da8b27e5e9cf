"""Which items a collection has under which ids, and whether what comes is there already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from sihash._typing import Array
from sihash.database.answers import Id, LabelSet
from sihash.database.intake import Present
from sihash.store.catalogue import Catalogue, SqlRow
from sihash.store.errors import NoSuchItem
from sihash.store.ids import as_number, folded, of_row, plain_id, twins
from sihash.store.segments import Places

if TYPE_CHECKING:
    from sihash.database.snapshot import Snapshot


def has_own_ids(catalogue: Catalogue) -> bool:
    """Whether any item ever had another id than its number."""
    return bool(catalogue.execute("SELECT 1 FROM items WHERE folded IS NOT NULL LIMIT 1"))


def rows_under(catalogue: Catalogue, places: Places, ids: Iterable[Id]) -> dict[str, SqlRow]:
    """Rows of the living items with ids like these, by the folded id: one each."""
    ids = list(ids)
    rows: list[SqlRow] = []
    if has_own_ids(catalogue):
        rows = list(catalogue.rows_in("items", "folded", sorted({folded(own) for own in ids})))
    numbers = [number for own in ids if (number := as_number(own)) is not None]
    rows += [row for row in catalogue.items(numbers).values() if row[6] is None]
    alive = places.alive(np.array([row[0] for row in rows], dtype=np.int64))
    return {row[6] or str(row[0]): row for row, lives in zip(rows, alive, strict=True) if lives}


def numbers_of(catalogue: Catalogue, places: Places, ids: Iterable[Any]) -> Array:
    """Numbers of items by their ids, in their order; an id that the collection does not have is refused."""
    values = [plain_id(value) for value in ids]
    if all(type(value) is int and as_number(value) == value for value in values):
        numbers = np.array(values, dtype=np.int64)
        if not has_own_ids(catalogue) and places.alive(numbers).all():
            return numbers
    rows = rows_under(catalogue, places, values)
    out = []
    for value in values:
        row = rows.get(folded(value))
        own = None if row is None else of_row(row[0], row[5])
        if row is None or own != value or type(own) is not type(value):
            hint = "" if own is None else f"; there is {own!r}"
            raise NoSuchItem(f"No item has the id {value!r}{hint}.")
        out.append(row[0])
    return np.array(out, dtype=np.int64)


def ids_of_numbers(catalogue: Catalogue, numbers: Sequence[int]) -> list[Id]:
    """Ids of items by their numbers, in their order."""
    if not has_own_ids(catalogue):
        return list(numbers)
    rows = catalogue.items(numbers)
    return [of_row(number, rows[number][5]) for number in numbers]


class Collected:
    """See `sihash.database.intake.Known`. The items of a collection that live."""

    def __init__(self, snapshot: Snapshot, catalogue: Catalogue) -> None:
        self._snapshot, self._catalogue = snapshot, catalogue

    def contents(self, contents: list[bytes], but: Set[Id] = frozenset()) -> dict[bytes, LabelSet]:
        found = list(self._catalogue.rows_in("items", "content", contents))
        alive = self._snapshot.places.alive(np.array([row[0] for row in found], dtype=np.int64))
        living = [row for row, lives in zip(found, alive, strict=True) if lives]
        living = [row for row in living if not but or of_row(row[0], row[5]) not in but]
        labels = self._snapshot.labels(np.array([row[0] for row in living], dtype=np.int64))
        return dict(zip((row[4] for row in living), labels, strict=True))

    def under(self, ids: list[Id]) -> dict[Id, Present]:
        places = self._snapshot.places
        rows = rows_under(self._catalogue, places, ids)
        wanted = {folded(own): own for own in ids}
        numbers = np.array([row[0] for row in rows.values()], dtype=np.int64)
        columns, labels = places.columns(numbers), self._snapshot.labels(numbers)
        out = {}
        for (key, row), own_labels, said in zip(rows.items(), labels, columns, strict=True):
            number, _, _, _, content, given, _ = row
            own = of_row(number, given)
            if own != wanted[key]:
                raise twins(own, wanted[key])
            out[own] = Present(number, own, content, own_labels, said)
        return out
