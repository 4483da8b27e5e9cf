"""A store of arrays in scratch files, mapped into memory: data larger than memory on one machine.

The files have no name and vanish with the process, however it ends. Their room on disk is reserved before
it is used, so a full disk is an error here and not a fault in the middle of a product.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import tempfile
from threading import Lock
from typing import Any

import numpy as np

from sihash._typing import Array

FIRST_SEGMENT, LARGEST_SEGMENT = 1 << 24, 1 << 30  # bytes reserved at a time, doubled from file to file


class Scratch:
    """Arrays in unnamed files in ``directory`` (default: that for temporary files).

    The kernel keeps as much of them in memory as there is room for. `release` gives the mapping of an array
    back, so what the process occupies stays small; measured, mapping it again costs nothing beside a matrix
    product. A file goes with the last of its arrays.
    """

    def __init__(self, directory: str | None = None) -> None:
        self.directory = directory
        self._lock = Lock()
        self._segment: mmap.mmap | None = None
        self._used = 0
        self._next_size = FIRST_SEGMENT

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        count = math.prod(shape)
        size = count * np.dtype(dtype).itemsize
        with self._lock:
            if self._segment is None or self._used + size > len(self._segment):
                self._segment, self._used = self._reserve(max(size, self._next_size)), 0
                self._next_size = min(2 * self._next_size, LARGEST_SEGMENT)
            segment, start = self._segment, self._used
            self._used += -(-size // mmap.PAGESIZE) * mmap.PAGESIZE  # every array begins a page
        return np.frombuffer(segment, dtype, count, offset=start).reshape(shape)

    def keep(self, array: Array) -> Array:
        kept = self.empty(array.shape, np.float32)
        kept[:] = array
        return kept

    def release(self, array: Array) -> None:
        segment = _segment_of(array)
        if segment is not None and hasattr(segment, "madvise"):
            start = array.ctypes.data - np.frombuffer(segment, np.uint8).ctypes.data
            segment.madvise(mmap.MADV_DONTNEED, start, array.nbytes)

    def _reserve(self, size: int) -> mmap.mmap:
        directory = self.directory or tempfile.gettempdir()
        try:
            with tempfile.TemporaryFile(dir=directory) as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    file.truncate(size)
                return mmap.mmap(file.fileno(), size)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise
            raise OSError(
                errno.ENOSPC,
                f"{directory} has no room for {size / 2**20:,.0f} MB of scratch; free some, or name another "
                'directory as engine="disk:/path"',
            ) from None

    def __deepcopy__(self, memo: dict[int, Any]) -> Scratch:
        return Scratch(self.directory)  # copied arrays lie in memory; later ones on disk again

    def __reduce__(self) -> Any:
        return Scratch, (self.directory,)


def _segment_of(array: Array) -> mmap.mmap | None:
    """The file that an array is a window on; None for one in memory, such as a copy."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    inner = base.obj if isinstance(base, memoryview) else base
    return inner if isinstance(inner, mmap.mmap) else None
