"""The two loops against the matrix that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from sihash.svm import lbfgs

M, PAIRS, D = 4, 3, 6


def inverse_hessian(start, s, y, rho):
    """The dense BFGS update, pair after pair."""
    H = start
    for k in range(len(rho)):
        if rho[k]:
            left = np.eye(D) - rho[k] * np.outer(s[k], y[k])
            H = left @ H @ left.T + rho[k] * np.outer(s[k], s[k])
    return H


@pytest.mark.parametrize("n_pairs", range(PAIRS + 3))
def test_the_step_is_that_of_the_dense_matrix(n_pairs):
    rng = np.random.RandomState(n_pairs)
    s, y, rho = np.zeros((M, PAIRS, D)), np.zeros((M, PAIRS, D)), np.zeros((M, PAIRS))
    A = rng.normal(size=(D, D))
    hessian, start, bits = A @ A.T + np.eye(D), np.diag(rng.uniform(0.5, 2, size=D)), np.array([3, 1])
    moves = rng.normal(size=(n_pairs, 2, D))
    for move in moves:
        change = move @ hessian
        lbfgs.remember(s, y, rho, bits, move, change, np.sum(move * change, axis=1))
    np.testing.assert_array_equal(rho[[0, 2]], 0)
    assert (rho[bits] != 0).sum() == 2 * min(n_pairs, PAIRS)
    kept = moves[-PAIRS:]
    np.testing.assert_array_equal(s[bits, PAIRS - len(kept) :], kept.swapaxes(0, 1))
    gradient = rng.normal(size=(2, D))
    q = gradient.copy()
    alpha = lbfgs.before_hessian(q, s, y, rho, bits)
    h = q @ start
    lbfgs.behind_hessian(h, alpha, s, y, rho, bits)
    for i, j in enumerate(bits):
        np.testing.assert_allclose(h[i], inverse_hessian(start, s[j], y[j], rho[j]) @ gradient[i], rtol=1e-9)
