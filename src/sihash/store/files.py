"""Every byte that the database writes outside SQLite passes through here.

A file is written once, under a name of its own, synced, and never changed. It belongs to the database when a
committed row of the catalogue names it, with its size and SHA-256; until then it is a stray that the next
writer sweeps away. So there is nothing to rename: SQLite's commit is the only moment at which anything
happens, and a file must merely be on the disk before it.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.store.atomic_file import sync_folder
from sihash.store.errors import CorruptFile

SEGMENTS_FOLDER, MODELS_FOLDER = "segments", "models"
CHUNK = 1 << 22  # bytes hashed at a time
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
    """A file that was written and synced: its name below the root, and what its bytes must be."""

    path: str
    size: int
    sha256: bytes


def unique_name(stem: str, ending: str) -> str:
    """A name that no file ever had: a stray of the same stem is no obstacle."""
    return f"{stem}-{secrets.token_hex(4)}.{ending}"


def write_bytes(root: Path, path: str, pieces: Iterable[bytes | memoryview]) -> Written:
    """Write ``pieces`` to a new file and sync it. Its folder is synced by the caller, once for all files."""
    digest, size = hashlib.sha256(), 0
    descriptor = disk.create(root / path)
    try:
        for piece in pieces:
            data = memoryview(piece).cast("B")
            digest.update(data)
            size += len(data)
            while len(data):
                data = data[disk.write(descriptor, data) :]
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)
    return Written(path, size, digest.digest())


def write_array(
    root: Path, path: str, shape: tuple[int, ...], dtype: Any, blocks: Iterable[Array]
) -> Written:
    """Write an ``.npy`` file of ``shape`` whose rows come in blocks."""
    header = io.BytesIO()
    description = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False}
    np.lib.format.write_array_header_1_0(header, {**description, "shape": shape})

    def pieces() -> Iterable[bytes | memoryview]:
        yield header.getvalue()
        for block in blocks:
            if len(block):
                yield np.ascontiguousarray(block, dtype=dtype).data.cast("B")

    return write_bytes(root, path, pieces())


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


def map_array(root: Path, file: Written) -> Array:
    """A checked ``.npy`` file, memory-mapped."""
    check(root, file)
    try:
        return np.load(root / file.path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:  # a compaction took it away since
        raise _missing(root, file) from None


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
