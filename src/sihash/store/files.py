"""Every byte that the database writes outside SQLite passes through here.

A file is written once, under a name of its own, synced, and never changed. It belongs to the database when a
committed row of the catalogue names it, with its size and SHA-256; until then it is a stray that the next
writer sweeps away. So there is nothing to rename: SQLite's commit is the only moment at which anything
happens, and a file must merely be on the disk before it.

Large arrays lie in ``.mapped`` files, which are read where a search needs them: an ``.npy`` file, and behind
it the SHA-256 of each of its blocks. The catalogue names the SHA-256 of these digests. So a block is checked
when something in it is first read, and nobody waits for all of them.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.store.atomic_file import sync_folder
from sihash.store.errors import CorruptFile

SEGMENTS_FOLDER, MODELS_FOLDER = "segments", "models"
CHUNK = 1 << 22  # bytes hashed at a time
BLOCK = 1 << 14  # bytes of a mapped file with a digest of their own
DIGEST = 32  # bytes of a SHA-256, which processors compute three times as fast as zlib its CRC-32
MAPPED = "mapped"  # ending of the names of mapped files
MOST_ORIGINAL_BYTES = 64 << 20  # a larger file of the user is not read into memory only to be looked at


class Disk:
    """The calls that can fail or be lost. Tests put a faulty one in the place of `disk`."""

    def create(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)

    def write(self, descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def save(self, hasher: Any, path: Path, **options: Any) -> None:
        """A model file, written and synced whole by `sihash.modelfile`."""
        hasher.save(path, **options)

    def make_folder(self, path: Path) -> None:
        path.mkdir(exist_ok=True)

    def sync_folder(self, path: Path) -> None:
        sync_folder(path)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)


disk = Disk()


@dataclass(frozen=True)
class Written:
    """A file that was written and synced: its name below the root, and what its bytes must be.

    Of a mapped file ``sha256`` is that of the digests at its end.
    """

    path: str
    size: int
    sha256: bytes


def unique_name(stem: str, ending: str) -> str:
    """A name that no file ever had: a stray of the same stem is no obstacle."""
    return f"{stem}-{secrets.token_hex(4)}.{ending}"


def write_bytes(root: Path, path: str, pieces: Iterable[bytes | memoryview]) -> Written:
    """Write ``pieces`` to a new file and sync it. Its folder is synced by the caller, once for all files."""
    digest = hashlib.sha256()

    def hashed() -> Iterator[bytes | memoryview]:
        for piece in pieces:
            digest.update(piece)
            yield piece

    size = _write(root, path, hashed())
    return Written(path, size, digest.digest())


def _write(root: Path, path: str, pieces: Iterable[bytes | bytearray | memoryview]) -> int:
    """How many bytes were written."""
    size = 0
    descriptor = disk.create(root / path)
    try:
        for piece in pieces:
            data = memoryview(piece).cast("B")
            size += len(data)
            while len(data):
                data = data[disk.write(descriptor, data) :]
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)
    return size


def write_array(
    root: Path, path: str, shape: tuple[int, ...], dtype: Any, blocks: Iterable[Array]
) -> Written:
    """Write an ``.npy`` file of ``shape`` whose rows come in blocks."""
    return write_bytes(root, path, _npy(shape, dtype, blocks))


def write_mapped(
    root: Path, path: str, shape: tuple[int, ...], dtype: Any, blocks: Iterable[Array]
) -> Written:
    """As `write_array`, for a `MappedArray`."""
    digests = bytearray()
    size = _write(root, path, _followed_by_digests(_npy(shape, dtype, blocks), digests))
    return Written(path, size, hashlib.sha256(digests).digest())


def _followed_by_digests(
    pieces: Iterable[bytes | memoryview], digests: bytearray
) -> Iterator[bytes | bytearray | memoryview]:
    """The pieces, and behind them the digest of each block; ``digests`` takes these up."""
    block, n = hashlib.sha256(), 0  # the block that is being filled, and how many bytes it has
    for piece in pieces:
        yield piece
        data = memoryview(piece).cast("B")
        while len(data):
            part, data = data[: BLOCK - n], data[BLOCK - n :]
            block.update(part)
            n += len(part)
            if n == BLOCK:
                digests += block.digest()
                block, n = hashlib.sha256(), 0
    if n:
        digests += block.digest()
    yield digests


def _npy(shape: tuple[int, ...], dtype: Any, blocks: Iterable[Array]) -> Iterator[bytes | memoryview]:
    """The bytes of an ``.npy`` file."""
    header = io.BytesIO()
    description = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False}
    np.lib.format.write_array_header_1_0(header, {**description, "shape": shape})
    yield header.getvalue()
    for block in blocks:
        if len(block):
            yield np.ascontiguousarray(block, dtype=dtype).data.cast("B")


def write_model(root: Path, path: str, hasher: Any, **options: Any) -> Written:
    """Write a model by its own ``save``."""
    disk.save(hasher, root / path, **options)
    with open(root / path, "rb") as stream:
        return Written(
            path, os.fstat(stream.fileno()).st_size, hashlib.file_digest(stream, "sha256").digest()
        )


def read_checked(root: Path, file: Written) -> bytes:
    """The bytes of a file, if they are what was written."""
    try:
        data = (root / file.path).read_bytes()
    except FileNotFoundError:
        raise _missing(root, file) from None
    if len(data) != file.size or hashlib.sha256(data).digest() != file.sha256:
        raise _altered(root, file)
    return data


def check(root: Path, file: Written) -> None:
    """Raise `CorruptFile` unless the file is there, of its size, and every byte as it was written."""
    if file.path.endswith(MAPPED):
        MappedArray(root, file).check_all()
        return
    digest = hashlib.sha256()
    try:
        with open(root / file.path, "rb") as stream:
            if os.fstat(stream.fileno()).st_size != file.size:
                raise _altered(root, file)
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
    except FileNotFoundError:
        raise _missing(root, file) from None
    if digest.digest() != file.sha256:
        raise _altered(root, file)


def load_array(root: Path, file: Written) -> Array:
    """A checked ``.npy`` file in memory."""
    return np.lib.format.read_array(io.BytesIO(read_checked(root, file)), allow_pickle=False)


class MappedArray:
    """An array whose rows are read from a mapped file, each block of which is checked at its first use."""

    def __init__(self, root: Path, file: Written) -> None:
        self._root, self._file = root, file
        try:
            with open(root / file.path, "rb") as stream:
                if os.fstat(stream.fileno()).st_size != file.size or not file.size:
                    raise _altered(root, file)
                self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:  # or a compaction took it away since
            raise _missing(root, file) from None
        n_blocks = -(-file.size // (BLOCK + DIGEST))
        self._n_bytes = file.size - n_blocks * DIGEST  # before the digests
        self._digests = self._map[self._n_bytes :]
        if hashlib.sha256(self._digests).digest() != file.sha256:
            raise _altered(root, file)
        self._unchecked = np.ones(n_blocks, dtype=bool)
        self._check([0])
        header = io.BytesIO(self._map[:BLOCK])
        np.lib.format.read_magic(header)
        self.shape, _, self.dtype = np.lib.format.read_array_header_1_0(header)
        self._start, self._width = header.tell(), self.dtype.itemsize * int(np.prod(self.shape[1:]))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        """Rows by a slice, by numbers (≥ 0), or by a mask."""
        self._check_rows(rows)
        return self._array[rows]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        self.check_all()
        return np.array(self._array, dtype=dtype, copy=copy)

    @cached_property
    def _array(self) -> Array:
        n = int(np.prod(self.shape))
        return np.frombuffer(self._map, self.dtype, n, self._start).reshape(self.shape)

    def check_all(self) -> None:
        """Raise `CorruptFile` unless every byte is as it was written."""
        self._check(np.flatnonzero(self._unchecked).tolist())

    def release(self) -> None:
        """Give back the memory of the pages that were read; they are read again when they are needed."""
        _release(self._map)

    def _check_rows(self, rows: Any) -> None:
        if not self._unchecked.any():
            return
        numbers = rows if isinstance(rows, np.ndarray) else np.arange(len(self))[rows]
        numbers = np.atleast_1d(np.flatnonzero(numbers) if numbers.dtype == bool else numbers)
        first = (self._start + numbers * self._width) // BLOCK
        last = (self._start + (numbers + 1) * self._width - 1) // BLOCK
        touched = np.zeros(len(self._unchecked), dtype=bool)
        for k in range(int((last - first).max(initial=0)) + 1):
            touched[np.minimum(first + k, last)] = True
        self._check(np.flatnonzero(touched & self._unchecked).tolist())

    def _check(self, blocks: list[int]) -> None:
        with memoryview(self._map) as data:
            for k in blocks:
                found = hashlib.sha256(data[k * BLOCK : min((k + 1) * BLOCK, self._n_bytes)]).digest()
                if found != self._digests[k * DIGEST : (k + 1) * DIGEST]:
                    raise _altered(self._root, self._file)
                self._unchecked[k] = False


def release(array: Any) -> None:
    """As `MappedArray.release`, of an array that numpy has mapped; nothing for any other."""
    if isinstance(array, np.memmap) and not array.flags.writeable:
        _release(array._mmap)  # type: ignore[attr-defined]


def _release(mapped: Any) -> None:
    if hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _missing(root: Path, file: Written) -> CorruptFile:
    return CorruptFile(f"{root / file.path} is missing; restore it from a copy of the database.")


def _altered(root: Path, file: Written) -> CorruptFile:
    return CorruptFile(
        f"{root / file.path} was cut short or altered: size or SHA-256 are not those in the catalogue; "
        "restore it from a copy of the database."
    )


# The files that items were made of belong to the user; the database only knows where they were.


def read_original(path: str, sha256: str) -> bytes | None:
    """The content of a file of the user if it is what it was; None if it is gone, altered, or too large.

    What lies at the path by now may be anything: a pipe would be waited for, so only plain files are read,
    and nothing is handed out that has another hash.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_ORIGINAL_BYTES:
                return None
            data = file.read(MOST_ORIGINAL_BYTES + 1)
    except (OSError, ValueError):  # gone, not ours to read, or no name for a file
        return None
    return data if hashlib.sha256(data).hexdigest() == sha256 else None


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
