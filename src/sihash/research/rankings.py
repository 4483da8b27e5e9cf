"""The same codes, ranked otherwise than by Hamming distance. Items are known by their codes alone."""

from __future__ import annotations

from functools import partial

import numpy as np

from sihash import codes
from sihash._typing import Array
from sihash.evaluation.ranked import mean_average_precision
from sihash.hashing import SIH
from sihash.kernel import row_blocks
from sihash.threads import map_threads

RANKINGS = ("asymmetric", "semantic")
SCORED_QUERIES = 500


def leave_one_out_scores(hasher: SIH, X: Array, y: Array) -> dict[str, float]:
    """mAP of rows ``X`` with labels ``y``, each once the query, by kind of ranking.

    asymmetric: the query's margins, squashed by tanh, times the item's code. semantic: the agreement of class
    probabilities times nearness, Σ_k p(k given the query) · p(k given b) · exp(−2 d / n_bits), the query's
    from its margins, the item's from its code.
    """
    margins = hasher.decision_function(X)
    soft, B = np.tanh(margins).astype(np.float32), codes.sign(margins)
    packed = codes.pack(B)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    distinct = B[first].T.astype(np.float64)
    asked, stored = (hasher.code_proba(Z).astype(np.float32) for Z in (soft, B))

    def scored(kind: str, rows: slice) -> Array:
        if kind == "asymmetric":
            # A score per code, not per item: a product may round equal columns differently, and ties count.
            return (soft[rows] @ distinct)[:, which.reshape(-1)]
        nearness = np.exp(codes.hamming(packed[rows], packed) * np.float32(-2 / hasher.n_bits))
        return (asked[rows] @ stored.T) * nearness

    def total(kind: str, rows: slice) -> tuple[float, int]:
        """Sum of the average precisions of a block of queries, and how many have anything relevant."""
        scores, itself = scored(kind, rows), (np.arange(rows.stop - rows.start), np.arange(len(y))[rows])
        relevant = y[rows, None] == y
        scores[itself], relevant[itself] = -np.inf, False  # the query is no part of its database
        n_asked = int(relevant.any(axis=1).sum())
        return (mean_average_precision(scores, relevant) * n_asked if n_asked else 0.0), n_asked

    found = {}
    for kind in RANKINGS:
        sums, asked_queries = zip(
            *map_threads(partial(total, kind), row_blocks(len(y), SCORED_QUERIES)), strict=True
        )
        found[kind] = sum(sums) / max(sum(asked_queries), 1)
    return found
