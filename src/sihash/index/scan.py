"""Exact search: one pass over all codes, or over those of some groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.checks import check_count
from sihash.codes import as_words
from sihash.index.base import (
    check_codes,
    check_ids,
    check_radius,
    check_search,
    refuse_missing,
    refuse_present,
)
from sihash.threads import map_threads

HIDDEN = np.uint16(1 << 15)  # added to a distance, it is beyond every other
THREADED = 1 << 21  # distances of a batch from which a second thread pays


class ScanIndex:
    """See `CodeIndex`. Exact, and the order of ties is exact too.

    Items may be of a group each (a number ≥ −1, such as their class); those of a group lie together, and
    `nearest` looks at some groups only. Items lie in parts that never move: what comes is a part of its own,
    and the last parts become one while one is at least half as large as that before it. So there are few,
    and an item is moved a number of times that grows with the logarithm of theirs.
    """

    def __init__(self, n_bits: int) -> None:
        check_count("n_bits", n_bits)
        self.n_bits = n_bits
        self._parts: list[_Part] = []
        self._allowed: tuple[Array | None, list[Array]] = (None, [])  # the last of `_hidden`

    def __len__(self) -> int:
        return sum(part.n_live for part in self._parts)

    @property
    def ties_by_id(self) -> bool:
        return True

    def add(self, ids: Array, codes: Array, groups: Array | None = None) -> None:
        ids = check_ids(ids)
        codes = check_codes(codes, self.n_bits, len(ids))
        for part in self._parts:
            refuse_present(ids[part.find(ids) >= 0])
        if groups is None:
            groups = np.full(len(ids), -1, dtype=np.int32)
        if len(ids):
            self._become([*self._parts, _Part.of(ids, groups.astype(np.int32), as_words(codes).T)])

    def remove(self, ids: Array) -> None:
        ids = check_ids(ids)
        slots = [part.find(ids) for part in self._parts]
        refuse_missing(ids[~np.any([own >= 0 for own in slots], axis=0)] if slots else ids)
        for part, own in zip(self._parts, slots, strict=True):
            part.hide(own[own >= 0])
        self._become([part for part in self._parts if part.n_live])

    def replace(self, ids: Array, codes: Array, groups: Array | None = None) -> None:
        """With ``groups`` None all stay in that of before."""
        ids = check_ids(ids)
        codes = check_codes(codes, self.n_bits, len(ids))
        if groups is None:
            groups = np.full(len(ids), -1, dtype=np.int32)
            for part in self._parts:
                own = part.find(ids)
                groups[own >= 0] = part.groups[own[own >= 0]]
        self.remove(ids)
        self.add(ids, codes, groups)

    def nearest(
        self,
        code: Array,
        n: int,
        at_least: int = 1,
        allowed: Array | None = None,
        groups: Array | None = None,
    ) -> Array:
        """About ``n`` ids at the least distances from one code, in any order: of the items at one distance
        all, or none if that leaves ``n`` // 2 and ``at_least``.

        ``groups`` says of which groups (a bool for each number, that for −1 at the end); others are passed
        over.
        """
        found, counts = self._scan(as_words(code)[0], allowed, groups)
        within = np.cumsum(counts)
        last = int(np.searchsorted(within, n))  # the distance of the n-th
        if last < len(within) and within[last] > n and last and within[last - 1] >= max(at_least, n // 2):
            last -= 1
        return np.concatenate([np.empty(0, np.int64), *(scan.within(last)[1] for scan in found)])

    def group_sizes(self, n_groups: int) -> Array:
        """How many items each group has (n_groups + 1,), that for −1 at the end."""
        sizes = np.zeros(n_groups + 1, dtype=np.int64)
        for part in self._parts:
            np.add.at(sizes, part.group_numbers, part.n_live_by_group)
        return sizes

    def search(self, codes: Array, k: int, allowed: Array | None = None) -> tuple[Array, Array]:
        queries = as_words(check_search(codes, self.n_bits, k))
        near = np.full((len(queries), k), -1, dtype=np.int32)
        found = np.full((len(queries), k), -1, dtype=np.int64)

        def one(number: int) -> None:
            scans, counts = self._scan(queries[number], allowed)
            distances, ids = _ordered(scans, int(np.searchsorted(np.cumsum(counts), k)))
            near[number, : len(ids)], found[number, : len(ids)] = distances[:k], ids[:k]

        self._for_each(one, len(queries))
        return near, found

    def radius(self, codes: Array, r: int, allowed: Array | None = None) -> list[tuple[Array, Array]]:
        check_radius(r)
        queries = as_words(check_codes(codes, self.n_bits))
        answers: list[Any] = [None] * len(queries)

        def one(number: int) -> None:
            answers[number] = _ordered(self._scan(queries[number], allowed)[0], min(r, self.n_bits))

        self._for_each(one, len(queries))
        return answers

    def describe(self) -> dict[str, Any]:
        return {"kind": "exact", "n_bits": self.n_bits, "size": len(self), "recall": 1.0}

    def _become(self, parts: list[_Part]) -> None:
        while len(parts) > 1 and parts[-2].n_live <= 2 * parts[-1].n_live:
            parts[-2:] = [_Part.joined(parts[-2:])]
        self._parts = [_Part.joined([part]) if 2 * part.n_live < len(part.ids) else part for part in parts]
        self._allowed = (None, [])

    def _scan(
        self, query: Array, allowed: Array | None, groups: Array | None = None
    ) -> tuple[list[_Scan], Array]:
        """Distances to all that are to be seen, and how many are at each distance (n_bits + 1,)."""
        hidden = self._hidden(allowed)
        found = [part.scan(query, own, groups) for part, own in zip(self._parts, hidden, strict=True)]
        counts = np.zeros(self.n_bits + 1, dtype=np.int64)
        for scan in found:
            own = np.bincount(scan.distances, minlength=self.n_bits + 1)
            counts += own[: self.n_bits + 1]
        return found, counts

    def _hidden(self, allowed: Array | None) -> list[Array]:
        """What each part hides, and what is not allowed."""
        if allowed is None:
            return [part.hidden for part in self._parts]
        last, hidden = self._allowed
        if last is allowed:
            return hidden
        ids = np.unique(check_ids(allowed))
        hidden = [np.where(np.isin(part.ids, ids), part.hidden, HIDDEN) for part in self._parts]
        if not allowed.flags.writeable:  # who may not change it may ask by it again, as many searches do
            self._allowed = (allowed, hidden)
        return hidden

    def _for_each(self, one: Any, n_queries: int) -> None:
        """``one`` of each query; by several threads unless it is soon done."""
        threads = n_queries * len(self) >= THREADED
        for _ in map_threads(one, range(n_queries)) if threads else map(one, range(n_queries)):
            pass


@dataclass(eq=False)
class _Part:
    """Items in the order of their groups, then of their ids; ``words`` (n_words × n) are their codes.

    ``hidden`` is 0, or `HIDDEN` for those that were removed.
    """

    ids: Array
    groups: Array
    words: Array
    hidden: Array

    @classmethod
    def of(cls, ids: Array, groups: Array, words: Array) -> _Part:
        order = np.argsort(ids) if (np.diff(ids) < 0).any() else np.arange(len(ids))
        if groups.min() < groups.max():
            small = groups if groups.max() >= 1 << 15 else groups.astype(np.int16)  # sorted by counting
            order = order[np.argsort(small[order], kind="stable")]
        return cls(
            ids[order], groups[order], np.ascontiguousarray(words[:, order]), np.zeros(len(ids), np.uint16)
        )

    @classmethod
    def joined(cls, parts: Sequence[_Part]) -> _Part:
        """What is not hidden of some parts."""
        live = [np.flatnonzero(part.hidden == 0) for part in parts]
        each = list(zip(parts, live, strict=True))
        return cls.of(
            np.concatenate([part.ids[own] for part, own in each]),
            np.concatenate([part.groups[own] for part, own in each]),
            np.concatenate([part.words[:, own] for part, own in each], axis=1),
        )

    @property
    def n_live(self) -> int:
        return len(self.ids) - self.n_hidden

    n_hidden = 0

    def hide(self, slots: Array) -> None:
        self.hidden[slots] = HIDDEN
        self.n_hidden += len(slots)
        self.__dict__.pop("n_live_by_group", None)

    @cached_property
    def _by_id(self) -> Array:
        return np.argsort(self.ids)

    def find(self, ids: Array) -> Array:
        """The slot of each id, −1 where it is not there."""
        places = np.minimum(self.ids.searchsorted(ids, sorter=self._by_id), len(self.ids) - 1)
        slots = self._by_id[places]
        return np.where((self.ids[slots] == ids) & (self.hidden[slots] == 0), slots, -1)

    @cached_property
    def _starts(self) -> Array:
        """Where each group begins, and the end."""
        return np.concatenate([[0], np.flatnonzero(np.diff(self.groups)) + 1, [len(self.groups)]])

    @cached_property
    def group_numbers(self) -> Array:
        """The groups that there are."""
        return self.groups[self._starts[:-1]]

    @cached_property
    def n_live_by_group(self) -> Array:
        return np.add.reduceat((self.hidden == 0).astype(np.int64), self._starts[:-1])

    def scan(self, query: Array, hidden: Array, groups: Array | None) -> _Scan:
        """Distances of a query to all slots, or to those of some groups."""
        spans = None if groups is None else self._spans(groups[self.group_numbers])

        def wanted(column: Array) -> Array:
            return column if spans is None else np.concatenate([column[a:b] for a, b in spans])

        distances = np.array(wanted(hidden)) if spans is None else wanted(hidden)
        for column, word in zip(self.words, query, strict=True):
            distances += np.bitwise_count(wanted(column) ^ word)
        return _Scan(self, distances, spans)

    def _spans(self, chosen: Array) -> list[tuple[int, int]]:
        """Slices of the slots of the chosen ones of the groups; neighbours are one."""
        edges = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0))
        bounds = self._starts[edges].reshape(-1, 2).tolist()
        return [(a, b) for a, b in bounds] or [(0, 0)]


@dataclass(frozen=True, eq=False)
class _Scan:
    """Distances to the slots in some ``spans`` of a part; None stands for all."""

    part: _Part
    distances: Array
    spans: list[tuple[int, int]] | None

    def within(self, r: int) -> tuple[Array, Array]:
        """Distances and ids up to a distance of ``r``."""
        places = slots = np.flatnonzero(self.distances <= r)
        if self.spans is not None:
            starts, stops = np.array(self.spans).T
            ends = np.cumsum(stops - starts)
            span = ends.searchsorted(places, side="right")
            slots = places + (stops - ends)[span]
        return self.distances[places], self.part.ids[slots]


def _ordered(scans: list[_Scan], r: int) -> tuple[Array, Array]:
    """Distances and ids of all within ``r``, by distance, then id."""
    found = [scan.within(r) for scan in scans]
    distances = np.concatenate([np.empty(0, np.int32), *(each for each, _ in found)]).astype(np.int32)
    ids = np.concatenate([np.empty(0, np.int64), *(each for _, each in found)])
    order = np.lexsort((ids, distances))
    return distances[order], ids[order]
