"""SDH against a plain twin: dense matrices, columns in turn, every step spelt out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from sihash.research.baselines import SDH
from sihash.research.baselines.base import one_hot
from sihash.research.baselines.sdh import RIDGE, RidgeRegression, cyclic_descent, fit_class_weights, gram


def column_sweeps(B, Q, W, max_passes=10):
    """The sweep of the paper: a whole column at a time, given all others; ties keep the bit."""
    B = B.copy()
    for _ in range(max_passes):
        before = B.copy()
        for k in range(B.shape[1]):
            others = np.delete(np.arange(B.shape[1]), k)
            pull = Q[:, k] - B[:, others] @ W[others] @ W[k]
            B[:, k] = np.where(pull > 0, 1, np.where(pull < 0, -1, B[:, k]))
        if np.array_equal(B, before):
            break
    return B


@given(seed=st.integers(0, 10**6), n_bits=st.integers(1, 9), n_classes=st.integers(1, 5))
@settings(max_examples=60)
def test_rows_in_turn_end_where_columns_in_turn_end(seed, n_bits, n_classes):
    rng = np.random.RandomState(seed)
    B = rng.choice([-1.0, 1.0], (20, n_bits))
    W = rng.standard_normal((n_bits, n_classes))
    Q = rng.standard_normal((20, n_bits))
    start, expected = B.copy(), column_sweeps(B, Q, W)
    n_flips = cyclic_descent(B, Q, W @ W.T)
    np.testing.assert_array_equal(B, expected)
    assert (n_flips == 0) == np.array_equal(B, start)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30)
def test_no_single_flip_improves_a_descended_code(seed):
    rng = np.random.RandomState(seed)
    B = rng.choice([-1.0, 1.0], (8, 6))
    W = rng.standard_normal((6, 3))
    Q = rng.standard_normal((8, 6))

    def value(B):
        return np.sum((B @ W) ** 2, axis=1) - 2 * np.sum(B * Q, axis=1)

    start = value(B)
    cyclic_descent(B, Q, W @ W.T, max_passes=1000)
    end = value(B)
    assert np.all(end <= start + 1e-9)
    for k in range(6):
        flipped = B.copy()
        flipped[:, k] *= -1
        assert np.all(value(flipped) >= end - 1e-9)


def test_the_steps_are_ridge_regressions_and_report_their_minimum():
    rng = np.random.RandomState(0)
    Phi, B = rng.standard_normal((50, 7)), rng.choice([-1.0, 1.0], (50, 4))
    numbers = rng.randint(0, 3, 50)
    P, P_loss = RidgeRegression(Phi, RIDGE).fit(B)
    np.testing.assert_allclose(Phi.T @ (B - Phi @ P), RIDGE * P, atol=1e-9)
    np.testing.assert_allclose(P_loss, np.sum((B - Phi @ P) ** 2) + RIDGE * np.sum(P**2))
    Y = one_hot(numbers, 3)
    W, W_loss = fit_class_weights(B, Y, 2.0)
    np.testing.assert_allclose(B.T @ (Y - B @ W), 2.0 * W, atol=1e-9)
    np.testing.assert_allclose(W_loss, np.sum((Y - B @ W) ** 2) + 2.0 * np.sum(W**2))


def test_gram_of_float32_is_summed_in_float64():
    Phi = np.random.RandomState(0).rand(9000, 3).astype(np.float32)
    np.testing.assert_allclose(gram(Phi), Phi.astype(np.float64).T @ Phi.astype(np.float64), rtol=1e-6)


@pytest.mark.parametrize("nu", [1e-5, 0.05])
def test_fit_is_the_plain_alternation(nu):
    X, y = load_digits(n_class=4, return_X_y=True)
    X, y = X[:250], y[:250]
    hasher = SDH(10, anchors=X[:40], kernel_width=0.7, nu=nu, max_iter=3, random_state=3).fit(X, y)

    rng = np.random.RandomState(3)
    B = 2.0 * rng.randint(0, 2, (250, 10), dtype=np.int8) - 1
    Phi, Y = hasher.kernel_(X), np.eye(4)[y]

    def ridge(A, T, weight):
        return np.linalg.solve(A.T @ A + weight * np.eye(A.shape[1]), A.T @ T)

    def objective():
        loss = np.sum((Y - B @ W) ** 2) + np.sum(W**2)
        return loss + nu * (np.sum((B - Phi @ P) ** 2) + RIDGE * np.sum(P**2))

    P, W = ridge(Phi, B, RIDGE), ridge(B, Y, 1.0)
    history = [objective()]
    for _ in range(3):
        new = column_sweeps(B, nu * Phi @ P + Y @ W.T, W)
        if np.array_equal(new, B):
            break
        B = new
        P, W = ridge(Phi, B, RIDGE), ridge(B, Y, 1.0)
        history.append(objective())
    np.testing.assert_allclose(hasher.coef_, P, atol=1e-6)
    np.testing.assert_allclose(hasher.objective_, history, rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_objective_never_rises(seed, dtype):
    X, y = load_digits(return_X_y=True)
    hasher = SDH(16, n_anchors=100, kernel_width=0.8, nu=1e-3, max_iter=10, random_state=seed)
    hasher.fit(X[:600].astype(dtype), y[:600])
    assert np.all(np.diff(hasher.objective_) <= 1e-6 * hasher.objective_[0])
    assert len(hasher.objective_) >= 2
