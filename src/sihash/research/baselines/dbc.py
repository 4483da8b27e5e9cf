"""Predictable discriminative binary codes: splits that keep classes whole, learned with maximum margin."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import scipy.linalg

from sihash import codes
from sihash._typing import Array
from sihash.kernel import normalise
from sihash.research.baselines.base import Anchors, KernelHasher
from sihash.svm import solve_binary
from sihash.threads import map_threads

MAX_PASSES = 50  # over the rows in one descent of a bit


class DBC(KernelHasher):
    """Predictable discriminative binary codes (Rastegari, Farhadi, Forsyth; ECCV 2012).

    Every bit is a split of the rows that a maximum-margin plane can predict. A round has two steps. First the
    codes descend on ``Σ_same d(b_i, b_j) − λ Σ_other d(b_i, b_j)``, d the Hamming distance, over all pairs of
    one class and of two classes: classes go to one side as a whole, and as many to either side. Then one SVM
    per bit learns the split, and every row takes the side that the SVM predicts: visual evidence overrules
    the class. The first codes are the signs of the principal components.

    Parameters
    ----------
    n_bits, n_anchors, anchors, kernel_width : as in `KernelHasher`
    separation : float
        λ above.
    C : float
        Soft margin of the SVMs, ``½‖w‖² + C Σ hinge``; the default is that of `SIH`.
    max_iter : int
        Maximum number of rounds; a round whose splits are those of the one before ends the fit.
    random_state : int, RandomState or None
        Draws the anchors, and the directions of bits beyond the number of columns.

    Attributes
    ----------
    classes_, kernel_ : as in `KernelHasher`
    coef_ : ndarray of shape (n_anchors + 1, n_bits)
        The planes.
    splits_ : ndarray of shape (n_classes, n_bits)
        On which side (±1) most rows of a class were put before the last SVMs learned it.
    n_iter_ : int
        Rounds done.

    Notes
    -----
    Where this differs from the authors' paper, and why:

    - How their codes descend is described in supplementary material that was not available. Here whole
      classes change sides first, then single rows, each only if that lowers the sum; both take O(1) per try,
      because the sum depends on the bit only through its sums over each class.
    - Their SVMs are linear in the image features. Here they are linear in RBF features, like those of the
      other supervised methods in the paper of SIH.
    - Nothing but the start makes bits differ, as in the paper: some may end as the same split.
    """

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_anchors: int = 1000,
        anchors: Anchors = "random",
        kernel_width: float | str = "auto",
        separation: float = 1.0,
        C: float = 32.0,
        max_iter: int = 5,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_bits, n_anchors, anchors, kernel_width, random_state)
        self.separation = separation
        self.C = C
        self.max_iter = max_iter

    def _learn(self, X: Array, numbers: Array, rng: np.random.RandomState) -> None:
        if not 0 <= self.separation < np.inf:
            raise ValueError(f"separation must be finite and at least 0, got {self.separation}.")
        Phi = self.kernel_(X).astype(np.float32, copy=False)
        B = principal_signs(normalise(X, self.kernel_.mean), self.n_bits, rng)
        splits, warm = None, None
        self.n_iter_ = 0
        while self.n_iter_ < self.max_iter:
            self.n_iter_ += 1
            descend(B, numbers, len(self.classes_), self.separation)
            if splits is not None and np.array_equal(B, splits):
                break
            splits = B
            solution = solve_binary(Phi, B, self.C, warm=warm)
            warm = solution.warm
            B = codes.sign(Phi @ solution.W.T.astype(np.float32))
        assert splits is not None
        self.coef_ = solution.W.T.astype(X.dtype)
        sums = np.zeros((len(self.classes_), self.n_bits))
        np.add.at(sums, numbers, splits)
        self.splits_ = codes.sign(sums)


def principal_signs(Z: Array, n_bits: int, rng: np.random.RandomState) -> Array:
    """Signs (n × n_bits, int8) of the leading principal components, then of random directions."""
    Z = Z - Z.mean(axis=0)
    d = Z.shape[1]
    _, E = scipy.linalg.eigh((Z.T @ Z).astype(np.float64), subset_by_index=[max(0, d - n_bits), d - 1])
    directions = E[:, ::-1]
    if n_bits > d:
        directions = np.hstack([directions, rng.standard_normal((d, n_bits - d))])
    return codes.sign(Z @ directions.astype(Z.dtype))


def descend(B: Array, numbers: Array, n_classes: int, separation: float) -> None:
    """Lower ``Σ_same d − λ Σ_other d`` bit by bit, in place, until no class and no row gains by a change."""

    def one(k: int) -> None:
        bit = B[:, k].copy()
        _descend_bit(bit, numbers, n_classes, separation, MAX_PASSES)
        B[:, k] = bit

    map_threads(one, range(B.shape[1]))


@numba.njit(nogil=True, cache=True)
def _descend_bit(bit, numbers, n_classes, separation, max_passes):  # type: ignore[no-untyped-def]
    """One bit (n, ±1) in place.

    With s_c the sums of the bit over the classes and S over all rows, four times the objective is a constant
    plus ``λ S² − (1 + λ) Σ s_c²``. A class that changes sides as a whole changes S alone.
    """
    sums = np.zeros(n_classes)
    for i in range(len(bit)):
        sums[numbers[i]] += bit[i]
    turned = np.ones(n_classes)
    total = sums.sum()
    for _ in range(max_passes):
        changed = False
        # 1. Whole classes, while that brings the two sides closer to each other.
        for c in range(n_classes):
            if separation > 0 and abs(total - 2 * sums[c]) < abs(total):
                total -= 2 * sums[c]
                sums[c] = -sums[c]
                turned[c] = -turned[c]
                changed = True
        for i in range(len(bit)):
            bit[i] *= int(turned[numbers[i]])
        turned[:] = 1.0
        # 2. Single rows.
        for i in range(len(bit)):
            b, c = bit[i], numbers[i]
            gain = (1 + separation) * (1 - b * sums[c]) - separation * (1 - b * total)
            if gain > 0:  # only a strict gain flips: ties keep the bit
                bit[i] = -b
                sums[c] -= 2 * b
                total -= 2 * b
                changed = True
        if not changed:
            break
