"""Cholesky factors beside other work: those of SciPy keep Python's lock, and every other thread waits."""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array


@numba.njit(nogil=True, cache=True)
def cholesky(A: Array) -> Array:
    """The lower triangular ``L`` with ``L Lᵀ = A``; a `numpy.linalg.LinAlgError` where there is none."""
    return np.linalg.cholesky(A)


@numba.njit(nogil=True, cache=True)
def cholesky_solve(L: Array, b: Array) -> Array:
    """``A⁻¹ b`` for one vector."""
    n, x = len(b), b.copy()
    for i in range(n):
        x[i] = (x[i] - np.dot(L[i, :i], x[:i])) / L[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= L[i, i]
        x[:i] -= x[i] * L[i, :i]
    return x
