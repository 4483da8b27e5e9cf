"""The measures, of rankings with ties: relevant items and all items of each group, best group first.

A group holds the items that a ranking does not tell apart: those at one Hamming distance, or of one score.
Its items have no order, yet a cut-off at rank k may fall among them. So precision@k, average precision@k and
NDCG@k are the expected values when each group is shuffled: exact, free of luck.

``hits`` and ``totals`` (n_queries × n_groups) are the relevant and all items of each group; all functions
give a value for each query. Each query has something relevant.
"""

from __future__ import annotations

import numpy as np

from sihash._typing import Array


def average_precision(hits: Array, totals: Array) -> Array:
    """``Σ_g P(g) · (R(g) − R(g−1))``, the paper's: a group counts as a whole, so it has no order to
    expect.
    """
    found, seen = np.cumsum(hits, axis=1), np.cumsum(totals, axis=1)
    return (found / np.maximum(seen, 1) * hits).sum(axis=1) / found[:, -1]


def precision_at(hits: Array, totals: Array, k: int) -> Array:
    """Expected share of relevant items among the first k. Of fewer than k items it is still divided by k."""
    share = hits / np.maximum(totals, 1)
    return (share * _places_within(totals, np.cumsum(totals, axis=1), k)).sum(axis=1) / k


def average_precision_at(hits: Array, totals: Array, k: int) -> Array:
    """Expected ``Σ_{i ≤ k} P@i · relevant(i) / min(k, number of relevant items)``.

    In a group of n ties with r relevant, after N items with H relevant, the item at place i of the group is
    relevant with probability r/n, and then H + 1 + (i−1)(r−1)/(n−1) of the first N + i items are expected
    to be (McSherry and Najork, 2008). Summed over the places that lie within rank k, this needs only
    the harmonic numbers.
    """
    found, seen = np.cumsum(hits, axis=1), np.cumsum(totals, axis=1)
    places, before = _places_within(totals, seen, k), seen - totals
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, seen[:, -1].max(initial=0) + 1))])
    inverse = harmonic[before + places] - harmonic[before]  # Σ 1 / (N + i)
    others = (hits - 1) / np.maximum(totals - 1, 1)
    gained = (found - hits + 1) * inverse + others * (places - (before + 1) * inverse)
    share = hits / np.maximum(totals, 1)
    return (share * gained).sum(axis=1) / np.minimum(_last(seen, k), found[:, -1])


def ndcg_at(gains: Array, totals: Array, shared: Array, k: int) -> Array:
    """Expected ``Σ_{i ≤ k} gain(i) / log₂(1 + i)``, divided by what the best order would have.

    ``gains`` are the summed gains of each group: 2^s − 1 for an item that shares s labels with the query.
    ``shared`` (n_queries × s) is how many items share 0, 1, … labels.
    """
    seen = np.cumsum(totals, axis=1)
    n = int(seen[:, -1].max(initial=0))
    last = min(k, n)
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(1 + np.arange(1, n + 1)))])

    def gained(mean_gains: Array, counts: Array, ends: Array) -> Array:
        """Σ of discounted gains over the first ``last`` places, of groups that end at ``ends``."""
        before = np.minimum(ends - counts, last)
        return (mean_gains * (discounts[np.minimum(ends, last)] - discounts[before])).sum(axis=1)

    found = gained(gains / np.maximum(totals, 1), totals, seen)
    best = shared[:, ::-1]  # the most labels in common first
    return found / gained(np.exp2(np.arange(best.shape[1])[::-1]) - 1, best, np.cumsum(best, axis=1))


def _last(seen: Array, k: int) -> int:
    """The last rank that counts; k itself may be more than an array can hold."""
    return min(k, int(seen[:, -1].max(initial=0)))


def _places_within(totals: Array, seen: Array, k: int) -> Array:
    """How many places of each group lie within rank k."""
    return np.clip(_last(seen, k) - (seen - totals), 0, totals)
