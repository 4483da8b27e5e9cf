"""The score, by hand and by a slow twin; the weights, on made data."""

from __future__ import annotations

import numpy as np
import pytest

from sihash.ranking import Weights, fit_weights
from sihash.ranking.score import (
    FLOOR,
    VOTERS,
    Candidates,
    class_log_probabilities,
    combined_scores,
    familiarity,
    label_scores,
    votes,
)

NONE = np.empty((0, 0))


def test_votes_by_hand():
    cosines, classes = np.array([0.9, 0.8, 0.1, 0.7]), np.array([0, 2, -1, 0])
    found = Candidates(cosines, classes, np.array([[0.1, 0.6, 0.3]]))
    weight = np.exp(10 * cosines)
    expected = np.array([(weight[0] + weight[3]) / 2, 0.6 * weight[2], weight[1]])
    np.testing.assert_allclose(votes(found, 3, 10.0), expected / expected.sum())


def test_a_class_is_heard_through_its_nearest_few():
    cosines = np.concatenate([np.linspace(0.9, 0.5, VOTERS), np.full(100, 0.4), [0.9]])
    classes = np.append(np.zeros(VOTERS + 100, int), 1)
    large, small = votes(Candidates(cosines, classes, NONE), 2, 10.0)
    weight = np.exp(10 * np.linspace(0.9, 0.5, VOTERS)).mean()
    assert large / small == pytest.approx(weight / np.exp(9.0))


def test_nobody_votes():
    np.testing.assert_allclose(votes(Candidates(np.empty(0), np.empty(0, int), NONE), 4, 10.0), 0.25)


def test_probabilities_of_the_query_by_hand():
    p, v = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.9, 0.0])
    r = p**0.5 * (v + FLOOR) ** 2
    log_r = class_log_probabilities(np.log(p), v, Weights(margins=0.5, votes=2.0))
    np.testing.assert_allclose(np.exp(log_r), r / r.sum())


def test_scores_by_hand():
    log_r = np.log([0.6, 0.3, 0.1])
    cosines, classes = np.array([0.5, 0.9, -0.2, 1.0]), np.array([0, 1, -1, 2])
    found = Candidates(cosines, classes, np.array([[0.5, 0.25, 0.25]]))
    unlabelled = 0.6 * 0.5 + 0.3 * 0.25 + 0.1 * 0.25
    expected = [np.log(0.6) + 0.5, np.log(0.3) + 0.9, np.log(unlabelled) - 0.2, 1.0]
    np.testing.assert_allclose(combined_scores(log_r, found), expected)


def test_the_same_vector_scores_1_and_nothing_else_does():
    found = Candidates(np.array([1.0, 1.0 - 1e-7]), np.array([1, 0]), NONE)
    same, other = combined_scores(np.log([1 - 1e-12, 1e-12]), found)
    assert same == 1
    assert other < 1


def test_labelled_and_unlabelled_items_compare():
    """An item that its code is certain of scores as one with that label."""
    log_r = np.log([0.6, 0.4])
    found = Candidates(np.array([0.3, 0.3]), np.array([1, -1]), np.array([[0.0, 1.0]]))
    labelled, unlabelled = label_scores(log_r, found)
    assert labelled == pytest.approx(unlabelled)


def test_familiarity_is_the_mean_of_the_best_scores():
    assert familiarity(np.array([0.1, 0.9, 0.8, 0.7, 0.6, 0.5])) == pytest.approx(0.7)
    assert familiarity(np.array([-3.0])) == pytest.approx(-3.0)
    assert familiarity(np.empty(0)) == -np.inf


@pytest.fixture(scope="module")
def made():
    """Margins that are right for 80 % of the rows, voters that are right where they are near."""
    rng = np.random.default_rng(0)
    n, K = 400, 5
    y = rng.integers(K, size=n)
    said = np.where(rng.random(n) < 0.8, y, rng.integers(K, size=n))
    p = np.full((n, K), 0.05)
    p[np.arange(n), said] = 0.8
    found = []
    for own in y:
        cosines = rng.uniform(0, 1, 50)
        right = rng.random(50) < cosines**2
        classes = np.where(right, own, rng.integers(K, size=50))
        found.append(Candidates(cosines, classes, NONE))
    return np.log(p), y, found


def test_weights_make_the_classes_likelier_than_margins_or_votes_alone(made):
    log_p, y, found = made
    weights = fit_weights(log_p, y, found)

    def loss(weights):
        shares = np.array([votes(each, 5, weights.sharpness) for each in found])
        return -class_log_probabilities(log_p, shares, weights)[np.arange(len(y)), y].mean()

    assert loss(weights) < loss(Weights(1.0, 0.0)) - 0.05
    assert loss(weights) < loss(Weights(0.0, 1.0, weights.sharpness)) - 0.05
    assert weights.votes > 0
    assert weights.n_rows == 400
    assert weights.refused == pytest.approx(0.05)
    shares = np.array([votes(each, 5, weights.sharpness) for each in found])
    log_r = class_log_probabilities(log_p, shares, weights)
    best = [familiarity(combined_scores(own, each)) for own, each in zip(log_r, found, strict=True)]
    assert np.mean(np.array(best) < weights.familiar_from) == pytest.approx(0.05)


def test_few_rows_take_the_default(made):
    log_p, y, found = made
    assert fit_weights(log_p[:10], y[:10], found[:10]) == Weights()


def test_weights_survive_json():
    weights = Weights(0.5, 0.25, 40.0, 0.3, 0.05, 1000)
    assert Weights(**weights.to_json()) == weights
