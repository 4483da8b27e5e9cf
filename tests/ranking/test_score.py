"""The score, by hand and by a slow twin; the weights, on made data."""

from __future__ import annotations

import numpy as np
import pytest

from sihash.ranking import Weights, fit_weights
from sihash.ranking.score import (
    FLOOR,
    VOTERS,
    Candidates,
    ItemLabels,
    class_log_probabilities,
    combined_scores,
    familiarity,
    label_scores,
    votes,
)

NONE = np.empty((0, 0))


def one_each(classes):
    """Labels of items that have one, or none (−1)."""
    return ItemLabels(classes[classes >= 0], (classes >= 0).astype(int))


def lists(*classes):
    """Labels of items that have any number."""
    return ItemLabels(
        np.array([k for own in classes for k in own], dtype=int), np.array([*map(len, classes)])
    )


def test_votes_by_hand():
    cosines, classes = np.array([0.9, 0.8, 0.1, 0.7]), np.array([0, 2, -1, 0])
    found = Candidates(cosines, one_each(classes), np.array([[0.1, 0.6, 0.3]]))
    weight = np.exp(10 * cosines)
    expected = np.array([(weight[0] + weight[3]) / 2, 0.6 * weight[2], weight[1]])
    np.testing.assert_allclose(votes(found, 3, 10.0), expected / expected.sum())


def test_a_class_is_heard_through_its_nearest_few():
    cosines = np.concatenate([np.linspace(0.9, 0.5, VOTERS), np.full(100, 0.4), [0.9]])
    classes = np.append(np.zeros(VOTERS + 100, int), 1)
    large, small = votes(Candidates(cosines, one_each(classes), NONE), 2, 10.0)
    weight = np.exp(10 * np.linspace(0.9, 0.5, VOTERS)).mean()
    assert large / small == pytest.approx(weight / np.exp(9.0))


def test_an_item_votes_for_each_of_its_labels():
    cosines = np.array([0.9, 0.8, 0.1])
    weight = np.exp(10 * cosines)
    found = Candidates(cosines, lists([0, 1], [1], []), np.array([[0.1, 0.6, 0.3]]))
    # The third has no label and votes for the class that it is likeliest of.
    expected = np.array([weight[0], (weight[0] + weight[1] + 0.6 * weight[2]) / 3, 0])
    np.testing.assert_allclose(votes(found, 3, 10.0), expected / expected.sum())


def test_an_item_with_several_labels_is_as_likely_as_any_of_them():
    log_r = np.log([0.6, 0.3, 0.1])
    found = Candidates(np.zeros(4), lists([0, 2], [1], [], [0, 1, 2]), np.array([[0.5, 0.25, 0.25]]))
    np.testing.assert_allclose(np.exp(label_scores(log_r, found)), [0.7, 0.3, 0.4, 1.0])


def test_labels_of_items_by_hand():
    own = lists([0, 2], [], [1])
    assert own.items.tolist() == [0, 0, 2]
    assert own.has_any([1, 2]).tolist() == [True, False, True]
    assert own.first(2).counts.tolist() == [2, 0]
    rows = np.log(np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]))
    np.testing.assert_allclose(np.exp(lists([0, 2], [1]).log_sums_of(rows)), [0.7, 0.1])


def test_weights_of_rows_with_several_labels(made):
    """A row with two labels counts as one that has each of them half of the time."""
    log_p, y, found = made
    both = [[k, (k + 1) % 5] if row % 2 else [k] for row, k in enumerate(y.tolist())]
    weights = fit_weights(log_p, lists(*both), found)

    def loss(weights):
        shares = np.array([votes(each, 5, weights.sharpness) for each in found])
        log_r = class_log_probabilities(log_p, shares, weights)
        return -np.mean([row[own].mean() for row, own in zip(log_r, both, strict=True)])

    for a, b in ((0.05, 0), (-0.05, 0), (0, 0.05), (0, -0.05)):
        moved = Weights(weights.model + a, weights.votes + b, weights.sharpness)
        assert loss(weights) < loss(moved)


def test_nobody_votes():
    np.testing.assert_allclose(
        votes(Candidates(np.empty(0), one_each(np.empty(0, int)), NONE), 4, 10.0), 0.25
    )


def test_probabilities_of_the_query_by_hand():
    p, v = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.9, 0.0])
    r = p**0.5 * (v + FLOOR) ** 2
    log_r = class_log_probabilities(np.log(p), v, Weights(model=0.5, votes=2.0))
    np.testing.assert_allclose(np.exp(log_r), r / r.sum())


def test_classes_that_have_just_come_keep_their_share():
    p, v = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])
    weights = Weights(model=0.5, votes=2.0)
    r = np.exp(class_log_probabilities(np.log(p), v, weights, 3))
    learned = p[:3] ** 0.5 * (v[:3] + FLOOR) ** 2
    np.testing.assert_allclose(r, [*(0.9 * learned / learned.sum()), 0.1])


def test_scores_by_hand():
    log_r = np.log([0.6, 0.3, 0.1])
    cosines, classes = np.array([0.5, 0.9, -0.2, 1.0]), np.array([0, 1, -1, 2])
    found = Candidates(cosines, one_each(classes), np.array([[0.5, 0.25, 0.25]]))
    unlabelled = 0.6 * 0.5 + 0.3 * 0.25 + 0.1 * 0.25
    expected = [np.log(0.6) + 0.5, np.log(0.3) + 0.9, np.log(unlabelled) - 0.2, 1.0]
    np.testing.assert_allclose(combined_scores(log_r, found, 1.0), expected)
    expected[:3] = expected[:3] - 2 * (1 - cosines[:3])
    np.testing.assert_allclose(combined_scores(log_r, found, 3.0), expected)


def test_the_same_vector_scores_1_and_nothing_else_does():
    found = Candidates(np.array([1.0, 1.0 - 1e-7]), one_each(np.array([1, 0])), NONE)
    same, other = combined_scores(np.log([1 - 1e-12, 1e-12]), found, 1.0)
    assert same == 1
    assert other < 1


def test_labelled_and_unlabelled_items_compare():
    """An item whose class is certain scores as one with that label."""
    log_r = np.log([0.6, 0.4])
    found = Candidates(np.array([0.3, 0.3]), one_each(np.array([1, -1])), np.array([[0.0, 1.0]]))
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
        found.append(Candidates(cosines, one_each(classes), NONE))
    return np.log(p), y, found


def test_weights_make_the_classes_likelier_than_margins_or_votes_alone(made):
    log_p, y, found = made
    weights = fit_weights(log_p, one_each(y), found)

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
    best = [
        familiarity(combined_scores(own, each, weights.vector))
        for own, each in zip(log_r, found, strict=True)
    ]
    assert np.mean(np.array(best) < weights.familiar_from) == pytest.approx(0.05)


def test_few_rows_take_the_default(made):
    log_p, y, found = made
    assert fit_weights(log_p[:10], one_each(y[:10]), found[:10]) == Weights()


def test_weights_survive_json():
    weights = Weights(0.5, 0.25, 40.0, 0.3, 0.05, 1000)
    assert Weights(**weights.to_json()) == weights
