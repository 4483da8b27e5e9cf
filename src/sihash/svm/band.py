"""The Hessian of one bit's smoothed objective: ``I + C/width Σ φφᵀ`` over the rows in its band."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks

MOST_ROWS = 1000  # of the band; more are sampled evenly and weighted up


class BandHessian:
    """The Hessian by the rows ``A`` of the band, inverted through the smaller matrix ``AAᵀ`` (Woodbury)."""

    def __init__(self, A: Array, curvature: float) -> None:
        self.A = A
        if len(A):
            inner = (A @ A.T).astype(np.float64)
            # The product is exact to float32: dependent rows need a ridge of that size to stay definite.
            inner[np.diag_indices(len(A))] += 1 / curvature + 1e-6 * np.trace(inner)
            self.factor = cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)

    @classmethod
    def at(cls, rows: RowBlocks, k: int, width: float, C: float) -> BandHessian:
        """For the ``k``-th open bit, at the margins ``Z`` in the blocks' scratch."""
        n = sum(rows.parts(_count_band, k, width))
        every = max(1, -(-n // MOST_ROWS))
        A = np.concatenate(rows.parts(_band_rows, k, width, every))
        return cls(A, C / width * n / max(len(A), 1))

    def solve(self, q: Array) -> Array:
        """``H⁻¹ q = q − Aᵀ (1/curvature + AAᵀ)⁻¹ A q``."""
        if not len(self.A):
            return q.copy()
        inside = cho_solve(self.factor, self.A @ q.astype(np.float32), check_finite=False)
        return q - self.A.T @ inside.astype(np.float32)


def _near(block: Block, k: int, width: float) -> Array:
    return np.flatnonzero(np.abs(1 - block.scratch["Z"][:, k]) < width / 2)


def _count_band(rows: RowBlocks, k: int, width: float) -> int:
    return sum(len(_near(block, k, width)) for block in rows.blocks)


def _band_rows(rows: RowBlocks, k: int, width: float, every: int) -> Array:
    return np.concatenate([block["Phi"][_near(block, k, width)[::every]] for block in rows])
