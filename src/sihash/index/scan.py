"""Exact search: one pass over all codes, a block at a time, that keeps the best k seen."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from sihash._typing import Array
from sihash.checks import check_count
from sihash.codes import as_words
from sihash.compiling import popcount
from sihash.index.base import check_codes, check_ids, check_radius, check_search
from sihash.index.slots import Slots
from sihash.threads import map_threads

BLOCK = 4096  # distances computed at a time: they stay in the first-level cache
THREADED = 1 << 21  # distances of a batch from which a second thread pays


class ScanIndex:
    """See `CodeIndex`. Exact, and the order of ties is exact too.

    FAISS has a flat index as well. This one counts bits several codes at a time and looks at single codes
    only in blocks that hold one near enough, so it is faster (benchmarks/search.py); and FAISS' flat index
    passes over everything to remove an id, and cannot break ties by id.
    """

    def __init__(self, n_bits: int) -> None:
        check_count("n_bits", n_bits)
        self.n_bits = n_bits
        self._slots = Slots(n_bits)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def ties_by_id(self) -> bool:
        return True

    def add(self, ids: Array, codes: Array) -> None:
        ids = check_ids(ids)
        self._slots.add(ids, check_codes(codes, self.n_bits, len(ids)))

    def remove(self, ids: Array) -> None:
        self._slots.remove(check_ids(ids))

    def replace(self, ids: Array, codes: Array) -> None:
        ids = check_ids(ids)
        self._slots.replace(ids, check_codes(codes, self.n_bits, len(ids)))

    def search(self, codes: Array, k: int, allowed: Array | None = None) -> tuple[Array, Array]:
        queries = as_words(check_search(codes, self.n_bits, k))
        words, hidden, ids = self._slots.words, self._hidden(allowed), self._slots.ids
        near = np.full((len(queries), k), -1, dtype=np.int32)
        found = np.full((len(queries), k), -1, dtype=np.int64)

        def scan(rows: slice) -> None:
            _nearest(queries[rows], words, hidden, ids, self.n_bits, near[rows], found[rows])

        map_threads(scan, self._portions(len(queries)))
        return near, found

    def radius(self, codes: Array, r: int, allowed: Array | None = None) -> list[tuple[Array, Array]]:
        check_radius(r)
        queries = as_words(check_codes(codes, self.n_bits))
        words, hidden, ids = self._slots.words, self._hidden(allowed), self._slots.ids

        def within(query: Array) -> tuple[Array, Array]:
            near = _distances(query, words, hidden)
            inside = np.flatnonzero(near <= min(r, self.n_bits))
            near = near[inside].astype(np.int32)
            order = np.argsort(near, kind="stable")
            return near[order], ids[inside[order]]

        answers = map_threads(
            lambda rows: [within(query) for query in queries[rows]], self._portions(len(queries))
        )
        return [answer for portion in answers for answer in portion]

    def describe(self) -> dict[str, Any]:
        return {"kind": "exact", "n_bits": self.n_bits, "size": len(self), "recall": 1.0}

    def _hidden(self, allowed: Array | None) -> Array:
        return self._slots.hidden if allowed is None else self._slots.hidden_but(allowed)

    def _portions(self, n_queries: int) -> list[slice]:
        """The queries in portions for the threads; all in one where that is soon done."""
        size = max(1, n_queries if n_queries * self._slots.n < THREADED else -(-n_queries // 8))
        return [slice(start, start + size) for start in range(0, n_queries, size)]


@numba.njit(nogil=True, cache=True)
def _nearest(queries, words, hidden, ids, n_bits, near, found):  # type: ignore[no-untyped-def]
    """Write the distances and ids of the k nearest slots of each query, by distance, then slot."""
    k = near.shape[1]
    distances = np.empty(BLOCK, dtype=np.uint16)
    kept_distance = np.empty(4 * k + BLOCK, dtype=np.int32)
    kept_slot = np.empty(4 * k + BLOCK, dtype=np.int64)
    counts = np.empty(n_bits + 1, dtype=np.int64)  # kept slots at each distance
    for q in range(len(queries)):
        counts[:] = 0
        n_kept = 0
        n_below = 0  # kept slots at a distance below top ...
        top = n_bits + 1  # ... of which the furthest are at top − 1
        limit = n_bits + 1  # only a distance below it can still enter
        for start in range(0, len(hidden), BLOCK):
            offsets = hidden[start : start + BLOCK]
            own = distances[: len(offsets)]
            for i in range(len(own)):
                own[i] = offsets[i]
            if add_distances(queries[q], words, start, own) >= limit:
                continue
            for i in range(len(own)):
                distance = np.int64(own[i])
                if distance < limit:
                    kept_distance[n_kept], kept_slot[n_kept] = distance, start + i
                    n_kept += 1
                    counts[distance] += 1
                    n_below += 1
                    while n_below - counts[top - 1] >= k:
                        n_below -= counts[top - 1]
                        top -= 1
                    if n_below >= k:
                        # Slots come in order: at the distance of the k-th, who comes later loses.
                        limit = top - 1
            if n_kept > 4 * k:
                n_kept = _drop(kept_distance, kept_slot, n_kept, limit, k, counts)
                n_below = n_kept
        n_kept = _drop(kept_distance, kept_slot, n_kept, limit, k, counts)
        places = np.cumsum(counts) - counts
        for i in range(n_kept):
            place = places[kept_distance[i]]
            places[kept_distance[i]] += 1
            near[q, place], found[q, place] = kept_distance[i], ids[kept_slot[i]]


@numba.njit(nogil=True, cache=True)
def _drop(kept_distance, kept_slot, n_kept, limit, k, counts):  # type: ignore[no-untyped-def]
    """Keep the best k of those kept so far (all where limit says that there are no k); returns how many."""
    n_nearer = 0
    for i in range(n_kept):
        n_nearer += kept_distance[i] < limit
    room = k - n_nearer
    counts[:] = 0
    n = 0
    for i in range(n_kept):
        at_limit = kept_distance[i] == limit
        if kept_distance[i] < limit or (at_limit and room > 0):
            room -= at_limit
            kept_distance[n], kept_slot[n] = kept_distance[i], kept_slot[i]
            counts[kept_distance[i]] += 1
            n += 1
    return n


@numba.njit(nogil=True, cache=True)
def _distances(query, words, hidden):  # type: ignore[no-untyped-def]
    """Distances of a query to all slots, beyond every other where they are hidden."""
    distances = hidden.copy()
    for start in range(0, len(distances), BLOCK):
        add_distances(query, words, start, distances[start : start + BLOCK])
    return distances


@numba.njit(nogil=True, cache=True)
def add_distances(query, words, start, distances):  # type: ignore[no-untyped-def]
    """Add to ``distances`` those of the codes from ``start`` on; returns the least sum."""
    # Over slices, whose indices need no check: only so the loops are vectorised.
    for w in range(len(query)):
        column, word = words[w, start : start + len(distances)], query[w]
        for i in range(len(distances)):
            distances[i] += popcount(column[i] ^ word)
    least = np.uint16(0xFFFF)
    for i in range(len(distances)):
        least = min(least, distances[i])
    return least
