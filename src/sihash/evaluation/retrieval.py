"""Mean average precision, and precision and recall at every Hamming radius and at chosen ranks.

The conventions, for every number in this package:

- **By radius.** The ball of radius ρ around a query holds the items at distance ρ or less. ``P(ρ)`` is the
  relevant share of the ball, ``R(ρ)`` the share of all relevant items that lie in it. An empty ball has
  precision 0.
- **mAP** is the mean over the queries of ``Σ_ρ P(ρ) · (R(ρ) − R(ρ−1))``, as in the paper. Items at one
  distance count together, so no order among them is assumed.
- **By rank.** Precision@k, average precision@k and NDCG@k are expected values over the orders of items at one
  distance (`sihash.evaluation.measures`). A database of fewer than k items is ranked to its end; precision@k
  is still divided by k. The gain of an item for NDCG is 2^s − 1, with s the number of labels in common.
- **Nothing relevant.** A query without a relevant item has no recall; it is left out of all means, but
  counted.
- **Relevant** means the same label; for items with several labels, at least one label in common.
- **Leave one out.** The query itself is no part of its database. An exact copy of it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np

from sihash import labels as labels_module
from sihash._typing import Array
from sihash.codes import as_words
from sihash.compiling import popcount
from sihash.evaluation import measures
from sihash.threads import map_threads

BLOCK_QUERIES = 512  # ranked at a time by each thread ...
BLOCKS_AT_ONCE = 8  # ... blocks held before they are summed: memory does not grow with the queries


@dataclass(frozen=True)
class RetrievalScores:
    """Means over the queries; the module states the conventions.

    ``precision[ρ]`` and ``recall[ρ]`` are for radius ρ, and together form the precision–recall curve;
    ``precision_at[k]``, ``mAP_at[k]`` and ``NDCG_at[k]`` are for the first k items. Without any query, all
    are NaN. ``n_database`` is the number of items that each query was compared with; ``leaves_one_out`` says
    that these were all other items.
    """

    mAP: float
    precision: Array
    recall: Array
    n_queries: int
    n_left_out: int
    n_database: int
    leaves_one_out: bool
    precision_at: dict[int, float] = field(default_factory=dict)
    mAP_at: dict[int, float] = field(default_factory=dict)
    NDCG_at: dict[int, float] = field(default_factory=dict)


def leave_one_out(codes: Array, labels: Any, *, k: Sequence[int] = ()) -> RetrievalScores:
    """Score retrieval with each item as the query once, against all others.

    ``codes`` are packed uint8 (n × n_bytes). ``labels`` has one label per row, or indicators (n × n_labels, 0
    and 1) if items have several. ``k`` are the ranks for precision@k, mAP@k and NDCG@k.

    >>> import numpy as np
    >>> leave_one_out(np.array([[0], [0], [255]], np.uint8), ["a", "a", "b"]).mAP
    1.0
    """
    words = _words(codes)
    tags, several = _tags(labels, len(words))
    return _score((words, tags), (words, tags), several, True, _n_radii(codes), k)


def against_database(
    queries: Array, query_labels: Any, database: Array, database_labels: Any, *, k: Sequence[int] = ()
) -> RetrievalScores:
    """Score retrieval of queries against a separate database; arguments as in `leave_one_out`."""
    asked, stored = _words(queries), _words(database)
    if np.shape(queries)[1] != np.shape(database)[1]:
        raise ValueError(
            f"Queries of {np.shape(queries)[1]} and a database of {np.shape(database)[1]} bytes per code "
            "cannot be compared; use codes of one hasher."
        )
    tags, several = _tags(
        _joined(query_labels, database_labels, len(asked), len(stored)), len(asked) + len(stored)
    )
    asked_tags, stored_tags = tags[: len(asked)], tags[len(asked) :]
    return _score((asked, asked_tags), (stored, stored_tags), several, False, _n_radii(queries), k)


def _words(codes: Array) -> Array:
    codes = np.asarray(codes)
    if codes.dtype != np.uint8 or codes.ndim != 2:
        raise ValueError(
            f"Expected packed uint8 codes (n × n_bytes), got {codes.dtype} of shape {codes.shape}; "
            "pack ±1 codes with sihash.codes.pack."
        )
    return as_words(codes)


def _n_radii(codes: Array) -> int:
    return 8 * int(np.shape(codes)[1]) + 1


def _joined(a: Any, b: Any, n_a: int, n_b: int) -> Any:
    """Labels of two sets as one, so that a label has one number in both."""
    if np.ndim(a) == 2 and np.ndim(b) == 2 and np.shape(a)[1] == np.shape(b)[1] > 1:
        return np.concatenate([_indicators(a, n_a), _indicators(b, n_b)])
    first, second = labels_module.as_labels(a, n_a), labels_module.as_labels(b, n_b)
    return first.tolist() + second.tolist()


def _tags(labels: Any, n: int) -> tuple[Array, bool]:
    """Labels as uint64 words (n × n_words): a class number, or one bit per label where there are several."""
    if np.ndim(labels) == 2 and np.shape(labels)[1] > 1:
        bits = np.packbits(_indicators(labels, n), axis=1, bitorder="little")
        return as_words(bits), True
    _, numbers = labels_module.encode(labels_module.as_labels(labels, n))
    return numbers.astype(np.uint64)[:, None], False


def _indicators(labels: Any, n: int) -> Array:
    labels = np.asarray(labels)
    if len(labels) != n:
        raise ValueError(f"Expected as many rows of labels as codes, got {len(labels)} for {n}.")
    if labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all():
        raise ValueError(
            "Labels in two dimensions must be indicators: one column per label, 1 where it applies, else 0."
        )
    return labels.astype(bool)


@dataclass
class _Sums:
    """Sums over the queries so far."""

    average_precision: float
    precision: Array
    recall: Array
    at: Array  # (3, number of ranks): precision@k, average precision@k, NDCG@k
    n_queries: int = 0
    n_left_out: int = 0

    def add(self, hits: Array, totals: Array, gains: Array, shared: Array, k: Sequence[int]) -> None:
        """Add a block, given its relevant and all items at each exact distance (queries × radii), the summed
        gains of these, and how many items share 0, 1, … labels with each query.
        """
        asked = hits.sum(axis=1) > 0
        self.n_queries += int(asked.sum())
        self.n_left_out += int((~asked).sum())
        hits, totals, gains, shared = hits[asked], totals[asked], gains[asked], shared[asked]
        balls = np.cumsum(hits, axis=1)
        self.average_precision += float(measures.average_precision(hits, totals).sum())
        self.precision += (balls / np.maximum(np.cumsum(totals, axis=1), 1)).sum(axis=0)
        self.recall += (balls / balls[:, -1:]).sum(axis=0)
        for column, rank in enumerate(k):
            self.at[:, column] += (
                measures.precision_at(hits, totals, rank).sum(),
                measures.average_precision_at(hits, totals, rank).sum(),
                measures.ndcg_at(gains, totals, shared, rank).sum(),
            )


def _score(
    queries: tuple[Array, Array],
    database: tuple[Array, Array],
    several: bool,
    skip_self: bool,
    n_radii: int,
    k: Sequence[int],
) -> RetrievalScores:
    if any(rank < 1 for rank in k):
        raise ValueError(f"Ranks k start at 1, got {min(k)}.")
    sums = _Sums(0.0, np.zeros(n_radii), np.zeros(n_radii), np.zeros((3, len(k))))

    most = int(np.bitwise_count(queries[1]).sum(axis=1).max(initial=1)) if several else 1

    def count(start: int) -> tuple[Array, Array, Array, Array]:
        rows = slice(start, start + BLOCK_QUERIES)
        first_self = start if skip_self else -1
        asked = queries[0][rows], queries[1][rows]
        return _histograms(*asked, *database, several, first_self, n_radii, most)

    blocks = list(range(0, len(queries[0]), BLOCK_QUERIES))
    for first in range(0, len(blocks), BLOCKS_AT_ONCE):
        for counted in map_threads(count, blocks[first : first + BLOCKS_AT_ONCE]):
            sums.add(*counted, k)
    n = sums.n_queries or np.nan
    precision_at, mAP_at, NDCG_at = (dict(zip(k, (row / n).tolist(), strict=True)) for row in sums.at)
    return RetrievalScores(
        mAP=float(sums.average_precision / n),
        precision=sums.precision / n,
        recall=sums.recall / n,
        n_queries=sums.n_queries,
        n_left_out=sums.n_left_out,
        n_database=len(database[0]) - skip_self,
        leaves_one_out=skip_self,
        precision_at=precision_at,
        mAP_at=mAP_at,
        NDCG_at=NDCG_at,
    )


@numba.njit(nogil=True, cache=True)
def _histograms(queries, query_tags, items, item_tags, several, first_self, n_radii, most):  # type: ignore[no-untyped-def]
    """Relevant and all items at each distance from each query, and their summed gains 2^s − 1, s labels in
    common; then how many items have s = 0 … ``most``. Query q is item ``first_self + q`` if that is ≥ 0.
    """
    n_queries, n_words = queries.shape
    hits = np.zeros((n_queries, n_radii), dtype=np.int32)
    totals = np.zeros((n_queries, n_radii), dtype=np.int32)
    gains = np.zeros((n_queries, n_radii), dtype=np.float64)
    shared = np.zeros((n_queries, most + 1), dtype=np.int32)
    for q in range(n_queries):
        itself = first_self + q if first_self >= 0 else -1
        for i in range(len(items)):
            if i != itself:
                distance = 0
                for w in range(n_words):
                    distance += popcount(queries[q, w] ^ items[i, w])
                totals[q, distance] += 1
                common = 0
                if several:
                    for w in range(query_tags.shape[1]):
                        common += popcount(query_tags[q, w] & item_tags[i, w])
                elif query_tags[q, 0] == item_tags[i, 0]:
                    common = 1
                shared[q, common] += 1
                if common:
                    hits[q, distance] += 1
                    gains[q, distance] += 2.0**common - 1
    return hits, totals, gains, shared
