"""Measures of rankings by a score, against those by radius and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sihash.codes import hamming
from sihash.evaluation import RankedTally, against_database
from sihash.evaluation.ranked import mean_average_precision, mean_precision_at


def test_minus_the_distance_gives_the_map_of_the_paper():
    rng = np.random.default_rng(0)
    codes, queries = rng.integers(0, 256, (300, 2), np.uint8), rng.integers(0, 256, (40, 2), np.uint8)
    y, asked = rng.integers(0, 5, 300), rng.integers(0, 6, 40)  # class 5 has no item: left out
    scores = -hamming(queries, codes).astype(np.int64)
    mAP = mean_average_precision(scores, asked[:, None] == y)
    assert mAP == pytest.approx(against_database(queries, asked, codes, y).mAP, abs=1e-12)


def test_by_hand():
    scores = np.array([[0.9, 0.5, 0.5, 0.1]])
    assert mean_average_precision(scores, np.array([[0, 1, 0, 1]], bool)) == pytest.approx(
        (1 / 3 + 2 / 4) / 2
    )
    assert np.isnan(mean_average_precision(scores, np.zeros((1, 4), bool)))
    assert mean_precision_at(2, scores, np.array([[1, 0, 1, 1]], bool)) == 0.75


def test_precision_does_not_depend_on_the_order_of_ties():
    rng = np.random.default_rng(1)
    codes, queries = rng.integers(0, 256, (300, 1), np.uint8), rng.integers(0, 256, (40, 1), np.uint8)
    y, asked = np.sort(rng.integers(0, 5, 300)), rng.integers(0, 5, 40)
    scores = -hamming(queries, codes).astype(np.int64)
    expected = against_database(queries, asked, codes, y, k=[10]).precision_at[10]
    assert mean_precision_at(10, scores, asked[:, None] == y) == pytest.approx(expected, abs=1e-12)


def test_a_tally_by_hand():
    tally = RankedTally()
    found = np.array([[1, 0, 1, 0], [0, 0, 1, 0]], bool)
    tally.add(found, np.array([2, 4]), np.array([3, 3]))  # of the second query's four, one was found
    tally.add(np.array([[1, 1, 0, 0]], bool), np.array([2]), np.array([1]))
    tally.add(np.zeros((1, 4), bool), np.array([0]), np.array([9]))  # the only one of its class
    scores = tally.scores()
    first, second = (1 / 1 + 2 / 3) / 2, (1 / 3) / 4
    assert (scores.n_queries, scores.n_left_out) == (3, 1)
    assert scores.p_at_1 == pytest.approx(2 / 3)
    assert scores.p_at_10 == pytest.approx((0.2 + 0.1 + 0.2) / 3)  # divided by ten, though there are four
    assert scores.map == pytest.approx((first + second + 1) / 3)
    assert [(c.label, c.n_queries) for c in scores.per_class] == [(1, 1), (3, 2)]
    assert scores.per_class[1].map == pytest.approx((first + second) / 2)
    assert [c.label for c in scores.worst(1)] == [3]
    assert [c.label for c in scores.worst(5)] == [3, 1]


def test_without_queries_a_tally_has_no_means():
    for tally in (RankedTally(), RankedTally()):
        scores = tally.scores()
        assert np.isnan([scores.p_at_1, scores.p_at_10, scores.map]).all()
        assert scores.per_class == ()
        tally.add(np.zeros((2, 3), bool), np.zeros(2, int), np.array([0, 1]))
        assert tally.scores().n_left_out == 2


def test_a_tally_agrees_with_scores_that_do_not_tie_however_it_is_fed():
    rng = np.random.default_rng(2)
    scores, y, asked = rng.random((40, 300)), rng.integers(0, 5, 300), rng.integers(0, 5, 40)
    relevant = asked[:, None] == y
    ranked = np.take_along_axis(relevant, np.argsort(-scores, axis=1), axis=1)
    whole, parts = RankedTally(), RankedTally()
    whole.add(ranked, relevant.sum(axis=1), asked)
    for start in range(0, 40, 7):
        rows = slice(start, start + 7)
        parts.add(ranked[rows], relevant[rows].sum(axis=1), asked[rows])
    assert whole.scores() == parts.scores()
    assert whole.scores().map == pytest.approx(mean_average_precision(scores, relevant), abs=1e-12)
    assert whole.scores().p_at_10 == pytest.approx(mean_precision_at(10, scores, relevant), abs=1e-12)
    for one in whole.scores().per_class:
        own = asked == one.label
        assert one.map == pytest.approx(mean_average_precision(scores[own], relevant[own]), abs=1e-12)
