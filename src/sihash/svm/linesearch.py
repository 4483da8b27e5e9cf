"""Minimum along a line for many SVMs at once.

Scores are linear along a direction, so margins ``Z`` and their rates ``V`` (rows × bits) say all there is to
know of the hinge losses on the line; no further product with Φ is needed.
"""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks

N_PASSES = 12
SLOPE_SHARE = 0.05  # a search ends where the slope has fallen to this share of the slope at its start


def search(rows: RowBlocks, w_dot_d: Array, d_dot_d: Array, C: float) -> Array:
    """Steps ``t ≥ 0`` that nearly minimise ``½‖w + t d‖² + C Σ max(0, 1 − z − t v)`` for every bit.

    The blocks hold ``Z`` and ``V`` in their scratch. A bit whose slope at ``t = 0`` is not negative stays.
    """

    def slope_at(t: Array) -> Array:
        (pull,) = rows.total(pulls, t.astype(np.float32))
        return w_dot_d + t * d_dot_d - C * pull

    low = np.zeros_like(w_dot_d)
    start_slope = slope_at(low)
    low_slope = start_slope.copy()
    high, high_slope = np.full_like(low, np.inf), np.full_like(low, np.inf)
    t = np.where(start_slope < 0, 1.0, 0.0)
    below = np.ones_like(low, dtype=bool)
    for _ in range(N_PASSES):
        slope = slope_at(t)
        if np.all((np.abs(slope) <= SLOPE_SHARE * np.abs(start_slope)) | (start_slope >= 0)):
            break
        # An end that stays twice counts half (Illinois), or secants would creep along where the slope has a
        # kink.
        below, before = slope < 0, below
        high_slope = np.where(below & before, 0.5 * high_slope, high_slope)
        low_slope = np.where(~below & ~before, 0.5 * low_slope, low_slope)
        low, low_slope = np.where(below, t, low), np.where(below, slope, low_slope)
        high, high_slope = np.where(below, high, t), np.where(below, high_slope, slope)
        newton = t - slope / np.maximum(d_dot_d, 1e-300)  # right where no hinge bends on the way
        t = np.where(start_slope < 0, _next(t, newton, low, low_slope, high, high_slope), 0.0)
    return t


def _next(t: Array, newton: Array, low: Array, low_slope: Array, high: Array, high_slope: Array) -> Array:
    """Newton's point if it falls well inside the bracket, else the secant's, kept off the bracket's ends."""
    open_ended = np.isinf(high)
    top = np.where(open_ended, 0.0, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        secant = low - low_slope * (top - low) / (np.where(open_ended, 0.0, high_slope) - low_slope)
    span = top - low
    inside = (newton > low + 0.05 * span) & (newton < top - 0.05 * span)
    closed = np.where(inside, newton, np.clip(secant, low + 0.1 * span, top - 0.1 * span))
    return np.where(open_ended, np.clip(newton, 1.5 * t, 10.0 * t), closed)


def rates(block: Block, D: Array) -> None:
    """The rates ``V`` of the margins along the directions ``D`` (d × bits)."""
    V = block.scratch["V"]
    np.matmul(block["Phi"], D, out=V)
    V *= block.scratch["Y"]


def clear(block: Block) -> None:
    """Let go of margins and rates."""
    block.scratch = {}


def pulls(block: Block, t: Array) -> tuple[Array]:
    """``Σ v`` over the rows that are violated at ``z + t v``: what they pull with."""
    return (_pulls(block.scratch["Z"], block.scratch["V"], t),)


@numba.njit(nogil=True, cache=True)
def _pulls(Z: Array, V: Array, t: Array) -> Array:
    """Short float32 sums are folded into float64, which is as exact as needed and twice as fast."""
    n, m = Z.shape
    zero, one = np.float32(0), np.float32(1)
    total, part = np.zeros(m), np.zeros(m, np.float32)
    for start in range(0, n, 128):
        for i in range(start, min(start + 128, n)):
            for j in range(m):
                part[j] += V[i, j] if Z[i, j] + t[j] * V[i, j] < one else zero
        for j in range(m):
            total[j] += part[j]
            part[j] = zero
    return total
