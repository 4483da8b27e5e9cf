"""The Hessian that all bits of the smoothed solver share, as a Cholesky factor.

The Hessian of a bit is ``I + C/width Σ φφᵀ`` over the rows in its band. One for all bits is taken from all
rows alike at first, when nobody knows the bands; later, where these hold few rows, from the bands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky

from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks
from sihash.threads import map_threads

KAPPA = 0.2  # share of rows in the band, per unit of width
SAMPLE_PER_FEATURE = 16  # rows, as a multiple of the order
FEW_NEAR = 0.5  # of all rows are in some band: then these alone say more than all rows alike
GRAM_ROWS = 4096  # of the sample in one product: taller ones are faster
RIDGES = (0, 1e-7, 1e-6, 1e-5)  # of the trace, tried in turn: rounding may outweigh the 1 where C is large

Pick = Callable[..., tuple[Array, Array | None]]  # of a block: numbers of rows, and roots of their weights


def of_all_rows(rows: RowBlocks, C: float) -> Array:
    """Factor of ``I + κ C ΦᵀΦ``, the product estimated from evenly spaced rows."""
    every = max(1, len(rows) // (SAMPLE_PER_FEATURE * rows.n_features))
    return _factor(rows, KAPPA * C * every, _evenly_spaced, every)


def of_bands(rows: RowBlocks, C: float, width: Array) -> Array | None:
    """Factor of the mean of the open bits' Hessians, at the margins ``Z`` in the blocks' scratch.

    None where most rows are in some band.
    """
    near, asked = rows.total(_count_in_bands, width)
    if near > FEW_NEAR * asked:
        return None
    every = max(1, int(near / asked * len(rows)) // (SAMPLE_PER_FEATURE * rows.n_features))
    return _factor(rows, C * every, _in_bands, width, every)


def _factor(rows: RowBlocks, weight: float, pick: Pick, *args: Any) -> Array:
    """Factor of ``I + weight · Σ ω φφᵀ`` over the rows that ``pick`` chooses in each block."""
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


def _count_in_bands(block: Block, width: Array) -> tuple[Array, Array]:
    """How many rows are in a band, of how many that were asked: every eighth tells."""
    Z = block.scratch["Z"][::8]
    near = np.count_nonzero(_within(Z, width).any(axis=1))
    return np.asarray(near), np.asarray(len(Z))


def _in_bands(block: Block, width: Array, every: int) -> tuple[Array, Array]:
    """Every ``every``-th row that is in a band, and ``√ω``: ω is ``1/width`` there, averaged over bits."""
    omega = _within(block.scratch["Z"], width) @ (1 / width / len(width)).astype(np.float32)
    index = np.flatnonzero(omega)[::every]
    return index, np.sqrt(omega[index])


def _within(Z: Array, width: Array) -> Array:
    """Which margins are in the band of their bit."""
    return np.abs(1 - Z) < (width / 2).astype(np.float32)
