"""Cholesky factors: those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from sihash.svm.cholesky import cholesky, cholesky_each, solve_each


@pytest.mark.parametrize("n", [1, 5, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_are_those_of_numpy(n, dtype):
    rng = np.random.RandomState(n)
    half = rng.normal(size=(n, 2 * n))
    A = (half @ half.T + np.eye(n)).astype(dtype)
    kept = A.copy()
    L = cholesky(A)
    assert L.dtype == dtype
    np.testing.assert_array_equal(A, kept)
    np.testing.assert_allclose(
        L, np.linalg.cholesky(A), rtol=1e-3 if dtype == np.float32 else 1e-9, atol=1e-4
    )


@pytest.mark.parametrize("n", [1, 5, 64])
def test_each_of_many_is_solved_with_its_own_factor(n):
    rng = np.random.RandomState(n)
    half = rng.normal(size=(4, n, 2 * n))
    A, B, which = half @ half.swapaxes(1, 2) + np.eye(n), rng.normal(size=(3, n)), np.array([3, 0, 3])
    L = cholesky_each(A)
    np.testing.assert_allclose(L, np.linalg.cholesky(A), rtol=1e-9, atol=1e-10)
    X = solve_each(L, which, B)
    np.testing.assert_allclose(np.einsum("kab,kb->ka", A[which], X), B, rtol=1e-8, atol=1e-10)


def test_a_matrix_without_a_factor_is_an_error():
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]))
