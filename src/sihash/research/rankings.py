"""The same codes, ranked otherwise than by Hamming distance. Items are known by their codes alone."""

from __future__ import annotations

from functools import partial

import numpy as np

from sihash import codes
from sihash._typing import Array
from sihash.evaluation.measures import average_precision
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
    packed, first, which = np.unique(codes.pack(B), axis=0, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    numbers = np.unique(y, return_inverse=True)[1]
    by_class = np.zeros((numbers.max() + 1, len(packed)), dtype=np.int64)  # items of a class that have a code
    np.add.at(by_class, (numbers, which), 1)
    asked, stored = (hasher.functions_.code_proba(Z).astype(np.float32) for Z in (soft, B[first]))

    def scored(kind: str, rows: slice) -> Array:
        """Of the distinct codes: items that share one tie."""
        if kind == "asymmetric":
            return soft[rows] @ B[first].T.astype(np.float32)
        nearness = np.exp(codes.hamming(packed[which[rows]], packed) * np.float32(-2 / hasher.n_bits))
        return (asked[rows] @ stored.T) * nearness

    def of_block(kind: str, rows: slice) -> Array:
        """Average precision of each query of a block that has anything relevant."""
        order = np.argsort(-scored(kind, rows), axis=1)
        hits, totals = by_class[numbers[rows]], np.tile(by_class.sum(axis=0), (rows.stop - rows.start, 1))
        itself = np.arange(len(hits)), which[rows]  # the query is no part of its database
        hits[itself] -= 1
        totals[itself] -= 1
        hits, totals = (np.take_along_axis(counts, order, axis=1) for counts in (hits, totals))
        asks = hits.any(axis=1)
        return average_precision(hits[asks], totals[asks])

    blocks = list(row_blocks(len(y), SCORED_QUERIES))
    return {
        kind: float(np.mean(np.concatenate(map_threads(partial(of_block, kind), blocks))))
        for kind in RANKINGS
    }
