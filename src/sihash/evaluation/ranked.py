"""P@1, P@10 and mAP of rankings by any score, or in an order that is made already; by class, too.

Items that score the same have no order: the measures are those of `sihash.evaluation.measures`, expected over
their orders. So the order in which items are stored means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sihash._typing import Array
from sihash.evaluation import measures
from sihash.threads import fold_threads

BLOCK_SCORES = 1 << 22  # scored at a time by each thread: bounds memory whatever the number of queries


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
    to ask, the means are NaN. ``per_query`` (3 × n_queries) has P@1, P@10 and average precision of each.
    """

    p_at_1: float
    p_at_10: float
    map: float
    n_queries: int
    n_left_out: int
    per_class: tuple[ClassScores, ...]
    per_query: Array = field(repr=False, compare=False, default_factory=lambda: np.empty((3, 0)))

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

        The order is the caller's, ties included. It may end early: of the ``n_relevant`` items (n_queries,)
        that there are to find, those that are not in it count as never found. ``classes`` (n_queries,) are
        the class numbers of the queries, or say which labels they have (bool, n_queries × n_labels): a query
        counts for each of its labels.
        """
        asks = n_relevant > 0
        self._add(_of_order(relevant[asks], n_relevant[asks]), asks, classes)

    def _add(self, figures: Array, asks: Array, classes: Array) -> None:
        mine = classes[asks]
        queries, numbers = np.nonzero(mine) if mine.ndim == 2 else (np.arange(len(mine)), mine)
        self._classes.append((self._n_queries + queries, numbers))
        self._n_queries += len(mine)
        self._n_left_out += int(np.sum(~asks))
        self._figures.append(figures)

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
            per_query=figures,
        )


def ranked_scores(
    scores: Callable[[Array], Array], y: Array, queries: Array, labels: Array, own: Array
) -> RankedScores:
    """How well a way to score items ranks them.

    Parameters
    ----------
    scores : callable
        From a block of queries to the scores of all items (n_queries × n_items), larger is better.
    y : array (n_items,), or bool (n_items × n_labels)
        Class numbers of the items, −1 for none; or which labels they have: relevant is a label in common.
    queries, labels : arrays (n_queries × …), and as ``y``
    own : integer array (n_queries,)
        Which item a query is itself, −1 for none. An item is no answer to itself.
    """
    size = max(1, BLOCK_SCORES // len(y))
    distinct, which = np.unique(y, axis=0, return_inverse=True)
    which = which.reshape(-1)

    def scored(start: int) -> tuple[Array, Array, Array]:
        rows = slice(start, start + size)
        block = np.array(scores(queries[rows]), dtype=np.float32)
        relevant = relevant_to(labels[rows], distinct)[:, which]
        itself = np.flatnonzero(own[rows] >= 0)
        block[itself, own[rows][itself]] = -np.inf  # in the last place, and not relevant: as if not there
        relevant[itself, own[rows][itself]] = False
        asks = np.asarray(relevant.any(axis=1))
        return _of_scores(block[asks], relevant[asks]), asks, labels[rows]

    tally = RankedTally()
    fold_threads(scored, range(0, len(queries), size), lambda _, block: tally._add(*block))
    return tally.scores()


def relevant_to(labels: Array, y: Array) -> Array:
    """Which items are relevant to which queries (n_queries × n, bool): the same class, a label in common."""
    if y.ndim == 2:
        return labels.astype(np.float32) @ y.T.astype(np.float32) > 0
    return (labels[:, None] == y) & (y >= 0)


def _of_order(relevant: Array, n_relevant: Array) -> Array:
    """P@1, P@10 and average precision of each query (3 × n_queries), in the order of the columns."""
    rows, places = np.nonzero(relevant)
    first_of_row = np.searchsorted(rows, np.arange(len(relevant)))
    found = np.arange(1, len(rows) + 1) - first_of_row[rows]  # relevant items so far, each counted in
    precision = np.bincount(rows, found / (places + 1), len(relevant))
    first, ten = relevant[:, :1].sum(axis=1), relevant[:, :10].sum(axis=1)
    return np.stack([first, ten / 10, precision / n_relevant])


def _of_scores(scores: Array, relevant: Array) -> Array:
    """The same by scores, expected over the orders of items that score the same."""
    # One sort of numbers is several times as fast as an argsort: the score, turned into an integer that
    # sorts the other way round, then whether the item is relevant.
    bits = (0.0 - scores.astype(np.float32)).view(np.uint32)
    bits ^= np.where(bits >> 31, np.uint32(0xFFFFFFFF), np.uint32(0x80000000))
    keys = bits.astype(np.uint64) << np.uint64(1)
    keys |= relevant
    keys.sort(axis=1)
    figures = np.empty((3, len(scores)))
    for column, row in enumerate(keys):
        last = np.flatnonzero(np.append(np.diff(row >> np.uint64(1)) != 0, True))  # of each group of ties
        found = np.cumsum(row & np.uint64(1))[last].astype(np.int64)
        hits, totals = np.diff(found, prepend=0)[None], np.diff(last, prepend=-1)[None]
        figures[0, column] = measures.precision_at(hits, totals, 1)[0]
        figures[1, column] = measures.precision_at(hits, totals, 10)[0]
        figures[2, column] = measures.average_precision_at(hits, totals, len(row))[0]
    return figures
