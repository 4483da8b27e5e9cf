"""Ranking by real scores: the twin of the radii, and a slow obvious oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sihash import codes
from sihash.evaluation import leave_one_out, leave_one_out_by_score


def slow_average_precision(scores, relevant):
    """Items of one score count together, as in the module's words."""
    total = 0.0
    for value in np.unique(scores)[::-1]:
        ball, group = scores >= value, scores == value
        total += relevant[ball].mean() * (relevant & group).sum() / relevant.sum()
    return total


@settings(deadline=None)
@given(st.integers(2, 30), st.integers(1, 4), st.integers(1, 6), st.integers(0, 10_000))
def test_agrees_with_the_slow_twin(n, n_classes, n_scores, seed):
    rng = np.random.default_rng(seed)
    scores, y = rng.integers(0, n_scores, (n, n)).astype(float), rng.integers(0, n_classes, n)
    expected = []
    for q in range(n):
        others = np.arange(n) != q
        if (y[others] == y[q]).any():
            expected.append(slow_average_precision(scores[q, others], y[others] == y[q]))
    got = leave_one_out_by_score(lambda rows: scores[rows], y)
    assert np.isnan(got) if not expected else got == pytest.approx(np.mean(expected))


def test_minus_the_distance_is_the_ranking_by_radius():
    rng = np.random.default_rng(0)
    packed, y = rng.integers(0, 256, (700, 1), dtype=np.uint8), rng.integers(0, 5, 700)
    distances = codes.hamming(packed, packed).astype(float)
    got = leave_one_out_by_score(lambda rows: -distances[rows], y)
    assert got == pytest.approx(leave_one_out(packed, y).mAP)
