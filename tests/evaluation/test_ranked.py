"""Measures of rankings by a score, against those by radius and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sihash.codes import hamming
from sihash.evaluation import RankedTally, against_database
from sihash.evaluation.measures import average_precision
from sihash.evaluation.ranked import ranked_scores


def test_minus_the_distance_gives_the_measures_of_codes():
    rng = np.random.default_rng(0)
    codes, queries = rng.integers(0, 256, (300, 2), np.uint8), rng.integers(0, 256, (40, 2), np.uint8)
    y, labels = np.sort(rng.integers(0, 5, 300)), rng.integers(0, 6, 40)  # class 5 has no item: left out
    found = ranked_scores(lambda Q: -hamming(Q, codes), y, queries, labels, np.full(40, -1))
    expected = against_database(queries, labels, codes, y, k=[1, 10, 300])
    assert found.n_left_out == expected.n_left_out > 0
    assert found.p_at_1 == pytest.approx(expected.precision_at[1], abs=1e-12)
    assert found.p_at_10 == pytest.approx(expected.precision_at[10], abs=1e-12)
    assert found.map == pytest.approx(expected.mAP_at[300], abs=1e-12)


def test_ties_by_hand():
    """0.9, then two of 0.5 of which one is relevant, then a relevant one."""
    hits, totals = np.array([[0, 1, 1]]), np.array([[1, 2, 1]])
    assert average_precision(hits, totals) == pytest.approx((1 / 3 + 2 / 4) / 2)
    scores, y = np.array([[0.9, 0.5, 0.5, 0.1]]), np.array([1, 0, 1, 0])
    found = ranked_scores(lambda _: scores, y, np.zeros((1, 1)), np.array([0]), np.array([-1]))
    assert found.p_at_1 == 0
    assert found.map == pytest.approx(((1 / 2 + 1 / 3) / 2 + 2 / 4) / 2)  # second or third, equally likely


def test_scores_of_any_kind_are_sorted_as_numbers():
    rng = np.random.default_rng(0)
    scores = rng.integers(-3, 3, (20, 50)).astype(np.float32) / 2
    scores[0, :3] = -np.inf, np.inf, -0.0
    y, labels = rng.integers(0, 3, 50), rng.integers(0, 3, 20)
    found = ranked_scores(lambda q: scores[q[:, 0]], y, np.arange(20)[:, None], labels, np.full(20, -1))
    expected = []
    for row, label in zip(scores, labels, strict=True):  # shuffled ties, many times
        orders = [rng.permutation(50) for _ in range(300)]
        right = [y[order[np.argsort(-row[order], kind="stable")]] == label for order in orders]
        expected.append((np.mean([r[0] for r in right]), np.mean([r[:10].mean() for r in right])))
    assert (found.p_at_1, found.p_at_10) == pytest.approx(tuple(np.mean(expected, axis=0)), abs=0.01)


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
    by_score = ranked_scores(lambda q: scores[q[:, 0]], y, np.arange(40)[:, None], asked, np.full(40, -1))
    whole, parts = RankedTally(), RankedTally()
    whole.add(ranked, relevant.sum(axis=1), asked)
    for start in range(0, 40, 7):
        rows = slice(start, start + 7)
        parts.add(ranked[rows], relevant[rows].sum(axis=1), asked[rows])
    assert whole.scores() == parts.scores()
    assert whole.scores().map == pytest.approx(by_score.map, abs=1e-7)
    assert whole.scores().p_at_10 == pytest.approx(by_score.p_at_10, abs=1e-12)
    assert [c.map for c in whole.scores().per_class] == pytest.approx([c.map for c in by_score.per_class])
    assert by_score.per_query.mean(axis=1)[2] == pytest.approx(by_score.map)
