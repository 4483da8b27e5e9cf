"""Cholesky factors: those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from sihash.svm.cholesky import cholesky, cholesky_solve


@pytest.mark.parametrize("n", [1, 5, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_and_solutions_are_those_of_numpy(n, dtype):
    rng = np.random.RandomState(n)
    half = rng.normal(size=(n, 2 * n))
    A, b = (half @ half.T + np.eye(n)).astype(dtype), rng.normal(size=n)
    kept = A.copy()
    L = cholesky(A)
    assert L.dtype == dtype
    np.testing.assert_array_equal(A, kept)
    np.testing.assert_allclose(
        L, np.linalg.cholesky(A), rtol=1e-3 if dtype == np.float32 else 1e-9, atol=1e-4
    )
    if dtype == np.float64:
        np.testing.assert_allclose(cholesky_solve(L, b), np.linalg.solve(A, b), rtol=1e-8)
        np.testing.assert_allclose(A @ cholesky_solve(L, b), b, rtol=1e-8, atol=1e-10)


def test_a_matrix_without_a_factor_is_an_error():
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]))
