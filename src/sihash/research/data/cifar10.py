"""CIFAR-10 in its two official forms: the binary batches, and the Python batches without unpickling them."""

from __future__ import annotations

import pickletools
import re

import numpy as np

from sihash._typing import Array
from sihash.datasets.dataset import Collection, two_parts
from sihash.datasets.files import FileTree

CLASS_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
_BATCH = re.compile(r"(^|/)(data_batch_\d|test_batch)(\.bin)?$")
_PIXELS = 3 * 32 * 32


def recognise(tree: FileTree) -> bool:
    return any(_BATCH.search(name) for name in tree.names)


def read(tree: FileTree) -> Collection:
    """All batches that are there; the test part is the test batch."""
    batches = [name for name in tree.names if _BATCH.search(name)]
    parsed = {
        name: (_binary if name.endswith(".bin") else _python)(tree.require(name), name) for name in batches
    }
    train = [parsed[name] for name in sorted(parsed) if "data_batch" in name]
    test = [parsed[name] for name in sorted(parsed) if "test_batch" in name]
    kind = "CIFAR-10 binary" if batches[0].endswith(".bin") else "CIFAR-10 Python"
    return two_parts(kind, _join(train), _join(test), class_names=CLASS_NAMES, fingerprint=tree.fingerprint)


def _join(batches: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    images = [np.empty((0, 32, 32, 3), dtype=np.uint8), *(b[0] for b in batches)]
    labels = [np.empty(0, dtype=np.int64), *(b[1] for b in batches)]
    return np.concatenate(images), np.concatenate(labels)


def _images(planes: Array) -> Array:
    """Rows of red, green, blue planes as n × 32 × 32 × 3."""
    return planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def _binary(data: bytes, name: str) -> tuple[Array, Array]:
    if not data or len(data) % (_PIXELS + 1):
        raise ValueError(f"{name} is no CIFAR-10 batch: {len(data)} bytes are no multiple of {_PIXELS + 1}.")
    rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, _PIXELS + 1)
    return _images(rows[:, 1:]), _checked(rows[:, 0].astype(np.int64), name)


def _python(data: bytes, name: str) -> tuple[Array, Array]:
    """Pixels and labels of a pickled batch, picked out of the stream of its operations.

    ``pickletools.genops`` names the operations and their arguments and carries none of them out, so a
    batch can hold no code. The pixels are its one long string, the labels the numbers between ``labels``
    and the next string.
    """
    pixels, labels = b"", []
    in_labels = fortran = False
    try:
        for operation, argument, _ in pickletools.genops(data):
            if isinstance(argument, str | bytes):
                in_labels = argument in ("labels", b"labels")
                if len(argument) >= _PIXELS:
                    pixels = argument.encode("latin-1") if isinstance(argument, str) else argument
            elif in_labels and operation.name.startswith(("BININT", "INT")):
                labels.append(argument)
            elif operation.name in ("NEWTRUE", "NEWFALSE") and not pixels:
                fortran = operation.name == "NEWTRUE"  # the last flag before an array's bytes is its order
    except Exception as error:  # whatever a damaged stream leads pickletools to
        raise ValueError(f"{name} is no CIFAR-10 batch: {error}.") from None
    if not labels or len(pixels) != len(labels) * _PIXELS:
        raise ValueError(
            f"{name} is no CIFAR-10 batch: {len(labels)} labels and {len(pixels)} bytes of pixels."
        )
    planes = np.frombuffer(pixels, dtype=np.uint8).reshape(
        (len(labels), _PIXELS), order="F" if fortran else "C"
    )
    return _images(planes), _checked(np.array(labels, dtype=np.int64), name)


def _checked(labels: Array, name: str) -> Array:
    if labels.max(initial=0) >= len(CLASS_NAMES) or labels.min(initial=0) < 0:
        raise ValueError(f"{name} is no CIFAR-10 batch: its labels are not all 0…{len(CLASS_NAMES) - 1}.")
    return labels
