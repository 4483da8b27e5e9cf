"""BRE against a slow twin: all pairs written out, and every place between two thresholds tried."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from sihash import codes
from sihash.research.baselines import BRE
from sihash.research.baselines.bre import objective, take_best_step


def all_pairs(B, numbers):
    """The objective as the paper writes it."""
    h = (B[:, None] != B[None]).mean(axis=2)
    d = (numbers[:, None] != numbers).astype(float)
    return float(np.mean((d - h) ** 2))


def best_of_all(feature, scores, B, k, numbers):
    """The lowest objective that any step of the weight gives."""
    thresholds = np.sort(-scores[feature != 0] / feature[feature != 0])
    steps = [thresholds[0] - 1, *(thresholds[1:] + thresholds[:-1]) / 2, thresholds[-1] + 1, 0.0]
    tried = []
    for step in steps:
        other = B.copy()
        other[:, k] = np.where(scores + step * feature >= 0, 1, -1)
        tried.append(all_pairs(other, numbers))
    return min(tried)


def problem(seed, n=25, m=5, n_classes=3):
    rng = np.random.RandomState(seed)
    K = rng.standard_normal((4, n))
    K[0, rng.rand(n) < 0.2] = 0.0
    K[1] = np.abs(K[1])
    scores = rng.standard_normal((4, m)).T @ K
    return K, scores, np.ascontiguousarray(codes.sign(scores).T), rng.randint(0, n_classes, n), rng


@given(seed=st.integers(0, 10**6), m=st.integers(1, 9), n_classes=st.integers(1, 4))
@settings(max_examples=60)
def test_objective_is_that_of_all_pairs(seed, m, n_classes):
    _, _, B, numbers, _ = problem(seed, m=m, n_classes=n_classes)
    assert objective(B, numbers) == pytest.approx(all_pairs(B, numbers))


@given(seed=st.integers(0, 10**6), m=st.integers(1, 6), n_classes=st.integers(1, 4))
@settings(max_examples=60)
def test_no_step_raises_the_objective_and_none_would_lower_it_further(seed, m, n_classes):
    K, scores, B, numbers, rng = problem(seed, m=m, n_classes=n_classes)
    for _ in range(12):
        k, q = rng.randint(m), rng.randint(4)
        before, lowest = all_pairs(B, numbers), best_of_all(K[q], scores[k], B, k, numbers)
        kept = scores[k].copy()
        step = take_best_step(K[q], scores[k], B, k, numbers, n_classes)
        after = all_pairs(B, numbers)
        assert after <= before
        assert after == pytest.approx(lowest)
        assert (step == 0) == (after == before)
        np.testing.assert_allclose(scores[k], kept + step * K[q])
        np.testing.assert_array_equal(B.T, codes.sign(scores))


def test_fit_descends_and_its_functions_give_the_codes_that_it_scored():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    hasher = BRE(16, n_anchors=100, anchors_per_bit=20, kernel_width=0.8, random_state=0).fit(X, y)
    assert (np.diff(hasher.objective_) <= 0).all()
    assert hasher.objective_[-1] < hasher.objective_[0]
    assert len(hasher.objective_) == hasher.n_iter_ + 1
    B = codes.sign(hasher.decision_function(X))
    assert objective(B, y) == pytest.approx(hasher.objective_[-1], rel=1e-3)
    assert ((hasher.coef_[:-1] != 0).sum(axis=0) == 20).all()


def test_only_labelled_rows_are_learned_from():
    X, y = load_digits(return_X_y=True)
    given = X[:80]
    few = BRE(8, anchors=given, kernel_width=0.8, n_labelled=100, random_state=0).fit(X, y)
    same = BRE(8, anchors=given, kernel_width=0.8, n_labelled=100, random_state=0)
    drawn = np.random.RandomState(0).permutation(len(X))[:100]
    wrong = y.copy()
    wrong[np.setdiff1d(np.arange(len(y)), drawn)] = 0
    np.testing.assert_array_equal(few.coef_, same.fit(X, wrong).coef_)
