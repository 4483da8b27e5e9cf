"""Vectors that somebody made already, in NumPy files."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.datasets.dataset import Collection, check_fits, two_parts
from sihash.datasets.roles import NO_COLUMNS, ColumnChoice, plain_name
from sihash.labels import object_array

NPY = b"\x93NUMPY"
NPZ_OWN = (
    *("X", "y", "Y", "id", "ids", "name", "names"),
    *("codes", "n_bits", "class_names", "label_names", "json"),
)


def fingerprint(*paths: Path) -> str:
    """Digest of the files' contents."""
    digests = []
    for path in paths:
        with open(path, "rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return " ".join(digests)


def is_npz(path: Path) -> bool:
    """Whether a zip holds arrays and nothing else."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return bool(names) and all(name.endswith(".npy") for name in names)


def read_npz(path: Path, asked: ColumnChoice = NO_COLUMNS) -> Collection:
    """``X`` and perhaps ``y``; or ``X_train``, ``X_test`` and their labels. ``class_names`` if there.

    Indicators of several labels may be called ``Y``, or ``Y_train`` and ``Y_test``. Their columns are
    numbered, or named by ``class_names`` (as text) or ``label_names`` (as they are).

    Beside ``X``, arrays with a value per row are columns (``id`` or ``ids`` and ``name`` or ``names`` have
    their meaning); what is missing in ``price`` is marked in ``price.missing``.
    """
    arrays = _npz_arrays(path)
    coded = set(arrays["json"].tolist()) if "json" in arrays else set()
    names = _class_names(arrays, coded)
    others: dict[str, Any] = {"class_names": names, "fingerprint": lambda: fingerprint(path)}
    if "X_train" in arrays and "X_test" in arrays:
        train, test = (
            (arrays[f"X_{p}"], arrays.get(f"y_{p}", arrays.get(f"Y_{p}"))) for p in ("train", "test")
        )
        for (X, y), part in ((train, "_train"), (test, "_test")):
            _check(X, y, path, part)
            _check_classes(y, names, path)
        return two_parts("npz", (numeric(train[0]), train[1]), (numeric(test[0]), test[1]), **others)
    if "X" not in arrays:
        raise ValueError(
            f"{path} holds {', '.join(arrays)}; expected an array X (and y), or X_train and X_test (and y_…)."
        )
    indicators = arrays.get("Y") if getattr(arrays.get("Y"), "ndim", 0) == 2 else None
    X, y = arrays["X"], arrays.get("y", indicators)
    _check(X, y, path)
    _check_classes(y, names, path)

    def values(name: str) -> Any:
        """An array with None where it is marked as missing."""
        found, missing = arrays[name], arrays.get(f"{name}.missing")
        if missing is not None and missing.shape != found.shape:
            raise ValueError(f"{path} must have a mark in {name}.missing for each value of {name}.")
        if name in coded:
            what = f"{name} in {path}"
            return [None if gone else from_json(v, what) for v, gone in _marked(found, missing)]
        return found if missing is None else [None if gone else v for v, gone in _marked(found, missing)]

    every = [n for n, v in arrays.items() if v.shape == (len(X),) and not _is_mark(n, arrays)]
    id_array = asked.id_column([n for n in every if n not in ("y", "X")], ("id", "ids"), str(path))
    name_array = next((name for name in ("name", "names") if name in every), None)
    rest = [n for n in every if n not in (id_array, name_array, *NPZ_OWN)]
    columns = {plain_name(n): n for n in rest}
    if y is not None and ("y.missing" in arrays or "y" in coded):
        y = object_array(values("y"))
    return Collection(
        "npz",
        numeric(X),
        y,
        np.zeros(len(X), dtype=bool),
        **others,
        names=[str(name) for name in arrays[name_array].tolist()] if name_array else None,
        ids=values(id_array) if id_array else None,
        ids_said=id_array is not None,
        columns={name: values(columns[name]) for name in asked.chosen(list(columns), str(path))},
    )


def _class_names(arrays: dict[str, Array], coded: set[str]) -> list[Any] | None:
    if "label_names" in arrays:
        names = arrays["label_names"].tolist()
        return [json.loads(name) for name in names] if "label_names" in coded else names
    return [str(name) for name in arrays["class_names"].tolist()] if "class_names" in arrays else None


def _marked(found: Array, missing: Array | None) -> Iterable[tuple[Any, bool]]:
    marks = [False] * len(found) if missing is None else missing.tolist()
    return zip(found.tolist(), marks, strict=True)


def from_json(text: Any, what: str) -> Any:
    """A value of an export."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise ValueError(f"{what} is marked as JSON and holds {str(text)[:80]!r}.") from None


def _is_mark(name: str, arrays: dict[str, Array]) -> bool:
    return name.endswith(".missing") and name.removesuffix(".missing") in arrays


def _check_classes(y: Array | None, names: list[Any] | None, path: Path) -> None:
    """Labels beside ``class_names`` are positions in them, −1 for none, or indicators with a column each."""
    if y is None or names is None:
        return
    if y.ndim == 2:
        if y.shape[1] != len(names):
            raise ValueError(
                f"{path} has labels as an indicator matrix of {y.shape[1]} columns and names of {len(names)} "
                "labels; give a name for each column."
            )
        return
    if y.dtype.kind not in "iub" and not (y.dtype.kind == "f" and (y == np.floor(y)).all()):
        odd = y[y != np.floor(y)][0] if y.dtype.kind == "f" else y[0]
        raise ValueError(f"{path} has class_names, so y must be whole numbers, positions in them; got {odd}.")
    wrong = y[(y < -1) | (y >= len(names))]
    if len(wrong):
        raise ValueError(
            f"{path} has {len(names)} class_names, so y must be 0 to {len(names) - 1}, or −1 for no label; "
            f"got {wrong[0]}."
        )


def _npz_arrays(path: Path) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            check_fits(sum(info.file_size for info in archive.infolist()), str(path))
            for info in archive.infolist():
                with archive.open(info) as file:
                    _check_header(file, info.file_size, f"{info.filename} in {path}")
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except ValueError:
        raise
    except Exception as error:  # a damaged or encrypted member fails in the way of its decompressor
        raise ValueError(f"{path} cannot be read: {error}") from None


def read_npy(path: Path, labels: str | Path | None, mapped: bool = False) -> Collection:
    """One array of vectors; its labels in another file, given or found beside it as ``<stem>_labels.*``.

    ``mapped`` leaves the vectors on the disk, in their own type, for those who read them block by block.
    """
    X = _load_npy(path, mapped)
    beside = [path.with_name(f"{path.stem}_labels{end}") for end in (".npy", ".txt", ".csv")]
    file = Path(labels) if labels else next((p for p in beside if p.exists()), None)
    y = _read_labels(file) if file else None
    _check(X, y, path)
    is_test = np.zeros(len(X), dtype=bool)
    X = X if mapped else numeric(X)
    return Collection("npy", X, y, is_test, lambda: fingerprint(path, *([file] if file else [])))


def _load_npy(path: Path, mapped: bool = False) -> Array:
    size = path.stat().st_size
    if not mapped:
        check_fits(size, str(path))
    with open(path, "rb") as file:
        _check_header(file, size, str(path))
    try:
        return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _check_header(file: Any, size: int, what: str) -> None:
    """Compare the size that an array's header announces with the size of the file, before any allocation."""
    try:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file)
    except Exception as error:  # a damaged header, or a zip member that cannot be opened
        raise ValueError(f"{what} is no NumPy array: {error}") from None
    if dtype.hasobject:
        raise ValueError(f"{what} holds Python objects, which are never loaded; store numbers or strings.")
    announced = int(np.prod([int(n) for n in shape], dtype=object)) * dtype.itemsize
    if any(n < 0 for n in shape) or announced > size:
        raise ValueError(f"{what} announces {announced:,} bytes of data and has {size:,}; it is damaged.")


def _read_labels(path: Path) -> Array:
    """A ``.npy`` array, or text with one label per line."""
    with open(path, "rb") as file:
        if file.read(len(NPY)) == NPY:
            return _load_npy(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is neither a NumPy file nor text with one label per line.") from None
    y = np.array([line.strip() for line in lines if line.strip()])
    try:
        return y.astype(np.int64)
    except ValueError:
        return y


def _check(X: Array, y: Array | None, path: Path, part: str = "") -> None:
    if X.ndim < 2 or X.dtype.kind not in "fiub":
        raise ValueError(
            f"X{part} in {path} must be a matrix of numbers, one row per item; got {X.dtype} {X.shape}."
        )
    if y is not None and (y.ndim not in (1, 2) or len(y) != len(X)):
        raise ValueError(
            f"{path} has {len(X)} rows in X{part} but labels of shape {y.shape}; give one per row."
        )


def numeric(X: Array) -> Array:
    """Vectors as float32 or float64; images, which have more than two axes, as they are."""
    if X.ndim > 2 or X.dtype in (np.float32, np.float64):
        return X
    return X.astype(np.float32)
