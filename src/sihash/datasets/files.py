"""A tree of files, wherever it lives: in a folder, a zip or a tar. Archives are read, never unpacked."""

from __future__ import annotations

import hashlib
import os
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import IO, Any

from sihash.datasets.dataset import Reject
from sihash.features.images import BadImage

MAX_FILE = 256 << 20  # bytes of a single picture or batch; more is no picture


class FileTree:
    """Names and contents of the regular files below a root.

    ``names`` are relative, with forward slashes, in the order in which they are cheapest to read. Links,
    devices and names that point out of the tree are no part of it; they are in ``odd``.
    """

    names: list[str]

    def __init__(self, path: Path) -> None:
        self.path = path
        self.odd: list[Reject] = []

    def open(self, name: str) -> IO[bytes]:
        raise NotImplementedError

    def read(self, name: str, limit: int = MAX_FILE) -> bytes:
        """Contents of one file; `BadImage` with the reason if it cannot be had or exceeds ``limit``."""
        try:
            with closing(self.open(name)) as file:
                data = file.read(limit + 1)
        except Exception as error:  # a damaged or encrypted member fails in the way of its decompressor
            raise BadImage(f"cannot be read: {error}") from None
        if len(data) > limit:
            raise BadImage(f"larger than the {limit >> 20} MiB allowed")
        return data

    def require(self, name: str) -> bytes:
        """Contents of a file without which there is no data set."""
        try:
            return self.read(name)
        except BadImage as reason:
            raise ValueError(f"{name} in {self.path} {reason}.") from None

    def stream(self, names: list[str]) -> Iterator[bytes | BadImage]:
        """Contents of ``names``, best in the order of the tree; a `BadImage` for an unreadable file."""
        for name in names:
            try:
                yield self.read(name)
            except BadImage as reason:
                yield reason

    def fingerprint(self) -> str:
        """Digest of the archive's bytes."""
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _keep(self, entries: dict[str, Any]) -> dict[str, Any]:
        """The entries with a plain name; the others are noted as odd."""
        for name in [name for name in entries if not _is_plain(name)]:
            del entries[name]
            self.odd.append(Reject(name, "a name that is no plain path within the archive"))
        self.names = list(entries)
        return entries


class Folder(FileTree):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.names = sorted(self._walk())

    def _walk(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self.path):
            for name in folders:
                if Path(folder, name).is_symlink():  # may lead anywhere, back to here for one
                    self.odd.append(Reject(self._relative(folder, name), "a link to a folder, not followed"))
            yield from (self._relative(folder, name) for name in files)

    def _relative(self, folder: str, name: str) -> str:
        return Path(folder, name).relative_to(self.path).as_posix()

    def open(self, name: str) -> IO[bytes]:
        if not (self.path / name).is_file():  # a pipe or a device would block for ever
            raise OSError("not a regular file")
        return open(self.path / name, "rb")

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for name, data in zip(self.names, self.stream(self.names), strict=True):
            content = str(data).encode() if isinstance(data, BadImage) else data
            digest.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
            digest.update(content)
        return digest.hexdigest()


class Zip(FileTree):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._zip = zipfile.ZipFile(path)
        self._members = self._keep({i.filename: i for i in self._zip.infolist() if not i.is_dir()})

    def open(self, name: str) -> IO[bytes]:
        return self._zip.open(self._members[name])


class Tar(FileTree):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._tar = tarfile.open(path)  # noqa: SIM115 - stays open as long as the tree
        members = [m for m in self._tar.getmembers() if not m.isdir()]
        self.odd += [Reject(m.name, "a link or device, not a file") for m in members if not m.isreg()]
        self._members = self._keep({m.name: m for m in members if m.isreg()})

    def open(self, name: str) -> IO[bytes]:
        file = self._tar.extractfile(self._members[name])
        assert file is not None  # regular files only
        return file


def _is_plain(name: str) -> bool:
    """Nothing is ever written under these names, but classes and reports are named after them."""
    parts = PurePosixPath(name).parts
    absolute = not parts or name.startswith("/") or ":" in parts[0]
    return not (absolute or ".." in parts or "\\" in name or "\0" in name)


def open_tree(path: Path) -> FileTree | None:
    """The tree at ``path``: a folder, or an archive recognised by its content; None for any other file."""
    if path.is_dir():
        return Folder(path)
    try:
        if zipfile.is_zipfile(path):
            return Zip(path)
        if tarfile.is_tarfile(path):
            return Tar(path)
    except Exception as error:  # a spoilt archive fails in many ways, not all of them documented
        raise ValueError(f"The archive {path} is damaged: {error}.") from None
    return None


def is_archive(path: Path) -> bool:
    return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)


def file_contents(folder: Path, names: list[str]) -> Iterator[bytes | BadImage]:
    """Contents of files by their paths; a `BadImage` for one that cannot be read."""
    for name in names:
        try:
            if not (folder / name).is_file():  # a pipe or a device would block for ever
                raise OSError(2, "no such file")
            if (folder / name).stat().st_size > MAX_FILE:
                raise OSError(27, f"larger than the {MAX_FILE >> 20} MiB allowed")
            yield (folder / name).read_bytes()
        except OSError as error:
            yield BadImage(f"cannot be read: {error.strerror}")
