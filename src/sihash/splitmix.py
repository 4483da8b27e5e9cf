"""Whole numbers to whole numbers that look random and are always the same (splitmix64)."""

from __future__ import annotations

import numpy as np

from sihash._typing import Array


def mixed(numbers: Array) -> Array:
    """A uint64 for every number that says nothing of its order."""
    x = np.asarray(numbers).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
