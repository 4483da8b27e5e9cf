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


def search(
    rows: RowBlocks,
    w_dot_d: Array,
    d_dot_d: Array,
    C: float,
    width: Array,
    start_slope: Array,
    D: Array | None = None,
) -> Array:
    """Steps ``t ≥ 0`` that nearly minimise ``½‖w + t d‖² + C Σ h(z + t v)`` for every bit.

    ``h`` is the hinge smoothed over ``width`` (0: the hinge itself). The blocks hold ``Z`` and ``V`` in their
    scratch; with directions ``D`` (d × bits) the first visit makes ``V``. ``start_slope`` is the (negative)
    derivative at ``t = 0``; a bit where it is not negative stays.
    """
    low = np.zeros_like(w_dot_d)
    low_slope = start_slope.copy()
    high, high_slope = np.full_like(low, np.inf), np.full_like(low, np.inf)
    t = np.where(start_slope < 0, 1.0, 0.0)
    below = np.ones_like(low, dtype=bool)
    for _ in range(N_PASSES):
        first, second = rows.total(derivatives, t.astype(np.float32), width.astype(np.float32), D)
        D = None
        slope = w_dot_d + t * d_dot_d - C * first
        curvature = d_dot_d + C * second
        if np.all((np.abs(slope) <= SLOPE_SHARE * np.abs(start_slope)) | (start_slope >= 0)):
            break
        # An end that stays twice counts half (Illinois), or secants would creep along where the slope has a
        # kink.
        below, before = slope < 0, below
        high_slope = np.where(below & before, 0.5 * high_slope, high_slope)
        low_slope = np.where(~below & ~before, 0.5 * low_slope, low_slope)
        low, low_slope = np.where(below, t, low), np.where(below, slope, low_slope)
        high, high_slope = np.where(below, high, t), np.where(below, high_slope, slope)
        t = np.where(start_slope < 0, _next(t, slope, curvature, low, low_slope, high, high_slope), 0.0)
    return t


def _next(
    t: Array, slope: Array, curvature: Array, low: Array, low_slope: Array, high: Array, high_slope: Array
) -> Array:
    """Newton's point if it falls well inside the bracket, else the secant's, kept off the bracket's ends."""
    open_ended = np.isinf(high)
    top = np.where(open_ended, 0.0, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        newton = t - slope / curvature
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


def derivatives(block: Block, t: Array, width: Array, D: Array | None = None) -> tuple[Array, Array]:
    if D is not None:
        rates(block, D)
    return _derivative_sums(block.scratch["Z"], block.scratch["V"], t, width)


@numba.njit(nogil=True, cache=True)
def _derivative_sums(Z: Array, V: Array, t: Array, width: Array) -> tuple[Array, Array]:
    """``Σ p v`` and ``Σ p' v²`` for the slopes ``p`` of the smoothed hinge at ``z + t v``.

    Short float32 sums are folded into float64, which is as exact as needed and twice as fast.
    """
    n, m = Z.shape
    zero, half, one = np.float32(0), np.float32(0.5), np.float32(1)
    steep = np.empty(m, np.float32)
    for j in range(m):
        steep[j] = one / max(width[j], np.float32(1e-6))
    first, second = np.zeros(m), np.zeros(m)
    part_first, part_second = np.zeros(m, np.float32), np.zeros(m, np.float32)
    for start in range(0, n, 128):
        for i in range(start, min(start + 128, n)):
            for j in range(m):
                v = V[i, j]
                u = half + (one - Z[i, j] - t[j] * v) * steep[j]
                p = min(max(u, zero), one)
                part_first[j] += p * v
                part_second[j] += v * v if p == u else zero
        for j in range(m):
            first[j] += part_first[j]
            second[j] += part_second[j] * steep[j]
            part_first[j] = zero
            part_second[j] = zero
    return first, second
