"""Ids: what users call their items.

An item's id is the user's own where one was given: text or a whole number, kept exactly as it came, for it is
what joins a hit to the user's table. An item that came without one has its number as its id. Numbers are the
database's own: int64, in the order in which items came, never given twice.

No two items of a collection have ids that differ only in case, in Unicode form, or in that one is a number
and the other its digits: people, file systems and command lines mix such ids up.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.store.catalogue import Catalogue, SqlRow
from sihash.store.errors import DatabaseError, NoSuchItem
from sihash.store.labels import check_text
from sihash.store.segments import Places

Id = str | int

NUMBER_ID = re.compile(r"0|-?[1-9][0-9]{0,18}")  # as Python writes it
LARGEST_ID = (1 << 63) - 1
LARGEST_NUMBER = (1 << 62) - 1  # that the database gives


def plain_id(value: Any) -> Id:
    """An id as the database keeps it; what is neither text nor a whole number is refused."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        if value in ("", ".", "..") or "\0" in value:  # browsers take dots out of addresses
            raise DatabaseError(f"An id must not be empty, '.' or '..', nor hold NUL; got {value[:50]!r}.")
        if "\ufffe" in value or "\uffff" in value:
            raise DatabaseError(
                f"An id must not hold U+FFFE or U+FFFF, got {value[:50]!a}: they are no characters, and some "
                "programs turn them into others."
            )
        return check_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not -LARGEST_ID - 1 <= value <= LARGEST_ID:
            raise DatabaseError(f"An id that is a number must fit 64 bits, got {value}; give it as text.")
        return value
    raise DatabaseError(f"Ids must be text or whole numbers, got {value!r}.")


def plain_ids(values: Any, n: int) -> list[Id]:
    """The ids of ``n`` items, refused unless they can be told apart."""
    values = values.tolist() if hasattr(values, "tolist") else values
    values = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    if len(values) != n:
        raise DatabaseError(f"Expected as many ids as items, got {len(values)} ids for {n} items.")
    ids = [plain_id(value) for value in values]
    seen: dict[str, Id] = {}
    for own in ids:
        key = folded(own)
        if key in seen:
            raise twins(seen[key], own)
        seen[key] = own
    return ids


def twins(one: Id, other: Id) -> DatabaseError:
    """Why two items cannot have these ids."""
    if one == other:
        return DatabaseError(f"The id {one!r} is given twice; ids must be different.")
    return DatabaseError(
        f"The ids {one!r} and {other!r} differ only in case, Unicode form or type; give one of them another."
    )


def folded(own: Id) -> str:
    """Equal for ids that are too much alike."""
    text = str(own)
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def to_row(own: Id | None) -> tuple[str | None, str | None]:
    """An id as the catalogue has it: as JSON, and folded. None for an item that has only its number."""
    return (None, None) if own is None else (json.dumps(own, ensure_ascii=False), folded(own))


def of_row(number: int, given: str | None) -> Id:
    """The id of the item with this number."""
    return number if given is None else json.loads(given)


def as_number(own: Id) -> int | None:
    """The number of the item without an id of its own that would be meant by this one."""
    if isinstance(own, str):
        own = int(own) if NUMBER_ID.fullmatch(own) else -1
    return own if 0 <= own <= LARGEST_NUMBER else None


def largest_number(ids: Iterable[Id | None]) -> int:
    """The largest number among ids, or −1: later numbers are given past it."""
    return max((n for own in ids if own is not None and (n := as_number(own)) is not None), default=-1)


def written(text: str, ids: Sequence[Id]) -> Id:
    """Which of some ids is written like this; the text itself if none is."""
    return next((own for own in ids if str(own) == text), text)


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
