"""CCA-ITQ: the directions that tell the classes apart, rotated towards ±1."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from sklearn.utils import check_random_state

from sihash import labels
from sihash._typing import Array
from sihash.checks import check_count
from sihash.modelfile import Entries
from sihash.research.baselines.itq import ITQHasher
from sihash.research.baselines.training import check_labelled_rows, one_hot


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
