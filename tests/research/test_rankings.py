"""Other rankings of the same codes: queries left out of their own database, scores that mean something."""

from __future__ import annotations

import numpy as np
import pytest

from sihash import SIH, codes
from sihash.research import rankings
from sihash.research.task import load_task


@pytest.fixture(scope="module")
def fitted():
    task = load_task("digits", 400, 150)
    return SIH(16, 60, random_state=0).fit(task.train.X, task.train.y), task.test


def test_asymmetric_ranking_by_hand(fitted, monkeypatch):
    hasher, test = fitted
    monkeypatch.setattr(rankings, "SCORED_QUERIES", 64)
    got = rankings.leave_one_out_scores(hasher, test.X, test.y)["asymmetric"]
    margins = hasher.decision_function(test.X)
    soft, signs = np.tanh(margins).astype(np.float32).astype(float), codes.sign(margins)
    products = np.array(
        [(row * signs).sum(axis=1) for row in soft]
    )  # equal for equal codes, to the last digit
    expected = []
    for q in range(len(test)):
        others = np.arange(len(test)) != q
        scores, own = products[q, others], test.y[others] == test.y[q]
        balls = [(own[scores >= s].mean(), own[scores == s].sum() / own.sum()) for s in np.unique(scores)]
        expected.append(sum(precision * share for precision, share in balls))
    assert got == pytest.approx(np.mean(expected))


def test_class_probabilities_rank_best(fitted):
    hasher, test = fitted
    got = rankings.leave_one_out_scores(hasher, test.X, test.y)
    assert set(got) == set(rankings.RANKINGS)
    assert 0.8 < got["asymmetric"] <= got["semantic"] + 0.02 <= 1.02
