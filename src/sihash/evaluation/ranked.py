"""Measures of rankings by any score, with the conventions of `retrieval`: items that tie count together."""

from __future__ import annotations

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
