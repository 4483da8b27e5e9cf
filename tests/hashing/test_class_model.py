"""The class model against a slow twin that integrates the class means out, and laws of its statistics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_data import blobs
from scipy.stats import multivariate_normal

from sihash import SIH
from sihash.hashing.class_model import Asking, ClassModel, Spread, fit_weights, sums_of
from sihash.hashing.rehearsal import as_they_come, divide

D, K, BITS = 5, 4, 8


def rows(sizes, seed=0, spread=2.0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    means = spread * rng.standard_normal((len(sizes), D))
    return (means[y] + rng.standard_normal((len(y), D))).astype(np.float32), y


def model_of(Z, y, words=None, **spread):
    n = int(y.max()) + 1
    sums, sizes = sums_of(Z, y, n)
    words = np.ones((n, BITS)) if words is None else words
    shared = replace(Spread.of_rows(Z, y), **spread)
    return ClassModel(shared, np.arange(n), np.ones(n, dtype=int), sums, sizes, words)


def test_log_normal_is_the_predictive_density_of_each_class():
    """Whatever is known of a mean: of one row little, of many rows nearly all."""
    Z, y = rows([1, 3, 20, 200, 50, 7])
    model = model_of(Z, y, shrinkage=0.3)
    mean, T, psi = model._basis()
    U, C = (Z[:30] - mean) @ T, (model.sums / model.sizes[:, None] - mean) @ T
    slow = np.empty((30, len(model.sizes)))
    for k, n in enumerate(model.sizes):
        precision = 1 / psi + n  # of the mean of the class, given its rows
        known, unsure = n * C[k] / precision, 1 / precision
        slow[:, k] = multivariate_normal(known, np.diag(1 + unsure)).logpdf(U)
    slow -= slow.max(axis=1, keepdims=True)
    np.testing.assert_allclose(model.log_normal(Z[:30]), slow, atol=2e-2)


def test_the_basis_makes_the_shrunk_scatter_round():
    Z, y = rows([40, 60, 80])
    model = model_of(Z, y, shrinkage=0.25)
    D_ = Z - (model.sums / model.sizes[:, None])[y]
    W = D_.T @ D_ / (len(Z) - 3)
    W = 0.75 * W + 0.25 * np.trace(W) / D * np.eye(D)
    _, T, _ = model._basis()
    np.testing.assert_allclose(T.T @ W @ T, np.eye(T.shape[1]), atol=1e-4)


def test_between_class_spread_is_found_from_few_rows_of_each():
    """Class means of two rows scatter more than the classes do; the noise is subtracted."""
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(400), 2)
    Z = (3 * rng.standard_normal((400, 1)) * np.eye(D)[0])[y] + rng.standard_normal((800, D))
    _, _, psi = model_of(Z.astype(np.float32), y, shrinkage=0.02)._basis()
    assert psi.max() == pytest.approx(9, rel=0.2)
    assert np.delete(psi, psi.argmax()).sum() < 2


def test_rows_that_come_are_rows_that_were_there():
    Z, y = rows([30, 20, 10, 5])
    whole, some = model_of(Z, y), np.arange(len(Z)) % 3 > 0
    sums, sizes = sums_of(Z[some], y[some], K)
    part = replace(whole, sums=sums, sizes=sizes)
    again = part.with_rows(Z[~some], y[~some], [[k] for k in range(K)])
    np.testing.assert_allclose(again.sums, whole.sums, rtol=1e-5)
    np.testing.assert_array_equal(again.sizes, whole.sizes)
    margins = np.ones((len(Z), BITS))
    np.testing.assert_allclose(again.log_proba(Z, margins), whole.log_proba(Z, margins), atol=1e-3)


def test_a_class_of_one_row_that_has_just_come_is_recognised():
    Z, y = rows([30, 30, 30, 30], spread=6.0)
    old = y < 3
    model = model_of(Z[old], y[old], normal_alone=1.0, normal=1.0)
    (first,) = np.flatnonzero(~old)[:1]
    now = model.with_rows(Z[[first]], np.array([0]), [[3]])
    P = np.exp(now.log_proba(Z, np.zeros((len(Z), BITS))))
    assert P.shape == (len(Z), 4)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-4)
    assert (P[~old].argmax(axis=1) == 3).mean() > 0.9
    assert (P[old].argmax(axis=1) == y[old]).mean() > 0.9


def test_a_label_is_as_likely_as_its_sets_together():
    model = model_of(*rows([9, 9, 9]))
    model = replace(model, flat=np.array([0, 0, 1, 1]), counts=np.array([1, 2, 1]))
    P = np.array([[0.5, 0.3, 0.2]])
    np.testing.assert_allclose(np.exp(model.of_labels(np.log(P))), [[0.8, 0.5]])


def test_the_prior_is_a_power_of_the_class_size():
    Z, y = rows([90, 10], spread=0.0)  # nothing tells the classes apart
    model = model_of(Z, y, normal=0.0)
    for prior, odds in ((0.0, 1), (0.5, 3), (1.0, 9)):
        P = np.exp(replace(model, prior=prior).log_proba(Z[:1], np.zeros((1, BITS))))
        assert P[0, 0] / P[0, 1] == pytest.approx(odds, rel=1e-4)


def test_weights_go_to_what_tells_classes_apart():
    rng = np.random.default_rng(0)
    words = np.sign(rng.standard_normal((K, BITS)))
    Z, y = rows([200] * K, spread=0.0)
    blind = Asking(model_of(Z, y, words), Z, words[y] + rng.standard_normal((len(y), BITS)), y)
    found = fit_weights([blind], several=False)
    assert found.words > 1
    Z, y = rows([200] * K, spread=1.0)
    seeing = Asking(model_of(Z, y, words), Z, rng.standard_normal((len(y), BITS)), y)
    found = fit_weights([seeing], several=False)
    assert found.words < 0.5
    assert found.normal > 0.3


def test_classes_of_one_row_each_have_a_model():
    Z, y = rows([1] * 6)
    model = model_of(Z, y)
    assert (np.exp(model.log_proba(Z, np.zeros((6, BITS)))).argmax(axis=1) == y).all()


@pytest.mark.parametrize("n", [40, 400])
def test_rows_that_ask_are_not_kept_and_sizes_are_those_of_the_whole(n):
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(30), rng.choice([1, 2, 5, 20, n], 30))
    asking, kept = divide(y, rng)
    assert not len(np.intersect1d(asking, kept))
    before, after = np.bincount(y), np.bincount(y[kept], minlength=30)
    assert (after >= 1).all(), "every class is left something"
    assert (after[before == 1] == 1).all()
    asked = np.bincount(y[asking], minlength=30)
    assert (asked <= np.maximum(1, 0.2 * before)).all()
    assert ((asked > 0) == (before > 1)).all()
    assert (after == 1).mean() >= (before == 1).mean()


def test_queries_as_they_come_leave_every_class_a_row():
    labels = [("a",)] * 50 + [("b",)] * 2 + [("c",)]
    asking, kept = as_they_come(labels, 10)
    assert len(asking) == 10
    assert sorted([*asking, *kept]) == list(range(53))
    assert {labels[k] for k in kept} == {("a",), ("b",), ("c",)}


def test_predictions_after_an_update_are_those_of_a_model_made_again():
    """Nothing of the version before is kept but what all classes share."""
    X, y = blobs(600)
    hasher = SIH(n_bits=16, n_anchors=60, random_state=0).fit(X[:560], y[:560])
    hasher.predict(X[:1])
    hasher.add(X[560:], y[560:])
    training = hasher.training_
    fresh = training._model_with(training.class_model().spread)
    margins = hasher.decision_function(X)
    np.testing.assert_allclose(
        hasher.functions_.class_log_proba(X, margins),
        fresh.log_proba(hasher.functions_.directions(X), margins),
        atol=1e-4,
    )
    assert fresh.sizes.sum() == 600


def test_labels_by_chance_are_known_to_be_chance():
    rng = np.random.RandomState(0)
    X, y = rng.standard_normal((600, 20)).astype(np.float32), rng.randint(5, size=600)
    P = SIH(n_bits=16, random_state=0, n_anchors=300).fit(X, y).predict_proba(rng.standard_normal((200, 20)))
    assert P.max() < 0.45
