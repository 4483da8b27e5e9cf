"""How far to go along a direction: read off the slopes at a ladder of lengths, on a sample of the rows.

The length need not be exact, for the next direction makes up for it, and the objective at the point reached
is taken over all rows anyway. So a few thousand rows do, and one visit to the blocks.
"""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.moves import Moves

LENGTHS = np.concatenate([[0.0], 2.0 ** np.arange(-4, 4.5, 0.5)])
REACH = LENGTHS[-1] / LENGTHS[1]
MAX_LADDERS = 8
ENOUGH_ROWS = 5_000


def step_lengths(
    rows: RowBlocks,
    moves: Moves,
    every: int,
    C: float,
    width: Array,
    w_dot_d: Array,
    d_dot_d: Array,
    start_slope: Array,
) -> Array:
    """Lengths ``t ≥ 0`` that nearly minimise ``½‖w + t d‖² + C Σ h(z + t v)`` for every bit.

    ``moves`` has the directions, the blocks hold the margins ``Z`` in their scratch; every ``every``-th
    row is asked. ``start_slope`` is the true (negative) derivative at 0: what the sample gets wrong there is
    put right at other lengths, as far as the rows still pull as they did at 0.
    """
    true_pull = (w_dot_d - start_slope) / C
    scale, missed = np.ones_like(start_slope), np.zeros_like(start_slope)
    for _ in range(MAX_LADDERS):
        scale *= REACH**missed  # a direction of another size: the ladder before the last one, or behind it
        pull, likeness = rows.total(_pulls, moves.times(scale), every, width.astype(np.float32))
        # The sample's error at 0 times its regression on the pulls there: 1 at length 0, and 0 where no row
        # is left to pull. Subtracting all of it everywhere would mistake that error for a slope.
        share = np.clip(likeness / np.maximum(likeness[0], 1e-30), 0, 1)
        pull += share * (scale * true_pull - pull[0])
        t, missed = _meet_zero(scale * w_dot_d + LENGTHS[:, None] * scale**2 * d_dot_d - C * pull)
        missed = np.where(start_slope < 0, missed, 0)
        if not missed.any():
            break
    return np.where(start_slope < 0, scale * t, 0.0)


def _meet_zero(slope: Array) -> tuple[Array, Array]:
    """Where slopes that rise with the length (lengths × bits) meet zero, between two rungs.

    And whether that is off the ladder: −1 before its first rung, 1 behind its last one, else 0.
    """
    positive = slope > 0
    found = positive.any(axis=0)
    above = np.where(found, np.maximum(np.argmax(positive, axis=0), 1), len(LENGTHS) - 1)
    bits = np.arange(len(above))
    low, high = slope[above - 1, bits], slope[above, bits]
    share = np.clip(low / np.minimum(low - high, -1e-300), 0, 1)
    t = LENGTHS[above - 1] + share * (LENGTHS[above] - LENGTHS[above - 1])
    return t, np.where(found, np.where(above == 1, -1.0, 0.0), 1.0)


def _pulls(block: Block, moves: Moves, every: int, width: Array) -> tuple[Array, Array]:
    Y, Z = block.scratch["Y"][::every], np.ascontiguousarray(block.scratch["Z"][::every])
    V = moves.scores(block["Phi"][::every])
    V *= Y
    share = block.n / max(len(Z), 1)
    pull, likeness = _pulls_of(Z, V, LENGTHS.astype(np.float32), width)
    return share * pull, share * likeness


@numba.njit(nogil=True, cache=True)
def _pulls_of(Z: Array, V: Array, lengths: Array, width: Array) -> tuple[Array, Array]:
    """``Σ p v`` at ``z + t v`` for every length ``t`` (lengths × bits), and ``Σ p v · p₀ v``, ``p₀`` at 0."""
    n, m = Z.shape
    zero, half, one = np.float32(0), np.float32(0.5), np.float32(1)
    steep, sums = one / width, np.zeros((len(lengths), m), np.float32)
    likeness, first = np.zeros((len(lengths), m), np.float32), np.zeros(m, np.float32)
    for i in range(n):
        for j in range(m):
            first[j] = min(max(half + (one - Z[i, j]) * steep[j], zero), one) * V[i, j]
        for k in range(len(lengths)):
            t = lengths[k]
            for j in range(m):
                u = one - Z[i, j] - t * V[i, j]
                pull = min(max(half + u * steep[j], zero), one) * V[i, j]
                sums[k, j] += pull
                likeness[k, j] += pull * first[j]
    return sums, likeness
