"""Measures of rankings: by any score, where items that tie count together, or of ranks as they are.

`mean_average_precision` and `mean_precision_at` take scores and keep the conventions of `retrieval`.
`RankedTally` takes an order that is made already, as a search makes it or `in_order`, and tells figures for
each class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sihash._typing import Array


def mean_average_precision(scores: Array, relevant: Array) -> float:
    """Mean over the queries of ``Σ_s P(s) · (R(s) − R(s'))`` over their distinct scores s, falling.

    ``scores`` and ``relevant`` (bool) are n_queries × n_items; P and R are of the items that score s or
    more, s' is the score before. A query with nothing relevant is left out. With minus the Hamming distance
    as the score this is the mAP of the paper.

    >>> import numpy as np
    >>> mean_average_precision(np.array([[3, 2, 2, 1]]), np.array([[True, True, False, False]]))
    0.8333333333333333
    """
    found = []
    for row, own in zip(scores, relevant, strict=True):
        if own.any():
            order = np.argsort(-row)
            last = np.flatnonzero(np.append(np.diff(row[order]) != 0, True))  # of each group of ties
            hits = np.cumsum(own[order])[last]
            found.append(np.sum(hits / (last + 1) * np.diff(hits, prepend=0)) / hits[-1])
    return float(np.mean(found)) if found else float("nan")


def mean_precision_at(k: int, scores: Array, relevant: Array) -> float:
    """Mean over the queries of the relevant share of the first k items, expected over shuffled ties.

    Ties must not be broken by the order of the items: where that follows the classes, it decides the result.
    """
    last = -np.partition(-scores, k - 1, axis=1)[:, k - 1 : k]
    above, tied = scores > last, scores == last
    share = (tied & relevant).sum(axis=1) / tied.sum(axis=1)
    hits = (above & relevant).sum(axis=1) + (k - above.sum(axis=1)) * share
    return float(hits.mean() / k)


def in_order(scores: Array, relevant: Array) -> Array:
    """``relevant`` (bool, n_queries × n_items) put in the order of ``scores``, best first.

    Ties keep the order of the items, so that should be one that means nothing.
    """
    # One sort of numbers is several times as fast as an argsort: the score, turned into an integer that
    # sorts the other way round, then the item's place, then whether it is relevant.
    bits = (0.0 - scores.astype(np.float32)).view(np.uint32)
    bits ^= np.where(bits >> 31, np.uint32(0xFFFFFFFF), np.uint32(0x80000000))
    keys = bits.astype(np.uint64) << np.uint64(32)
    keys |= np.arange(scores.shape[1], dtype=np.uint64) << np.uint64(1)
    keys |= relevant
    keys.sort(axis=1)
    return (keys & np.uint64(1)).astype(bool)


@dataclass(frozen=True)
class ClassScores:
    """Means over the queries of one class, by its number."""

    label: int
    n_queries: int
    p_at_1: float
    p_at_10: float
    map: float


@dataclass(frozen=True)
class RankedScores:
    """Means over the queries; ``per_class`` in the order of the class numbers.

    A query with nothing relevant is left out of all means, but counted in ``n_left_out``. Without any query
    to ask, the means are NaN.
    """

    p_at_1: float
    p_at_10: float
    map: float
    n_queries: int
    n_left_out: int
    per_class: tuple[ClassScores, ...]

    def worst(self, n: int) -> list[ClassScores]:
        """The ``n`` classes whose queries fare worst: by P@10, then mAP."""
        return sorted(self.per_class, key=lambda c: (c.p_at_10, c.map, c.label))[:n]


class RankedTally:
    """Scores of rankings that come in blocks of queries.

    >>> import numpy as np
    >>> tally = RankedTally()
    >>> tally.add(np.array([[True, False, True]]), np.array([2]), np.array([7]))
    >>> tally.scores().map
    0.8333333333333333
    """

    def __init__(self) -> None:
        self._figures: list[Array] = []  # P@1, P@10, AP: 3 × queries
        self._classes: list[tuple[Array, Array]] = []  # queries, and a class of each
        self._n_queries = self._n_left_out = 0

    def add(self, relevant: Array, n_relevant: Array, classes: Array) -> None:
        """Add queries: ``relevant`` (bool, n_queries × n_ranked) says of each what it found, best first.

        The ranking is the caller's, ties included: they must not be broken by the order of the items. It
        may end early: of the ``n_relevant`` items (n_queries,) that there are to find, those that are not
        in it count as never found. ``classes`` (n_queries,) are the class numbers of the queries, or say
        which labels they have (bool, n_queries × n_labels): a query counts for each of its labels.
        """
        asked = n_relevant > 0
        own = classes[asked]
        queries, numbers = np.nonzero(own) if own.ndim == 2 else (np.arange(len(own)), own)
        self._classes.append((self._n_queries + queries, numbers))
        self._n_queries += len(own)
        self._n_left_out += int(np.sum(~asked))
        self._figures.append(_figures(relevant[asked], n_relevant[asked]))

    def scores(self) -> RankedScores:
        """Of all queries so far."""
        figures = np.concatenate([np.empty((3, 0)), *self._figures], axis=1)
        none = np.empty(0, dtype=np.int64)
        queries, classes = (np.concatenate(each) for each in zip((none, none), *self._classes, strict=True))
        p_at_1, p_at_10, mean_ap = figures.mean(axis=1).tolist() if self._n_queries else [float("nan")] * 3
        labels, numbers, counts = np.unique(classes, return_inverse=True, return_counts=True)
        means = np.array([np.bincount(numbers, row[queries], len(labels)) for row in figures]) / counts
        per_class = zip(labels.tolist(), counts.tolist(), *means.tolist(), strict=True)
        return RankedScores(
            p_at_1=p_at_1,
            p_at_10=p_at_10,
            map=mean_ap,
            n_queries=self._n_queries,
            n_left_out=self._n_left_out,
            per_class=tuple(ClassScores(*row) for row in per_class),
        )


def _figures(relevant: Array, n_relevant: Array) -> Array:
    """P@1, P@10 and average precision of each query (3 × n_queries)."""
    rows, places = np.nonzero(relevant)
    first_of_row = np.searchsorted(rows, np.arange(len(relevant)))
    found = np.arange(1, len(rows) + 1) - first_of_row[rows]  # relevant items so far, each counted in
    precision = np.bincount(rows, found / (places + 1), len(relevant))
    first, ten = relevant[:, :1].sum(axis=1), relevant[:, :10].sum(axis=1)
    return np.stack([first, ten / 10, precision / n_relevant])
