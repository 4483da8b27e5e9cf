"""Search by meaning: how far the class probabilities of two codes agree, and how near the codes are.

The score of an item with code b for a query with code a and class probabilities p(·|query) is

    Σ_k p(k|query) · p(k|b) · exp(−2 d(a, b) / n_bits),

with d the Hamming distance. The sum alone hardly depends on the query among the items of a class, so the few
most certain ones lead every answer; the second factor makes answers differ from query to query. It costs a
little: the sum alone measures better (docs/search.md).

An item is known by its code only, and many items share one: scores are computed for distinct codes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numba
import numpy as np

from sihash._typing import Array
from sihash.codes import as_words, hamming
from sihash.index.base import check_codes, check_ids, check_search, refuse_missing, refuse_present
from sihash.index.scan import add_distances
from sihash.threads import map_threads

PORTION = 1 << 16  # codes whose probabilities are computed at a time
BLOCK = 256  # codes that are scored, or passed over, together


def semantic_scores(queries: tuple[Array, Array], items: tuple[Array, Array], n_bits: int) -> Array:
    """The formula above for all pairs (n_queries × n_items) of packed codes with class probabilities."""
    (codes, probabilities), (stored, table) = queries, items
    return (probabilities @ table.T) * _nearness(n_bits)[hamming(codes, stored)]


def _nearness(n_bits: int) -> Array:
    """The factor exp(−2 d / n_bits) for every distance d."""
    return np.exp(np.arange(n_bits + 1) * (-2 / n_bits)).astype(np.float32)


class SemanticIndex:
    """The best items by the score above, exactly, over a set of ids that changes.

    ``class_probabilities`` gives the probabilities (n × n_classes) of packed codes. Additions are collected
    in parts that are merged when they are of like size, so that there are few; removed ids are marked. Both
    cost what the batch is worth, on the average.
    """

    def __init__(self, n_bits: int, class_probabilities: Callable[[Array], Array]) -> None:
        self.n_bits = n_bits
        self._class_probabilities = class_probabilities
        self._nearness = _nearness(n_bits)
        self._parts: list[_Part] = []

    def __len__(self) -> int:
        return sum(len(part.ids) - part.n_gone for part in self._parts)

    def add(self, ids: Array, codes: Array) -> None:
        """Add codes under new ids. An id that is there already is refused."""
        ids = check_ids(ids)
        codes = check_codes(codes, self.n_bits, len(ids))
        for part in self._parts:
            refuse_present(ids[part.find(ids) >= 0])
        if len(ids):
            self._parts.append(self._part(ids, codes))
        while len(self._parts) > 1 and 2 * len(self._parts[-1].ids) > len(self._parts[-2].ids):
            self._parts[-2:] = [self._merged(self._parts[-2:])]

    def remove(self, ids: Array) -> None:
        """Remove ids. One that is not there is refused."""
        ids = check_ids(ids)
        places = [part.find(ids) for part in self._parts]
        refuse_missing(ids[np.all([found < 0 for found in places], axis=0)] if places else ids)
        for part, found in zip(self._parts, places, strict=True):
            part.gone[found[found >= 0]] = True
            part.n_gone += int((found >= 0).sum())
        self._parts = [
            self._merged([part]) if 3 * part.n_gone > len(part.ids) else part
            for part in self._parts
            if part.n_gone < len(part.ids)
        ]

    def search(
        self, codes: Array, probabilities: Array, k: int, allowed: Array | None = None
    ) -> tuple[Array, Array]:
        """The k best of each query: scores (float32) and ids (int64), both n_queries × k.

        Queries are given by their packed codes and their class probabilities (n_queries × n_classes), which
        may know more of them than the code does. Ordered by falling score, then id; 0 and −1 where fewer than
        k are there.
        """
        codes = check_search(codes, self.n_bits, k)
        queries, weights = as_words(codes), np.asarray(probabilities, dtype=np.float32)
        wanted = None if allowed is None else np.sort(check_ids(allowed), kind="stable")
        scores = np.zeros((len(codes), k), dtype=np.float32)
        ids = np.full((len(codes), k), -1, dtype=np.int64)

        def answer(q: int) -> None:
            best, names = self._best(queries[q], weights[q], k, wanted)
            scores[q, : len(best)], ids[q, : len(best)] = best, names

        map_threads(answer, range(len(codes)))
        return scores, ids

    def _best(self, query: Array, weights: Array, k: int, wanted: Array | None) -> tuple[Array, Array]:
        """Scores and ids of the k best items, or of all if fewer are there."""
        found = [self._best_of(part, query, weights, k, wanted) for part in self._parts]
        if not found:
            return np.empty(0, np.float32), np.empty(0, np.int64)
        scores, ids = (np.concatenate(each) for each in zip(*found, strict=True))
        order = np.lexsort((ids, -scores))[:k]
        return scores[order], ids[order]

    def _best_of(
        self, part: _Part, query: Array, weights: Array, k: int, wanted: Array | None
    ) -> tuple[Array, Array]:
        """From the best codes, the items that are neither gone nor unwanted; from more codes until k are."""
        bounds = _bounds(weights, part.bounds)
        blocks = np.argsort(-bounds)
        n = k
        while True:
            scores, numbers = _best_codes(
                query,
                weights,
                part.words,
                part.table,
                bounds,
                blocks,
                self._nearness,
                min(n, part.words.shape[1]),
            )
            starts = part.starts[numbers]
            held = part.starts[numbers + 1] - starts
            counts = np.minimum(held, n)
            scores = np.repeat(scores, counts)
            places = np.arange(len(scores)) + np.repeat(starts - np.cumsum(counts) + counts, counts)
            keep = ~part.gone[places]
            if wanted is not None:
                keep &= _is_in(part.ids[places], wanted)
            cut = held > counts  # of these codes some items were not looked at: enough only if k were kept
            enough = keep.sum() >= k and not np.any(cut & (_sums(keep, counts) < k))
            if enough or n >= len(part.ids):
                return scores[keep], part.ids[places[keep]]
            n *= 8

    def _part(self, ids: Array, codes: Array) -> _Part:
        """Items by code, codes by their two likeliest classes, so that blocks are of one kind."""
        order = np.argsort(ids, kind="stable")
        words = as_words(codes[order])
        order = order[np.lexsort(words.T)]
        words = as_words(codes[order])
        first = np.flatnonzero(np.append(True, (words[1:] != words[:-1]).any(axis=1)))
        table = self._table(codes[order[first]])
        likeliest = np.argsort(table, axis=1)[:, :-3:-1].T
        by_class = np.lexsort((-table.max(axis=1), *likeliest[::-1]))
        counts = np.diff(np.append(first, len(ids)))[by_class]
        starts = np.append(0, np.cumsum(counts))
        members = np.repeat(first[by_class] - starts[:-1], counts) + np.arange(len(ids))
        table = np.ascontiguousarray(table[by_class].T)
        return _Part(
            ids=ids[order[members]],
            starts=starts,
            words=np.ascontiguousarray(words[first[by_class]].T),
            table=table,
            bounds=np.maximum.reduceat(table, np.arange(0, table.shape[1], BLOCK), axis=1),
            by_id=np.argsort(ids[order[members]]),
            gone=np.zeros(len(ids), dtype=bool),
        )

    def _table(self, codes: Array) -> Array:
        """Class probabilities of codes, made in portions: what they take on the way stays small."""
        portions = np.split(codes, np.arange(PORTION, len(codes), PORTION))
        return np.concatenate([self._class_probabilities(each).astype(np.float32) for each in portions])

    def _merged(self, parts: list[_Part]) -> _Part:
        ids = np.concatenate([part.ids[~part.gone] for part in parts])
        codes = np.concatenate([part.codes((self.n_bits + 7) // 8)[~part.gone] for part in parts])
        return self._part(ids, codes)


@dataclass
class _Part:
    """Items that came together. Code c has the items ``ids[starts[c]:starts[c + 1]]``, in ascending order.

    ``words`` (n_words × n_codes) are the codes, ``table`` (n_classes × n_codes) their class probabilities,
    ``bounds`` (n_classes × n_blocks) the largest in each block of codes. ``by_id`` sorts ``ids``.
    """

    ids: Array
    starts: Array
    words: Array
    table: Array
    bounds: Array
    by_id: Array
    gone: Array
    n_gone: int = 0

    def find(self, ids: Array) -> Array:
        """The place of each id, −1 where it is not there."""
        last = len(self.ids) - 1
        places = self.by_id[np.minimum(np.searchsorted(self.ids, ids, sorter=self.by_id), last)]
        return np.where((self.ids[places] == ids) & ~self.gone[places], places, -1)

    def codes(self, n_bytes: int) -> Array:
        """The packed code of every item."""
        words = np.repeat(np.ascontiguousarray(self.words.T), np.diff(self.starts), axis=0)
        return words.view(np.uint8)[:, :n_bytes]


def _sums(values: Array, counts: Array) -> Array:
    """Sums over runs of so many values each; no run is empty."""
    return np.add.reduceat(values.astype(np.intp), np.cumsum(counts) - counts)


def _is_in(ids: Array, wanted: Array) -> Array:
    """Which ids are among the sorted ``wanted``."""
    if not len(wanted):
        return np.zeros(len(ids), dtype=bool)
    return wanted[np.minimum(np.searchsorted(wanted, ids), len(wanted) - 1)] == ids


@numba.njit(nogil=True, cache=True)
def _bounds(weights, largest):  # type: ignore[no-untyped-def]
    """What no code of a block scores above: summed as the scores are, so also in its last bit."""
    bounds = np.zeros(largest.shape[1], dtype=np.float32)
    for c in range(len(weights)):
        row, weight = largest[c], weights[c]
        for b in range(len(bounds)):
            bounds[b] += weight * row[b]
    return bounds


@numba.njit(nogil=True, cache=True)
def _best_codes(query, weights, words, table, bounds, blocks, nearness, k):  # type: ignore[no-untyped-def]
    """Scores and numbers of the k best codes and of all that tie with the k-th.

    ``bounds`` are above the scores of each block of codes for this query, ``blocks`` their order, falling.
    """
    n_codes = words.shape[1]
    kept_score = np.empty(4 * k + 4 * BLOCK, dtype=np.float32)
    kept_number = np.empty(len(kept_score), dtype=np.int64)
    n_kept = 0
    best = np.full(k, -1, dtype=np.float32)  # the k best scores so far, a heap: the least of them first
    scores = np.empty(BLOCK, dtype=np.float32)
    distances = np.empty(BLOCK, dtype=np.uint16)
    for b in blocks:
        if bounds[b] < best[0]:
            break
        start = b * BLOCK
        n = min(BLOCK, n_codes - start)
        own, near = scores[:n], distances[:n]
        near[:] = 0
        if bounds[b] * nearness[add_distances(query, words, start, near)] < best[0]:
            continue
        _score_block(weights, table, nearness, start, near, own)
        if n_kept + BLOCK > len(kept_score):
            kept_score = np.concatenate((kept_score, kept_score))
            kept_number = np.concatenate((kept_number, kept_number))
        for i in range(n):
            if own[i] >= best[0]:
                kept_score[n_kept], kept_number[n_kept] = own[i], start + i
                n_kept += 1
                _replace_least(best, own[i])
    good = np.flatnonzero(kept_score[:n_kept] >= best[0])
    return kept_score[good], kept_number[good]


@numba.njit(nogil=True, cache=True)
def _replace_least(heap, value):  # type: ignore[no-untyped-def]
    """Put a value in the place of the least of a heap."""
    place = 0
    while 2 * place + 1 < len(heap):
        child = 2 * place + 1
        if child + 1 < len(heap) and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value


@numba.njit(nogil=True, cache=True)
def _score_block(weights, table, nearness, start, distances, scores):  # type: ignore[no-untyped-def]
    """Write the scores of the codes from ``start`` on, given their distances."""
    scores[:] = 0
    for c in range(len(weights)):
        column, weight = table[c, start : start + len(scores)], weights[c]
        for i in range(len(scores)):
            scores[i] += weight * column[i]
    for i in range(len(scores)):
        scores[i] *= nearness[distances[i]]
