"""Logistic functions of numpy arrays: searches need these few, and not the half second that scipy takes."""

from __future__ import annotations

import numpy as np

from sihash._typing import Array


def expit(x: Array) -> Array:
    """1 / (1 + e⁻ˣ)."""
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1, small) / (1 + small)


def log_expit(x: Array) -> Array:
    """log (1 / (1 + e⁻ˣ))."""
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def softmax(x: Array, axis: int = -1) -> Array:
    """eˣ / Σ eˣ along an axis."""
    shares = np.exp(x - x.max(axis=axis, keepdims=True))
    return shares / shares.sum(axis=axis, keepdims=True)


def log_softmax(x: Array, axis: int = -1) -> Array:
    """log (eˣ / Σ eˣ) along an axis."""
    x = x - x.max(axis=axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))
