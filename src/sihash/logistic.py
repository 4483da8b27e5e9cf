"""Logistic functions of numpy arrays: searches need them, and not the half second that scipy takes."""

from __future__ import annotations

import numpy as np

from sihash._typing import Array


def log_softmax(x: Array, axis: int = -1) -> Array:
    """log (eˣ / Σ eˣ) along an axis."""
    x = x - x.max(axis=axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))
