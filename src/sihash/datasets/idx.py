"""MNIST and every data set in its layout: IDX files of images and labels, gzipped or not."""

from __future__ import annotations

import gzip
import zlib

import numpy as np

from sihash._typing import Array
from sihash.datasets.dataset import Collection, two_parts
from sihash.datasets.files import GZIP, FileTree, gunzipped

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
        images, labels = (parse(tree.require(found[part, magic])) for magic in (_IMAGES, _LABELS))
        if len(images) != len(labels):
            raise ValueError(f"{tree.path} has {len(images)} {part} images but {len(labels)} labels.")
        parts.append((images, labels.astype(np.int64)))
    names = [str(k) for k in range(max(int(y.max(initial=0)) for _, y in parts) + 1)]
    return two_parts("IDX", *parts, class_names=names, fingerprint=tree.fingerprint)


def parse(data: bytes) -> Array:
    """An IDX file's content as a uint8 array."""
    data = gunzipped(data)
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError("Not an IDX file of unsigned bytes: it does not begin with 0, 0, 8.")
    n_axes = data[3]
    shape = np.frombuffer(data, dtype=">u4", count=n_axes, offset=4).astype(np.int64)
    body = len(data) - 4 - 4 * n_axes
    if body != int(np.prod(shape)):
        raise ValueError(
            f"The IDX file announces {' × '.join(map(str, shape))} bytes and holds {body}; it is damaged."
        )
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * n_axes).reshape(shape)


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
        with tree.open(name) as file:
            head = file.read(4)
        if head.startswith(GZIP):
            with tree.open(name) as file, gzip.GzipFile(fileobj=file) as unzipped:
                head = unzipped.read(4)
        return head
    except (OSError, EOFError, zlib.error):
        return b""
