"""Minimum along a line for many SVMs at once, by the slopes of their objectives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sihash._typing import Array

N_PASSES = 12


def search(slope_at: Callable[[Array], Array], start_slope: Array, curvature: Array, share: float) -> Array:
    """Lengths ``t ≥ 0`` where the slopes, which rise with ``t``, are next to 0; one a bit.

    ``slope_at(t)`` takes a length a bit. ``curvature`` is the least that the slopes rise with. A search
    ends where a slope has fallen to ``share`` of ``start_slope``, that at ``t = 0``; a bit whose slope is not
    negative there stays.
    """
    low, low_slope = np.zeros_like(start_slope), start_slope.copy()
    high, high_slope = np.full_like(low, np.inf), np.full_like(low, np.inf)
    t = np.where(start_slope < 0, 1.0, 0.0)
    below = np.ones_like(low, dtype=bool)
    for _ in range(N_PASSES):
        slope = slope_at(t)
        if np.all((np.abs(slope) <= share * np.abs(start_slope)) | (start_slope >= 0)):
            break
        # An end that stays twice counts half (Illinois): secants would creep where the slope has a kink.
        below, before = slope < 0, below
        high_slope = np.where(below & before, 0.5 * high_slope, high_slope)
        low_slope = np.where(~below & ~before, 0.5 * low_slope, low_slope)
        low, low_slope = np.where(below, t, low), np.where(below, slope, low_slope)
        high, high_slope = np.where(below, high, t), np.where(below, high_slope, slope)
        newton = t - slope / np.maximum(curvature, 1e-300)  # right where no hinge bends on the way
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
