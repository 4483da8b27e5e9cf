"""What the bits so far have not explained of "same class or not", kept without a matrix over pairs."""

from __future__ import annotations

import numpy as np

from sihash._typing import Array


class LabelResidue:
    """``R = m S − Σ b_k b_kᵀ`` with ``S_ij`` +1 for rows of one class, else −1, and the bits ``b_k`` so far.

    Kept as the class of each row (``numbers``) and the bits (``B``, one per column): ``S v`` needs only
    the sum of ``v`` over each class, so a product with R costs O(rows · bits) instead of O(rows²).
    """

    def __init__(self, numbers: Array, n_bits: int) -> None:
        self.numbers = numbers
        self.n_classes = int(numbers.max()) + 1
        self.n_bits = n_bits
        self._bits = np.empty((len(numbers), n_bits))
        self._n_subtracted = 0
        self.squared_norm = float(n_bits * len(numbers)) ** 2

    @property
    def B(self) -> Array:
        """The bits so far, rows × bits."""
        return self._bits[:, : self._n_subtracted]

    def __matmul__(self, v: Array) -> Array:
        class_sums = np.bincount(self.numbers, v, self.n_classes)
        return self.n_bits * (2 * class_sums[self.numbers] - v.sum()) - self.B @ (self.B.T @ v)

    def subtract(self, b: Array) -> None:
        """``R ← R − b bᵀ``, for a bit ``b`` of ±1."""
        self.squared_norm += len(b) ** 2 - 2 * float(b @ (self @ b))
        self._bits[:, self._n_subtracted] = b
        self._n_subtracted += 1
