"""Mean average precision, and precision and recall at every Hamming radius."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from sihash import labels as labels_module
from sihash._typing import Array
from sihash.codes import as_words


@dataclass(frozen=True)
class RetrievalScores:
    """Means over the queries. ``precision[ρ]`` and ``recall[ρ]`` are for the ball of radius ρ.

    Average precision of a query is ``Σ_ρ P(ρ) · (R(ρ) − R(ρ−1))``: ties are handled by radius, so it does
    not depend on the order of equally distant items. An empty ball has precision 0; a query with
    nothing relevant is left out of every mean and counted in ``n_left_out``.
    """

    mAP: float
    precision: Array
    recall: Array
    n_queries: int
    n_left_out: int


def leave_one_out(codes: Array, labels: Any) -> RetrievalScores:
    """Each item once the query against all others; relevant means the same label.

    ``codes`` are packed uint8 (n × n_bytes), ``labels`` one a row.
    """
    codes = np.atleast_2d(np.asarray(codes))
    if codes.dtype != np.uint8:
        raise ValueError(f"Expected packed uint8 codes, got {codes.dtype}; pack ±1 codes with sihash.codes.pack.")
    _, numbers = labels_module.encode(labels_module.as_labels(labels, len(codes)))
    hits, totals = _histograms(as_words(codes), numbers.astype(np.int64), 8 * codes.shape[1] + 1)
    return score_histograms(hits, totals)


def score_histograms(hits: Array, totals: Array) -> RetrievalScores:
    """Scores from the counts of relevant and of all items at each exact distance (queries × radii)."""
    hits, totals = np.cumsum(hits, axis=1), np.cumsum(totals, axis=1)
    n_relevant = hits[:, -1]
    asked = n_relevant > 0
    hits, totals = hits[asked], totals[asked]
    if not len(hits):
        nothing = np.zeros(totals.shape[1])
        return RetrievalScores(float("nan"), nothing, nothing, 0, int(len(asked)))
    precision = hits / np.maximum(totals, 1)
    recall = hits / hits[:, -1:]
    average_precision = np.sum(precision * np.diff(recall, axis=1, prepend=0), axis=1)
    return RetrievalScores(
        mAP=float(average_precision.mean()),
        precision=precision.mean(axis=0),
        recall=recall.mean(axis=0),
        n_queries=int(asked.sum()),
        n_left_out=int((~asked).sum()),
    )


@numba.njit(parallel=True, cache=True)
def _histograms(words, numbers, n_radii):  # type: ignore[no-untyped-def]
    n, n_words = words.shape
    hits = np.zeros((n, n_radii), dtype=np.int32)
    totals = np.zeros((n, n_radii), dtype=np.int32)
    for q in numba.prange(n):
        for i in range(n):
            if i != q:
                distance = 0
                for w in range(n_words):
                    distance += _popcount(words[q, w] ^ words[i, w])
                totals[q, distance] += 1
                if numbers[i] == numbers[q]:
                    hits[q, distance] += 1
    return hits, totals


@numba.njit(cache=True, inline="always")
def _popcount(x):  # type: ignore[no-untyped-def]
    # Written so that LLVM recognises it and emits the processor's own instruction.
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))
