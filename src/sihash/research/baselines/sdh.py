"""Supervised discrete hashing: codes from which a linear classifier tells the classes."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import scipy.linalg
import scipy.sparse

from sihash._typing import Array
from sihash.kernel import row_blocks
from sihash.research.baselines.base import Anchors, KernelHasher, one_hot
from sihash.threads import map_threads

RIDGE = 1e-2  # of the hash functions, as in the authors' code


class SDH(KernelHasher):
    """Supervised discrete hashing (Shen, Shen, Liu, Shen; CVPR 2015), with the squared loss.

    Minimises, over codes ``B`` (n × n_bits, ±1), class weights ``W`` and hash functions ``P``::

        ‖Y − B W‖² + λ ‖W‖² + ν (‖B − Φ P‖² + ρ ‖P‖²)

    with ``Y`` the one-hot labels, λ = ``regularisation``, ν = ``nu`` and ρ = 1e-2. A round takes the three in
    turn: ``B`` by discrete cyclic coordinate descent, ``W`` and ``P`` by ridge regression.

    Parameters
    ----------
    n_bits, n_anchors, anchors, kernel_width : as in `KernelHasher`
    nu, regularisation : float
        ν and λ above.
    max_iter : int
        Maximum number of rounds.
    random_state : int, RandomState or None
        Draws the anchors and the first codes.

    Attributes
    ----------
    classes_, kernel_ : as in `KernelHasher`
    coef_ : ndarray of shape (n_anchors + 1, n_bits)
        P.
    objective_ : ndarray
        The objective at the start and after each round that flipped a bit; it never rises.
    n_iter_ : int
        Rounds done; the last may have found no bit to flip.

    Notes
    -----
    Where this differs from the authors' MATLAB code, and why:

    - Coordinate descent continues from the codes of the previous round; theirs starts at ``B = 0`` each
      round, so that its objective may rise.
    """

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_anchors: int = 1000,
        anchors: Anchors = "random",
        kernel_width: float | str = "auto",
        nu: float = 1e-5,
        regularisation: float = 1.0,
        max_iter: int = 5,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_bits, n_anchors, anchors, kernel_width, random_state)
        self.nu = nu
        self.regularisation = regularisation
        self.max_iter = max_iter

    def _learn(self, X: Array, numbers: Array, rng: np.random.RandomState) -> None:
        Phi = self.kernel_(X)
        B = 2 * rng.randint(0, 2, (len(X), self.n_bits), dtype=np.int8).astype(Phi.dtype) - 1

        hash_functions = RidgeRegression(Phi, RIDGE)
        Y = one_hot(numbers, len(self.classes_))
        P, P_loss = hash_functions.fit(B)
        W, W_loss = fit_class_weights(B, Y, self.regularisation)
        history = [W_loss + self.nu * P_loss]
        for n_iter in range(1, self.max_iter + 1):
            self.n_iter_ = n_iter
            # Q is what pulls each bit to its side, WWᵀ how hard the bits of one row push each other.
            Q = self.nu * (Phi @ P) + W.T[numbers]
            if cyclic_descent(B, Q, W @ W.T) == 0:
                break  # W and P are the optimum for these codes already: every later round is this one again
            P, P_loss = hash_functions.fit(B)
            W, W_loss = fit_class_weights(B, Y, self.regularisation)
            history.append(W_loss + self.nu * P_loss)
        self.coef_ = P
        self.objective_ = np.array(history)


class RidgeRegression:
    """Ridge regressions of many codes on one Φ, whose Gram matrix is made and factored once."""

    def __init__(self, Phi: Array, ridge: float) -> None:
        self.Phi = Phi
        identity = np.eye(Phi.shape[1])
        L = np.linalg.cholesky(gram(Phi) + ridge * identity)
        # Kept inverted, so that a solve is two products by numpy. Scipy has a BLAS of its own, whose threads
        # wait for those of numpy's to stop spinning: cho_solve after a product took twice the product's time.
        self.L_inverse = scipy.linalg.solve_triangular(L, identity, lower=True)

    def fit(self, B: Array) -> tuple[Array, float]:
        """The ``P`` (n_features × n_bits) that minimises ``‖B − Φ P‖² + ρ ‖P‖²``, and that minimum."""
        PhiB = (self.Phi.T @ B).astype(np.float64)
        P = self.L_inverse.T @ (self.L_inverse @ PhiB)
        return P.astype(B.dtype), B.size - float(np.vdot(PhiB, P))


def gram(Phi: Array) -> Array:
    """ΦᵀΦ as float64: the products of row blocks in the float type of Φ, their sum in float64."""
    G = np.zeros((Phi.shape[1], Phi.shape[1]))
    for rows in row_blocks(len(Phi)):
        G += Phi[rows].T @ Phi[rows]
    return G


def fit_class_weights(B: Array, Y: scipy.sparse.csr_array, ridge: float) -> tuple[Array, float]:
    """The ``W`` (n_bits × n_classes) that minimises ``‖Y − B W‖² + λ ‖W‖²``, and that minimum."""
    BB = (B.T @ B).astype(np.float64)
    BY = (Y.T @ B).T.astype(np.float64)
    W = np.linalg.solve(BB + ridge * np.eye(len(BB)), BY)
    return W.astype(B.dtype), len(B) - float(np.vdot(BY, W))


def cyclic_descent(B: Array, Q: Array, coupling: Array, max_passes: int = 10) -> int:
    """Lower ``‖B W‖² − 2 tr(Bᵀ Q)`` bit by bit, in place; ``coupling`` is WWᵀ. Returns how many bits flipped.

    The rows of ``B`` do not touch each other, so each goes through its bits until a pass flips none, which
    ends where the authors' sweep over the columns ends.
    """
    pull = Q - B @ coupling + B * np.diagonal(coupling)

    def descend(rows: slice) -> int:
        return _descend_rows(B[rows], pull[rows], coupling, max_passes)

    return sum(map_threads(descend, row_blocks(len(B))))


@numba.njit(nogil=True, cache=True)
def _descend_rows(B, pull, coupling, max_passes):  # type: ignore[no-untyped-def]
    """``pull[i, k]`` is the score of bit k given the other bits of row i; flips keep it up to date."""
    n, m = B.shape
    n_flips = 0
    for i in range(n):
        for _ in range(max_passes):
            flipped = 0
            for k in range(m):
                if B[i, k] * pull[i, k] < 0:  # only a strict gain flips: ties keep the bit
                    B[i, k] = -B[i, k]
                    step = 2 * B[i, k]
                    for j in range(m):
                        if j != k:
                            pull[i, j] -= step * coupling[k, j]
                    flipped += 1
            n_flips += flipped
            if flipped == 0:
                break
    return n_flips
