"""Iterative quantisation: the rotation that brings real vectors closest to ±1."""

from __future__ import annotations

import numpy as np

from sihash._typing import Array
from sihash.kernel import row_blocks
from sihash.threads import map_threads


def itq_rotation(V: Array, n_bits: int, rng: np.random.RandomState, n_iter: int = 50) -> tuple[Array, Array]:
    """Minimise ``‖B − V R‖²`` over codes ``B`` (±1) and ``R`` with orthonormal rows.

    Alternates ``B = sign(V R)`` and the Procrustes solution for ``R``; neither step can raise the error.
    The authors' ``R`` is square. With fewer columns in ``V`` (n × c) than bits, theirs are padded with columns
    that are zero but for rounding; those add nothing to ``V R``, so ``R`` here has the other c rows only.

    Returns
    -------
    R : ndarray of shape (c, n_bits)
    errors : ndarray of shape (n_iter,)
        ``‖B − V R‖²`` with the best ``B`` for the ``R`` at the start of each iteration.
    """
    R = _orthonormal_rows(rng.standard_normal((V.shape[1], n_bits)))
    column_sums = V.sum(axis=0, dtype=np.float64)
    constant = len(V) * n_bits + float(np.vdot(V, V))
    errors = np.empty(n_iter)
    for t in range(n_iter):
        VB = 2 * _positive_sums(V, R.astype(V.dtype)) - column_sums[:, None]
        errors[t] = constant - 2 * float(np.vdot(VB, R))
        R = _orthonormal_rows(VB)
    return R, errors


def _positive_sums(V: Array, R: Array) -> Array:
    """``Vᵀ [V R ≥ 0]``, from which ``VᵀB`` follows: the codes themselves are never stored."""

    def block_sums(rows: slice) -> Array:
        scores = V[rows] @ R
        return V[rows].T @ np.greater_equal(scores, 0, out=scores)

    return np.sum(map_threads(block_sums, row_blocks(len(V))), axis=0, dtype=np.float64)


def _orthonormal_rows(M: Array) -> Array:
    """The matrix with orthonormal rows nearest to ``M`` (c × n_bits, c ≤ n_bits)."""
    U, _, Vt = np.linalg.svd(M, full_matrices=False)
    return U @ Vt
