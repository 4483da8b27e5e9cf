"""Model files: safetensors with a JSON header, a format version and a SHA-256 over every byte; no pickle.

Layout: a plain safetensors file whose ``__metadata__`` holds three strings: ``format`` ("sihash/1"),
``header`` (JSON, what the model says of itself) and ``sha256``: the digest of the whole file as it
stands with that digest written as 64 zeros. A flipped byte anywhere changes the digest or the zeros' place.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from sihash._typing import Array
from sihash.store.atomic_file import whole_file

FORMAT_NAME = "sihash"
VERSION = 1
_BLANK = b"0" * 64
PARAM = "param."  # before the names of parameters that are arrays


class ModelFileError(ValueError):
    """A model file that is truncated, altered, foreign, or written by a newer sihash."""


class Entries(dict[str, Any]):
    """What a file holds by name. What a reader needs and does not find is the fault of the file."""

    def __init__(self, path: str | os.PathLike[str], entries: dict[str, Any]) -> None:
        super().__init__(entries)
        self._path = str(path)

    def __missing__(self, name: str) -> Any:
        raise ModelFileError(f"{self._path} is not a model file that sihash wrote: it lacks {name!r}.")

    def number(self, name: str) -> float:
        """A number that is neither NaN nor infinite."""
        value = self[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(name, f"{name!r} must be a finite number, got {value!r}")
        return value

    def list(self, name: str) -> builtins.list[Any]:
        value = self[name]
        if not isinstance(value, builtins.list):
            raise self.wrong(name, f"{name!r} must be a list, got {value!r}")
        return value

    def wrong(self, name: str, why: object) -> ModelFileError:
        """The error that the entry ``name`` is not what a reader can use."""
        return ModelFileError(f"{self._path} is not a model file that sihash wrote: at {name!r}, {why}.")


def write(path: str | os.PathLike[str], header: dict[str, Any], tensors: dict[str, Array]) -> None:
    """Write a model so that ``path`` holds the old file or the new one, whole, whatever happens."""
    target = Path(path)
    metadata = {"format": f"{FORMAT_NAME}/{VERSION}", "header": json.dumps(header), "sha256": _BLANK.decode()}
    blob = safetensors.numpy.save({k: np.ascontiguousarray(v) for k, v in tensors.items()}, metadata=metadata)
    digest = hashlib.sha256(blob).hexdigest().encode()
    place = _digest_place(blob)
    with whole_file(target) as file:
        for piece in (blob[:place], digest, memoryview(blob)[place + 64 :]):
            file.write(piece)


def read(path: str | os.PathLike[str]) -> tuple[Entries, Entries]:
    """Read a model; raises `ModelFileError` with one sentence unless every byte is as it was written.

    The same error is raised when a header entry or tensor is asked for that the file does not hold.
    """
    try:
        blob = bytearray(Path(path).read_bytes())
        metadata = _metadata(blob)
        name, _, version = str(metadata.get("format", "")).partition("/")
        number = int(version) if version.isdecimal() else 0
    except (IsADirectoryError, PermissionError) as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelFileError(f"{path} is not a sihash model file, or it was cut short or altered.") from None
    if name != FORMAT_NAME or not number:
        raise ModelFileError(f"{path} is a safetensors file, but not one that sihash wrote.")
    if number > VERSION:
        raise ModelFileError(
            f"{path} has format {number}, this sihash reads up to {VERSION}; "
            "install a newer sihash to open it."
        )
    _check_digest(path, blob, metadata)
    return _content(path, blob, metadata)


# Hashers.


def write_model(
    path: str | os.PathLike[str],
    class_name: str,
    params: dict[str, Any],
    n_features: int,
    feature_names: Sequence[str] | None,
    header: dict[str, Any],
    tensors: dict[str, Array],
) -> None:
    """Write what a hasher of this class is made of again: parameters, features of its rows, and its state.

    The state of a random generator among the parameters is not kept.
    """
    plain: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    for name, value in params.items():
        if isinstance(value, np.ndarray):
            arrays[PARAM + name] = value
        else:
            value = value.item() if isinstance(value, np.generic) else value
            plain[name] = None if isinstance(value, np.random.RandomState) else value
    entries = {"class": class_name, "params": plain, "n_features_in": n_features, **header}
    if feature_names is not None:
        entries["feature_names_in"] = list(feature_names)
    write(path, entries, {**arrays, **tensors})


@contextmanager
def reading(
    path: str | os.PathLike[str], class_name: str
) -> Iterator[tuple[Entries, Entries, dict[str, Any]]]:
    """Header, tensors and parameters of a file that holds a ``class_name``.

    Entries that do not fit each other are the fault of the file: what they raise in the ``with`` block is one
    `ModelFileError`.
    """
    header, tensors = read(path)
    if header.get("class") != class_name:
        raise ModelFileError(
            f"{path} holds a {header.get('class')} model; open it with {header.get('class')}.load."
        )
    params = header["params"]
    if not isinstance(params, Entries):
        raise header.wrong("params", f"parameters were expected, got {params!r}")
    check_numbers(tensors)
    arrays = {k.removeprefix(PARAM): v for k, v in tensors.items() if k.startswith(PARAM)}
    if "feature_names_in" in header and len(header.list("feature_names_in")) != header["n_features_in"]:
        raise header.wrong("feature_names_in", f"{header['n_features_in']} names were expected")
    try:
        yield header, tensors, {**params, **arrays}
    except ModelFileError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path} is not a model file that save wrote: its entries do not fit each other ({error})."
        ) from error


def check_shapes(tensors: dict[str, Array], wanted: dict[str, tuple[int, ...]]) -> None:
    """Refuse a model file whose tensors do not fit each other: compiled loops rely on their shapes."""
    for name, shape in wanted.items():
        if tensors[name].shape != shape:
            raise ModelFileError(
                f"The model file is not one that save wrote: tensor {name!r} has shape {tensors[name].shape} "
                f"where {shape} was expected."
            )


# Tensors of whole numbers; those of other names are numbers with a fraction.
WHOLE = {
    "anchor_classes",
    "class.counts",
    "class.flat",
    "class.words",
    "features",
    "generator",
    "keys",
    "machines.gram_rows",
    "machines.newest",
    "made_of",
    "outside",
    "words",
}


def check_numbers(tensors: Entries) -> None:
    """Refuse NaN, whole numbers where fractions were saved, and the other way round.

    Infinite numbers are refused but where trees and solvers have them for "no bound".
    """
    for name, tensor in tensors.items():
        group, _, own = name.partition(".")
        if tensor.dtype.kind == "f":
            unbounded = name == "thresholds" or group == "machines"
            if np.isnan(tensor).any() or not (unbounded or np.isfinite(tensor).all()):
                raise tensors.wrong(name, "numbers are NaN or infinite")
        whole = name in WHOLE or (group == "rows" and own != "X") or own.startswith("pi")
        if group != "param" and tensor.dtype.kind not in ("iu" if whole else "f"):
            raise tensors.wrong(name, f"numbers of another type were expected than {tensor.dtype}")


def _metadata(blob: bytearray) -> dict[str, str]:
    length = int.from_bytes(blob[:8], "little")
    if len(blob) < 8 or length > len(blob) - 8:
        raise ValueError("truncated")
    return json.loads(blob[8 : 8 + length])["__metadata__"]


def _check_digest(path: str | os.PathLike[str], blob: bytearray, metadata: dict[str, str]) -> None:
    stored = str(metadata.get("sha256", "")).encode()
    place = blob.find(b'"sha256":"' + stored) + len(b'"sha256":"')
    if len(stored) == 64:
        blob[place : place + 64] = _BLANK
    if hashlib.sha256(blob).hexdigest().encode() != stored:
        raise ModelFileError(
            f"{path} was cut short or altered: its SHA-256 does not match its bytes; restore it from a copy."
        )


def _content(
    path: str | os.PathLike[str], blob: bytearray, metadata: dict[str, str]
) -> tuple[Entries, Entries]:
    """Header and tensors. A right digest says that nothing was altered, not that we wrote it."""
    try:
        header = json.loads(metadata["header"], object_hook=lambda entries: Entries(path, entries))
        tensors = Entries(path, safetensors.numpy.load(bytes(blob)))
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError):
        header = None
    if not isinstance(header, Entries):
        raise ModelFileError(f"{path} is not a model file that sihash wrote: its content cannot be read.")
    return header, tensors


def _digest_place(blob: bytes) -> int:
    """Where the 64 digest characters stand. The header JSON is quoted inside, so the key occurs once."""
    key = b'"sha256":"'
    return blob.index(key) + len(key)
