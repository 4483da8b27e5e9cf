"""MNIST and every data set in its layout: IDX files of images and labels, gzipped or not."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np

from sihash._typing import Array
from sihash.datasets.dataset import Collection, check_fits, two_parts
from sihash.datasets.files import FileTree

_MAX_FILES = 64  # a folder of more files is no IDX data set: do not open them all to see
_LABELS, _IMAGES = b"\0\0\x08\x01", b"\0\0\x08\x03"


def recognise(tree: FileTree) -> bool:
    return len(tree.names) <= _MAX_FILES and len(_find(tree)) > 0


def read(tree: FileTree) -> Collection:
    """Training part from the files with ``train`` in their names, test part from ``t10k`` or ``test``."""
    found = _find(tree)
    parts = []
    for part in ("train", "test"):
        if (part, _IMAGES) not in found or (part, _LABELS) not in found:
            raise ValueError(
                f"{tree.path} looks like an IDX data set but lacks the {part} images or labels; expected "
                "files such as train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
                "t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz."
            )
        images, labels = (_parse(tree, found[part, magic]) for magic in (_IMAGES, _LABELS))
        if len(images) != len(labels):
            raise ValueError(f"{tree.path} has {len(images)} {part} images but {len(labels)} labels.")
        parts.append((images, labels.astype(np.int64)))
    names = [str(k) for k in range(max(int(y.max(initial=0)) for _, y in parts) + 1)]
    return two_parts("IDX", *parts, class_names=names, fingerprint=tree.fingerprint)


def _parse(tree: FileTree, name: str) -> Array:
    """One file as a uint8 array. No more is read, or unzipped, than its header announces."""
    try:
        with _unzipped(tree, name) as file:
            n_axes = file.read(4)[3]
            shape = struct.unpack(f">{n_axes}I", file.read(4 * n_axes))
            announced = math.prod(shape)
            check_fits(announced, f"{name} in {tree.path}")
            body = file.read(announced + 1)
    except (OSError, EOFError, zlib.error, struct.error, IndexError) as error:
        raise ValueError(f"{name} in {tree.path} cannot be read: {error}.") from None
    if len(body) != announced:
        had = f"{len(body):,}" if len(body) < announced else "more"
        raise ValueError(
            f"{name} in {tree.path} announces {announced:,} bytes and holds {had}; it is damaged."
        )
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _find(tree: FileTree) -> dict[tuple[str, bytes], str]:
    """Names of the IDX files by part and magic number."""
    found = {}
    for name in tree.names:
        base = name.rsplit("/", 1)[-1].lower()
        part = "train" if "train" in base else "test" if "t10k" in base or "test" in base else None
        magic = _magic(tree, name) if part else b""
        if part and magic in (_IMAGES, _LABELS):
            found[part, magic] = name
    return found


def _magic(tree: FileTree, name: str) -> bytes:
    try:
        with _unzipped(tree, name) as file:
            return file.read(4)
    except Exception:  # what cannot be opened is no IDX file, whatever the reason
        return b""


@contextmanager
def _unzipped(tree: FileTree, name: str) -> Iterator[IO[bytes] | gzip.GzipFile]:
    with tree.open(name) as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with tree.open(name) as file:
        if zipped:
            with gzip.GzipFile(fileobj=file) as inner:
                yield inner
        else:
            yield file
