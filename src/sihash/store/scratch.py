"""Results of long work in one file, so that the work can be stopped and goes on: bytes by keys of 32 bytes.

The file may be lost or cut short at any moment: then some work is done again. It belongs to no database.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

_HEAD = struct.Struct("<32sII")  # key, bytes, CRC-32 of these


class Scratch:
    """A file that grows by one record after the other; whoever opens it is the only one.

    It is made with the first record. ``mark`` (32 bytes) says what the results are made by: a file with
    another mark begins anew.
    """

    def __init__(self, path: Path, mark: bytes) -> None:
        self.path, self._mark = path, mark
        self._file: BinaryIO | None = None
        self._places: dict[bytes, tuple[int, int, int]] = {}  # by key: offset, bytes, checksum
        if path.exists():
            self._open()

    def __len__(self) -> int:
        return len(self._places)

    def get(self, key: bytes) -> bytes | None:
        """What was put under a key, if it is whole."""
        if key not in self._places:
            return None
        offset, size, checksum = self._places[key]
        value = self._read(offset, size)
        return value if zlib.crc32(value) == checksum else None

    def put(self, key: bytes, value: bytes) -> None:
        file = self._open() if self._file is None else self._file
        checksum, offset = zlib.crc32(value), file.seek(0, os.SEEK_END) + _HEAD.size
        file.write(_HEAD.pack(key, len(value), checksum) + value)
        file.flush()  # so that a kill loses nothing
        self._places[key] = offset, len(value), checksum

    def _read(self, offset: int, size: int) -> bytes:
        assert self._file is not None
        self._file.seek(offset)
        return self._file.read(size)

    def _open(self) -> BinaryIO:
        """Open the file, or make it; what was put before is known then."""
        self._file = open(self.path, "a+b")  # noqa: SIM115 - until `close`
        size, end = self._file.seek(0, os.SEEK_END), len(self._mark)
        if self._read(0, end) != self._mark:
            self._file.truncate(0)
            self._file.write(self._mark)
            return self._file
        while len(head := self._read(end, _HEAD.size)) == _HEAD.size:
            key, n, checksum = _HEAD.unpack(head)
            if end + _HEAD.size + n > size:  # cut short
                break
            self._places[key] = end + _HEAD.size, n, checksum
            end += _HEAD.size + n
        self._file.truncate(end)
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def delete(self) -> None:
        """The work is done: nobody needs the file."""
        self.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Deleted if all went well; left for the next time if not."""
        if error is None:
            self.delete()
        else:
            self.close()
