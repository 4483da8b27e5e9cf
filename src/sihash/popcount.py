"""How many bits of a word are set, for compiled loops over packed codes."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(nogil=True, cache=True, inline="always")
def popcount(x):  # type: ignore[no-untyped-def]
    """Of a uint64, as uint16. Written so that LLVM recognises it and counts several words at a time."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.uint16((x * np.uint64(0x0101010101010101)) >> np.uint64(56))
