"""Names of training rows: hashable, unique, given or counted."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import count, filterfalse, islice


def new_ids(
    ids: Iterable[Hashable] | None, n: int, first: int, *taken: Mapping[Hashable, int]
) -> list[Hashable]:
    """Ids of ``n`` rows that join those in ``taken``; without ``ids`` numbers from ``first`` on."""
    if ids is None:
        return list(islice(_without(count(first), taken), n))
    names = list(ids)
    if len(names) != n:
        raise ValueError(f"Expected one id per row, got {len(names)} ids for {n} rows.")
    if any(name != name for name in names):
        raise ValueError(
            "NaN cannot be an id, because it does not equal itself; give each row a number or text."
        )
    for ids_there in taken:
        known = list(filter(ids_there.__contains__, names))
        if known:
            raise ValueError(
                f"The id {known[0]!r} is taken by an earlier row; remove it first, or give another id."
            )
    if len(set(names)) < n:
        raise ValueError("An id is given to more than one row; ids must be unique.")
    return names


def check_known(names: list[Hashable], *known: Mapping[Hashable, int]) -> None:
    """Refuse ids to remove that are not there, or given twice."""
    missing = list(_without(names, known))
    if missing or len(set(names)) < len(names):
        problem = f"no row has the id {missing[0]!r}" if missing else "an id is given twice"
        raise KeyError(f"Cannot remove {len(names)} rows: {problem}; ids_ lists the ids there are.")


def _without(names: Iterable[Hashable], known: Iterable[Mapping[Hashable, int]]) -> Iterator[Hashable]:
    """Those that are in none of the mappings: one after the other, a `ChainMap` takes ten times as long."""
    for ids in known:
        names = filterfalse(ids.__contains__, names)
    return iter(names)
