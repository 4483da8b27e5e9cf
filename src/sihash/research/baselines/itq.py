"""Iterative quantisation: the rotation that brings real vectors closest to ±1."""

from __future__ import annotations

import numpy as np

from sihash._typing import Array
from sihash.kernel import normalise
from sihash.research.baselines.linear import LinearHasher
from sihash.threads import team


class ITQHasher(LinearHasher):
    """A linear hasher whose directions are rotated by ITQ.

    A subclass centres its rows by `_centred`, finds directions ``E`` (n_features × c, c ≤ n_bits) in them and
    leaves the rest to `_rotate`.
    """

    max_iter: int

    def _centred(self, X: Array) -> tuple[Array, Array]:
        """Normalised rows less their mean, and that mean: ITQ needs projections that spread around zero."""
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        Z = normalise(X, self.mean_)
        centre = Z.mean(axis=0, dtype=np.float64)
        Z -= centre.astype(Z.dtype)
        return Z, centre

    def _rotate(self, Z: Array, centre: Array, E: Array, rng: np.random.RandomState) -> None:
        R, self.quantisation_errors_ = itq_rotation(Z @ E.astype(Z.dtype), self.n_bits, rng, self.max_iter)
        self.n_iter_ = self.max_iter
        self.coef_ = (E @ R).astype(Z.dtype)
        self.intercept_ = -(centre @ E @ R).astype(Z.dtype)


def itq_rotation(V: Array, n_bits: int, rng: np.random.RandomState, n_iter: int = 50) -> tuple[Array, Array]:
    """Minimise ``‖B − V R‖²`` over codes ``B`` (±1) and ``R`` with orthonormal rows.

    Alternates ``B = sign(V R)`` and the Procrustes solution for ``R``; neither step can raise the error.
    The authors' ``R`` is square: where ``V`` (n × c) has fewer columns than there are bits, theirs has more
    that are zero but for rounding. They add nothing to ``V R``, so ``R`` here has the other c rows only.

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
    with team():  # for products this small a BLAS of one thread is as fast, and steady beside other work
        for t in range(n_iter):
            scores = V @ R.astype(V.dtype)
            # VᵀB from the places of the +1 alone, written over the scores: one pass less over n × n_bits.
            VB = 2.0 * (V.T @ np.greater_equal(scores, 0, out=scores)) - column_sums[:, None]
            errors[t] = constant - 2 * float(np.vdot(VB, R))
            R = _orthonormal_rows(VB)
    return R, errors


def _orthonormal_rows(M: Array) -> Array:
    """The matrix with orthonormal rows nearest to ``M`` (c × n_bits, c ≤ n_bits)."""
    U, _, Vt = np.linalg.svd(M, full_matrices=False)
    return U @ Vt
