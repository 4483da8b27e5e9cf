"""The Hessian that all bits of the smoothed solver share: ``H = I + κ C ΦᵀΦ``, by its Cholesky factor.

The Hessian of one bit is ``I + C/width Σ φφᵀ`` over the rows in its band, and the band holds a share κ ·
width of the rows, near enough, spread over all of them. So one matrix serves every bit. It steers steps and
proves nothing: a sample of the rows does, rows that come later are added, and those of rows that went stay
in until they are many. A step by a Hessian that knows too many rows is only a little short (a class of ten
deleted: the same number of steps, CIFAR-10 and MNIST); one that misses the rows of a new class takes twice
the steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import solve_triangular

from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.settings import BLOCK_ROWS, DEFAULTS, SolverSettings
from sihash.threads import map_threads


@dataclass(frozen=True)
class Gram:
    """``ΦᵀΦ`` (d × d, float32) of every ``every``-th of ``n_rows`` rows, times ``every``."""

    matrix: Array
    every: int
    n_rows: int
    C: float
    settings: SolverSettings = DEFAULTS
    is_patched: bool = False  # columns came later, and were counted on other rows perhaps

    @classmethod
    def of(cls, rows: RowBlocks, C: float, settings: SolverSettings = DEFAULTS) -> Gram:
        every = max(1, len(rows) // (settings.rows_per_feature * rows.n_features))
        matrix = sum(rows.parts(_of_part, every, slice(None)))
        return cls(every * matrix, every, len(rows), C, settings)

    def with_rows(self, product: Array, n: int) -> Gram:
        """``product`` is what `sample_product` made of ``n`` rows that came."""
        return replace(self, matrix=self.matrix + self.every * product, n_rows=self.n_rows + n)

    def only(self, columns: Array) -> Gram:
        """The same of some columns of Φ."""
        return replace(self, matrix=self.matrix[np.ix_(columns, columns)])

    def with_columns(self, rows: RowBlocks, at: int, n_new: int) -> Gram:
        """The same with ``n_new`` columns before number ``at``, counted on the ``rows``, which have them."""
        new = slice(at, at + n_new)
        product = self.every * sum(rows.parts(_of_part, self.every, new))
        others = np.delete(np.arange(product.shape[1]), new)
        matrix = np.empty((product.shape[1], product.shape[1]), self.matrix.dtype)
        matrix[np.ix_(others, others)] = self.matrix
        matrix[new], matrix[:, new] = product, product.T
        return replace(self, matrix=matrix, is_patched=True)

    def folded(self, W: Array, kept: Array) -> Array:
        """Weights for the columns ``kept`` whose scores are nearest to those of ``W`` (m × d)."""
        gone = np.setdiff1d(np.arange(W.shape[1]), kept)
        lost = self.settings.kappa * self.C * (self.matrix[np.ix_(kept, gone)] @ W[:, gone].T)
        return W[:, kept] + self.only(kept).solve(lost.T)

    def is_stale(self, rows: RowBlocks) -> bool:
        """Whether too many of the rows in it are gone, or columns do not go together."""
        if self.n_rows > self.settings.stale * len(rows):
            return True
        try:
            return self.is_patched and self._factored[1] > 0
        except LinAlgError:
            return True

    @property
    def factor(self) -> Array:
        return self._factored[0]

    @cached_property
    def _factored(self) -> tuple[Array, float]:
        """Lower triangular ``L`` with ``L Lᵀ = I + κ C ΦᵀΦ``, float32, and the ridge that it took.

        Where C is large and features depend on each other, rounding outweighs the 1 on the diagonal: then in
        float64, and with a ridge only as large as it takes.
        """
        scale = float(self.settings.kappa * self.C)
        trace = scale * float(np.trace(self.matrix, dtype=np.float64))
        for dtype, ridge in self.settings.ridges:
            if trace > float(np.finfo(dtype).max):
                continue
            hessian: Array = self.matrix.astype(dtype)
            hessian *= scale
            hessian[np.diag_indices(len(hessian))] += 1 + ridge * trace
            try:
                return np.linalg.cholesky(hessian).astype(np.float32, copy=False), ridge
            except LinAlgError as error:
                indefinite = error
        raise indefinite

    def half_solve(self, Q: Array) -> Array:
        """``L⁻¹ q`` for the rows of ``Q`` (bits × d), as columns: its squared length is ``q · H⁻¹ q``."""
        return solve_triangular(self.factor, Q.T.astype(np.float32), lower=True, check_finite=False)

    def solve(self, Q: Array) -> Array:
        """``H⁻¹ q`` for the rows of ``Q``."""
        full = solve_triangular(self.factor, self.half_solve(Q), lower=True, trans=1, check_finite=False)
        return full.T.astype(np.float64)


def sample_product(Phi: Array, every: int) -> Array:
    """``ΦᵀΦ`` of every ``every``-th row."""
    A = np.ascontiguousarray(Phi[::every])
    return A.T @ A


def _of_part(rows: RowBlocks, every: int, columns: slice) -> Array:
    """The rows of ΦᵀΦ for some columns.

    Blocks go together in runs whose samples are about a block: short products are slow.
    """

    chosen = slice(None, None, every)

    def product(run: list[Block]) -> Array:
        some = RowBlocks(run, rows.store)
        A = np.concatenate([block.features(chosen).copy() for block in some])  # read before it is let go
        return A[:, columns].T @ A

    runs: list[list[Block]] = []
    room = 0
    for block in rows.blocks:
        if not runs or room < block.n:
            runs.append([])
            room = every * BLOCK_ROWS
        runs[-1].append(block)
        room -= block.n
    products = map_threads(product, runs)
    for other in products[1:]:
        products[0] += other
    return products[0]
