"""Room for arrays, in large pages.

A system hands memory out page by page, each when it is first written to. A page of 4 kB takes some 10 µs on a
virtual machine: an update of 160 ms that finds no memory left over by an earlier one took 280. Linux also has
pages of 2 MB, for those who ask, and NumPy asks where an array has 4 MB or more. So arrays are laid where a
large page begins, small ones of a kind in one piece, and what is left of the last page stays unused.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sihash._typing import Array

LARGE_PAGE = 2**21  # bytes
WORTH = 2**19  # bytes: less is not worth a page


def empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """As `numpy.empty`."""
    return _laid_out(np.empty, shape, np.dtype(dtype))


def zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """As `numpy.zeros`."""
    return _laid_out(np.zeros, shape, np.dtype(dtype))


def copy(array: Array) -> Array:
    """As `numpy.ndarray.copy`."""
    room = empty(array.shape, array.dtype)
    room[...] = array
    return room


def pieces(whole: Array, lengths: list[int]) -> list[Array]:
    """An array cut along its first axis."""
    return np.split(whole, np.cumsum(lengths)[:-1])


def _laid_out(make: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes < WORTH:
        room: Array = make(shape, dtype)
        return room
    whole = make(LARGE_PAGE + -(-n_bytes // LARGE_PAGE) * LARGE_PAGE, np.uint8)
    start = -whole.ctypes.data % LARGE_PAGE
    laid: Array = whole[start : start + n_bytes].view(dtype).reshape(shape)
    return laid
