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
def cholesky_each(A: Array) -> Array:
    """The same for each of some matrices, one after another."""
    L = np.empty_like(A)
    for k in range(len(A)):
        L[k] = np.linalg.cholesky(A[k])
    return L


@numba.njit(nogil=True, cache=True)
def solve_each(L: Array, which: Array, B: Array) -> Array:
    """``A⁻¹ b`` for each row ``b`` of ``B``, by the factor of ``A`` that is numbered in ``which``."""
    X = B.copy()
    for k in range(len(B)):
        factor, x = L[which[k]], X[k]
        for i in range(len(x)):
            x[i] = (x[i] - np.dot(factor[i, :i], x[:i])) / factor[i, i]
        for i in range(len(x) - 1, -1, -1):
            x[i] /= factor[i, i]
            x[:i] -= x[i] * factor[i, :i]
    return X
