"""What the smoothed solver keeps between solves: scores, band, curvature, and the shared Hessian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from sihash._typing import Array
from sihash.svm.balance import strongest_directions
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.counting import Snapshot, Sums, hinge
from sihash.svm.machines import Machines
from sihash.threads import map_threads

N_SLOTS = 3  # planes kept a group: the last three gradients ...
ASCENDED = N_SLOTS  # ... and one slot for the best dual point near the last of them
MEMORY = 6  # curvature pairs kept a bit
KAPPA = 0.2  # share of rows in the band, per unit of width
SAMPLE_PER_FEATURE = 16  # rows for the shared Hessian, as a multiple of its order
FEW_NEAR = 0.5  # of all rows are in some band: then only these make the Hessian
RIDGES = (0, 1e-7, 1e-6, 1e-5)  # of the trace, tried in turn: rounding may outweigh the 1 where C is large
GRAM_ROWS = 4096  # of the sample in one product: taller ones are faster
WIDEST_BAND = 0.5

Pick = Callable[..., tuple[Array, Array | None]]  # of a block: numbers of rows, and roots of their weights

_KEPT = ("width", "latest", "fresh", "scale", "pairs_s", "pairs_y", "rho")  # one entry a bit each


class SmoothMachines(Machines):
    """Kept between solves besides the planes: scores of every row, band, curvature pairs, Hessian."""

    def __init__(self, rows: RowBlocks, C: float) -> None:
        super().__init__(rows, C, N_SLOTS + 1)
        d = rows.n_features
        self.width = np.full(self.m, WIDEST_BAND)
        self.latest = np.zeros(self.m, dtype=np.intp)  # the slot whose plane is the gradient at W ...
        self.fresh = np.zeros(self.m, dtype=bool)  # ... if it and the scores S are those of W
        self.scale = np.ones(self.m)
        self.pairs_s = np.zeros((self.m, MEMORY, d))
        self.pairs_y = np.zeros((self.m, MEMORY, d))
        self.rho = np.zeros((self.m, MEMORY))  # 1 / s·y; 0 where there is no pair
        self.clock = 0
        self._factor: Array | None = None
        self._directions: Array | None = None

    def copy(self) -> SmoothMachines:
        twin = super().copy()
        for name in _KEPT:
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def state(self) -> dict[str, Array]:
        kept = {name: getattr(self, name) for name in _KEPT}
        return {**super().state(), **kept, "clock": np.array([self.clock]), "factor": self.factor()}

    def set_state(self, state: dict[str, Array]) -> None:
        super().set_state(state)
        for name in _KEPT:
            setattr(self, name, state[name].copy())
        self.clock, self._factor, self._directions = int(state["clock"][0]), state["factor"], None
        self.rows.map(rescore, np.arange(self.m), self.W.T.astype(np.float32))

    def restart(self) -> None:
        super().restart()
        self.fresh[:] = False
        self.rows.map(rescore, np.arange(self.m), self.W.T.astype(np.float32))

    def row_arrays(self) -> dict[str, type]:
        return {"S": np.float32, **super().row_arrays()}

    def snapshot(self) -> SmoothSnapshot:
        return SmoothSnapshot(self.W.T.astype(np.float32), self.bundle.n_slots, self.width)

    def start_from(self, other: Machines, bits: Array | None = None) -> None:
        super().start_from(other, bits)
        self.rows.map(rescore, np.arange(self.m), self.W.T.astype(np.float32))

    def factor(self) -> Array:
        """Cholesky factor of the shared Hessian: made once, kept for all later solves."""
        if self._factor is None:
            self._factor = _hessian_factor(self.rows, KAPPA * self.C)
        return self._factor

    def refine_factor(self, bits: Array) -> None:
        """Take the shared Hessian from the bands of ``bits``, at the margins in the blocks' scratch.

        Where most rows are in one of them it stays: all rows alike is then near enough.
        """
        width = self.width[bits]
        near, asked = np.sum(self.rows.map(_count_in_bands, width), axis=0)
        if near <= FEW_NEAR * asked:
            every = max(1, int(near / asked * len(self.rows)) // (SAMPLE_PER_FEATURE * self.rows.n_features))
            self._factor, self._directions = _factor(self.rows, self.C * every, _in_bands, width, every), None
            self.rho[:], self.scale[:] = 0, 1  # measured against another matrix

    def directions(self) -> Array:
        """The strongest directions of the features, made and kept with the shared Hessian."""
        if self._directions is None:
            self._directions = strongest_directions(self.factor())
        return self._directions

    def solve_hessian(self, Q: Array) -> Array:
        """``(I + κ C ΦᵀΦ)⁻¹`` applied to the rows of ``Q`` (bits × d)."""
        full = solve_triangular(self.factor(), self._half_solved(Q), lower=True, trans=1, check_finite=False)
        return full.T.astype(np.float64)

    def hessian_norms(self, Q: Array) -> Array:
        """``q · (I + κ C ΦᵀΦ)⁻¹ q`` for the rows of ``Q``."""
        half = self._half_solved(Q).astype(np.float64)
        return np.einsum("dj,dj->j", half, half)

    def _half_solved(self, Q: Array) -> Array:
        return solve_triangular(self.factor(), Q.T.astype(np.float32), lower=True, check_finite=False)


@dataclass(frozen=True)
class SmoothSnapshot(Snapshot):
    """With the band, and the scores that the blocks keep."""

    width: Array

    def scores(self, block: Block, rows: slice | Array = slice(None)) -> Array:
        return block["S"][rows]

    def shares(self, margins: Array) -> Array:
        return np.clip(0.5 + (1 - margins) / self.width, 0, 1).astype(np.float32)

    def enter(self, block: Block, rows: slice | Array) -> Sums | None:
        block["S"][rows] = block["Phi"][rows] @ self.W
        return super().enter(block, rows)


def _hessian_factor(rows: RowBlocks, weight: float) -> Array:
    """Cholesky factor of ``I + weight · ΦᵀΦ``, the product estimated from evenly spaced rows."""
    every = max(1, len(rows) // (SAMPLE_PER_FEATURE * rows.n_features))
    return _factor(rows, weight * every, _evenly_spaced, every)


def _factor(rows: RowBlocks, weight: float, pick: Pick, *args: Any) -> Array:
    """Cholesky factor of ``I + weight · Σ ω φφᵀ`` over the rows that ``pick`` chooses in each block."""
    d = rows.n_features
    for ridge in RIDGES:
        gram = np.zeros((d, d))
        for part in rows.parts(_gram_of_part, pick, *args):
            gram += part
        gram *= weight
        gram[np.diag_indices(d)] += 1 + ridge * np.trace(gram)
        try:  # transposed it is in the order of LAPACK, which then works in place
            return cholesky(gram.T, lower=True, overwrite_a=True, check_finite=False).astype(np.float32)
        except LinAlgError as error:
            indefinite = error
    raise indefinite


def _gram_of_part(rows: RowBlocks, pick: Pick, *args: Any) -> Array:
    """In float32: close enough for a preconditioner, and half as much to send."""
    chosen = map_threads(lambda block: pick(block, *args), rows.blocks)

    def gram(run: list[int]) -> Array:
        Phi = np.empty((sum(len(chosen[k][0]) for k in run), rows.n_features), np.float32)
        n = 0
        blocks = RowBlocks([rows.blocks[k] for k in run], rows.store)  # read once, let go before the next
        for k, block in zip(run, blocks, strict=True):
            index, root = chosen[k]
            here = Phi[n : n + len(index)]
            np.take(block["Phi"], index, axis=0, out=here, mode="clip")  # any other mode copies twice
            if root is not None:
                here *= root[:, None]
            n += len(index)
        return np.matmul(Phi.T, Phi)

    total, *others = map_threads(gram, _runs([len(index) for index, _ in chosen]))
    for other in others:
        total += other
    return total


def _runs(counts: list[int]) -> list[list[int]]:
    """Numbers of blocks in runs of about `GRAM_ROWS` rows or fewer, equally long, an even number of them."""
    stops = np.cumsum(counts)
    n_runs = 2 * -(-max(int(stops[-1]), 1) // (2 * GRAM_ROWS))
    home = np.maximum(stops - 1, 0) * n_runs // max(int(stops[-1]), 1)
    runs = [np.flatnonzero(home == k).tolist() for k in range(n_runs)]
    return [run for run in runs if run]


def _evenly_spaced(block: Block, every: int) -> tuple[Array, None]:
    return np.arange(0, block.n, every), None


def _count_in_bands(block: Block, width: Array) -> tuple[int, int]:
    """How many rows are in a band, of how many that were asked: every eighth tells."""
    Z = block.scratch["Z"][::8]
    return int(np.count_nonzero(_within(Z, width).any(axis=1))), len(Z)


def _in_bands(block: Block, width: Array, every: int) -> tuple[Array, Array]:
    """Every ``every``-th row that is in a band, and ``√ω``: ω is ``1/width`` there, averaged over bits."""
    omega = _within(block.scratch["Z"], width) @ (1 / width / len(width)).astype(np.float32)
    index = np.flatnonzero(omega)[::every]
    return index, np.sqrt(omega[index])


def _within(Z: Array, width: Array) -> Array:
    """Which margins are in the band of their bit."""
    return np.abs(1 - Z) < (width / 2).astype(np.float32)


def rescore(block: Block, bits: Array, W: Array) -> tuple[Array]:
    """Scores of the rows by ``W`` (d × bits), kept; returns the hinge risks."""
    scores = block["Phi"] @ W
    block["S"][:, bits] = scores
    return (hinge(block["Y"][:, bits] * scores),)
