"""Room for arrays that are needed again and again, such as those of a solve.

A system hands memory out page by page, each when it is first written to, and takes it back when it is given
up. On a virtual machine a page of 4 kB takes some 10 µs where the host has to find one, too: an update of 160
ms that found none of the memory of earlier ones took 280. So memory that is given back here is kept for the
next who asks: no more than a quarter of what is in use.
"""

from __future__ import annotations

import math
from functools import partial
from threading import RLock
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.threads import map_threads

WORTH = 2**18  # bytes: smaller arrays are left to NumPy, which has the memory at hand that is in the caches
KEPT = 0.25  # of what is in use: no more is kept
ROOMY = 2  # times what is asked for: so large the memory may be at most


def empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """As `numpy.empty`."""
    dtype = np.dtype(dtype)
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes < WORTH:
        return np.empty(shape, dtype)
    return np.asarray(_Room(_shelf, n_bytes))[:n_bytes].view(dtype).reshape(shape)


def zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """As `numpy.zeros`."""
    room = empty(shape, dtype)
    room.fill(0)
    return room


def copy(array: Array) -> Array:
    """As `numpy.copy`, for an array with at least one axis."""
    room = empty(array.shape, array.dtype)
    if array.nbytes < WORTH:
        room[...] = array
    else:
        map_threads(partial(_copy_row, array, room), range(len(array)))
    return room


def _copy_row(array: Array, room: Array, k: int) -> None:
    room[k] = array[k]


class _Shelf:
    """Memory that is not in use, longest unused first, and how much is."""

    def __init__(self) -> None:
        self._lock = RLock()  # an array may go at any moment, in any thread
        self._unused: dict[int, Array] = {}
        self._n_unused = self._n_in_use = 0  # bytes

    def take(self, n_bytes: int) -> Array:
        with self._lock:
            fitting = [m for m in self._unused.values() if n_bytes <= len(m) <= ROOMY * n_bytes]
            smallest = min(fitting, key=len, default=None)
            memory = self._more(n_bytes) if smallest is None else self._drop(id(smallest))
            self._n_in_use += len(memory)
        return memory

    def _drop(self, key: int) -> Array:
        memory = self._unused.pop(key)
        self._n_unused -= len(memory)
        return memory

    def _more(self, n_bytes: int) -> Array:
        try:
            return np.empty(n_bytes, np.uint8)
        except MemoryError:
            self._unused.clear()
            self._n_unused = 0
            return np.empty(n_bytes, np.uint8)

    def give_back(self, memory: Array) -> None:
        with self._lock:
            self._n_in_use -= len(memory)
            self._unused[id(memory)] = memory
            self._n_unused += len(memory)
            while self._n_unused > KEPT * self._n_in_use:
                self._drop(next(iter(self._unused)))


_shelf = _Shelf()


class _Room:
    """What arrays over some memory have in common: it goes back with the last of them."""

    def __init__(self, shelf: _Shelf, n_bytes: int) -> None:
        self._shelf, self._memory = shelf, shelf.take(n_bytes)
        self.__array_interface__ = self._memory.__array_interface__

    def __del__(self) -> None:
        if hasattr(self, "_memory"):  # not where there was none to take
            self._shelf.give_back(self._memory)
