"""CCA-ITQ and PCA-ITQ: directions in the rows, rotated so that the projections come closest to ±1."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from sklearn.utils import check_random_state

from sihash import labels
from sihash._typing import Array
from sihash.checks import check_count
from sihash.kernel import normalise
from sihash.modelfile import Entries
from sihash.research.baselines.base import LinearHasher, check_labelled_rows, check_rows, one_hot
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


class CCAITQ(ITQHasher):
    """Canonical correlation analysis with the labels, then iterative quantisation (Gong et al.; PAMI 2013).

    The canonical directions ``w_1, w_2, …`` maximise the correlation ``r_k`` of ``z ᵀw_k`` with the one-hot
    labels, one after the other, uncorrelated with those before. The projections ``V``, column ``k`` scaled by
    ``r_k``, are then rotated so as to minimise ``‖sign(V R) − V R‖²``.

    K classes have only K − 1 canonical directions. With more bits than that, as in the authors' code, the
    remaining columns of ``V`` have correlation 0 and vanish, and ITQ spreads the K − 1 directions over all
    bits (see `itq_rotation`); the bits then depend on each other, but each adds a cut.

    Parameters
    ----------
    n_bits : int
        Length of a code.
    regularisation : float
        Added to the diagonal of both covariance matrices.
    max_iter : int
        Iterations of ITQ.
    random_state : int, RandomState or None
        Draws the first rotation.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    mean_, coef_, intercept_ : ndarray
        The hash functions (see `LinearHasher`).
    correlations_ : ndarray
        ``r_k`` of the directions used.
    quantisation_errors_ : ndarray of shape (max_iter,)
        ``‖sign(V R) − V R‖²`` at each iteration; it never rises.

    Notes
    -----
    Where this differs from the authors' MATLAB code: rows are scaled to unit length first, as in all the
    paper's experiments; of the eigenproblem only the K columns that matter are solved for, by a thin SVD.
    """

    def __init__(
        self,
        n_bits: int = 32,
        *,
        regularisation: float = 1e-4,
        max_iter: int = 50,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.regularisation = regularisation
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows ``X`` (n × n_features) and their labels ``y``."""
        check_count("max_iter", self.max_iter)
        X, self.classes_, numbers = check_labelled_rows(self, X, y)
        rng = check_random_state(self.random_state)
        Z, centre = self._centred(X)
        directions, correlations = canonical_directions(Z, numbers, self.regularisation)
        self.correlations_ = correlations[: self.n_bits]
        self._rotate(Z, centre, directions[:, : self.n_bits] * self.correlations_, rng)
        return self

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        header, tensors = super()._state()
        return {**header, "classes": labels.to_json(self.classes_)}, tensors

    def _set_state(self, header: Entries, tensors: Entries) -> None:
        super()._set_state(header, tensors)
        self.classes_ = labels.from_json(header["classes"])


def canonical_directions(Z: Array, numbers: Array, regularisation: float) -> tuple[Array, Array]:
    """Regularised CCA of centred rows with their one-hot labels: directions (d × c) and correlations (c,).

    c is the number of classes less one, or d if that is smaller. With ``LLᵀ`` the covariance of the rows, the
    singular values of ``L⁻¹ C_zy C_yy^{−1/2}`` are the correlations.
    """
    n, d = Z.shape
    share = np.bincount(numbers) / n
    K = len(share)
    C_zz = (Z.T @ Z).astype(np.float64) / n + regularisation * np.eye(d)
    C_yy = np.diag(share) - np.outer(share, share) + regularisation * np.eye(K)
    C_zy = (one_hot(numbers, K).T @ Z).T / n  # the rows are centred, so the labels need not be
    L = scipy.linalg.cholesky(C_zz, lower=True)
    values, vectors = scipy.linalg.eigh(C_yy)
    M = scipy.linalg.solve_triangular(L, C_zy @ vectors / np.sqrt(values), lower=True)
    U, correlations, _ = np.linalg.svd(M, full_matrices=False)
    c = min(K - 1, d)
    return scipy.linalg.solve_triangular(L, U[:, :c], lower=True, trans="T"), correlations[:c]


class PCAITQ(ITQHasher):
    """Principal component analysis, then iterative quantisation (Gong et al.; PAMI 2013).

    Projects the rows on their ``n_bits`` principal directions, ``V``, and rotates those so as to minimise
    ``‖sign(V R) − V R‖²``. It never sees a label; supervised methods should do better.

    Parameters
    ----------
    n_bits : int
        Length of a code.
    max_iter : int
        Iterations of ITQ.
    random_state : int, RandomState or None
        Draws the first rotation.

    Attributes
    ----------
    mean_, coef_, intercept_ : ndarray
        The hash functions (see `LinearHasher`).
    quantisation_errors_ : ndarray of shape (max_iter,)
        ``‖sign(V R) − V R‖²`` at each iteration; it never rises.

    Notes
    -----
    Where this differs from the authors' MATLAB code: rows are scaled to unit length first, as in all the
    paper's experiments; and more bits than features are possible, spread over all directions as CCA-ITQ does.
    """

    _needs_labels = False

    def __init__(self, n_bits: int = 32, *, max_iter: int = 50, random_state: Any = None) -> None:
        self.n_bits = n_bits
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows ``X`` (n × n_features); ``y`` is ignored."""
        check_count("max_iter", self.max_iter)
        X = check_rows(self, X)
        rng = check_random_state(self.random_state)
        Z, centre = self._centred(X)
        d = Z.shape[1]
        scatter = (Z.T @ Z).astype(np.float64)
        _, E = scipy.linalg.eigh(scatter, subset_by_index=[max(0, d - self.n_bits), d - 1])
        self._rotate(Z, centre, E, rng)
        return self
