"""Vectors that somebody made already: NumPy files, Parquet and Arrow."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.datasets.dataset import Collection, check_fits, two_parts

NPY, PARQUET, ARROW = b"\x93NUMPY", b"PAR1", b"ARROW1"

_LABEL_COLUMNS = ("y", "label", "labels", "class", "target", "category")
_VECTOR_COLUMNS = ("X", "vector", "embedding", "features")


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


def read_npz(path: Path) -> Collection:
    """``X`` and perhaps ``y``; or ``X_train``, ``X_test`` and their labels. ``class_names`` if there."""
    arrays = _npz_arrays(path)
    names = [str(name) for name in arrays["class_names"].tolist()] if "class_names" in arrays else None
    others: dict[str, Any] = {"class_names": names, "fingerprint": lambda: fingerprint(path)}
    if "X_train" in arrays and "X_test" in arrays:
        train, test = ((arrays[f"X_{p}"], arrays.get(f"y_{p}")) for p in ("train", "test"))
        for (X, y), part in ((train, "_train"), (test, "_test")):
            _check(X, y, path, part)
        return two_parts("npz", (_numeric(train[0]), train[1]), (_numeric(test[0]), test[1]), **others)
    if "X" not in arrays:
        raise ValueError(
            f"{path} holds {', '.join(arrays)}; expected an array X (and y), or X_train and X_test (and y_…)."
        )
    X, y = arrays["X"], arrays.get("y")
    _check(X, y, path)
    return Collection("npz", _numeric(X), y, np.zeros(len(X), dtype=bool), **others)


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
    X = X if mapped else _numeric(X)
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
    """A ``.npy`` array, or text with one label a line."""
    with open(path, "rb") as file:
        if file.read(len(NPY)) == NPY:
            return _load_npy(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is neither a NumPy file nor text with one label a line.") from None
    y = np.array([line.strip() for line in lines if line.strip()])
    try:
        return y.astype(np.int64)
    except ValueError:
        return y


def read_table(path: Path, labels: str | Path | None) -> Collection:
    """A Parquet or Arrow file with a column of lists of numbers, and perhaps a column of labels."""
    table = _open_table(path)
    column = _vector_column(table, path)
    X = _matrix(table.column(column), f"column {column!r} of {path}")
    label_column = (
        str(labels) if labels else next((c for c in _LABEL_COLUMNS if c in table.column_names), None)
    )
    if label_column and label_column not in table.column_names:
        raise ValueError(f"{path} has no column {label_column!r}; it has {', '.join(table.column_names)}.")
    y = np.array(table.column(label_column).to_pylist()) if label_column else None
    if y is not None and y.dtype == object:
        raise ValueError(
            f"Column {label_column!r} of {path} has missing or mixed values; give every row one label."
        )
    return Collection("Parquet or Arrow", X, y, np.zeros(len(X), dtype=bool), lambda: fingerprint(path))


def _open_table(path: Path) -> Any:
    try:
        import pyarrow
        from pyarrow import feather, parquet
    except ImportError:
        raise ImportError("Parquet and Arrow files need pyarrow: pip install 'sihash[parquet]'.") from None
    with open(path, "rb") as file:
        is_parquet = file.read(len(PARQUET)) == PARQUET
    try:
        table = parquet.read_table(path) if is_parquet else feather.read_table(path)
        table.validate(full=True)  # offsets of a spoilt file may point out of their buffer
        return table
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _vector_column(table: Any, path: Path) -> str:
    import pyarrow

    def is_vectors(kind: Any) -> bool:
        lists = (pyarrow.types.is_list, pyarrow.types.is_large_list, pyarrow.types.is_fixed_size_list)
        numbers = (pyarrow.types.is_floating, pyarrow.types.is_integer)
        return any(is_a(kind) for is_a in lists) and any(is_a(kind.value_type) for is_a in numbers)

    found = [field.name for field in table.schema if is_vectors(field.type)]
    named = [name for name in _VECTOR_COLUMNS if name in found]
    if len(found) == 1 or named:
        return str((named or found)[0])
    raise ValueError(
        f"{path} has {len(found)} columns of number lists ({', '.join(found) or 'none'}); expected one, "
        f"or one named {', '.join(_VECTOR_COLUMNS)}."
    )


def _matrix(column: Any, what: str) -> Array:
    column = column.combine_chunks()
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    if column.null_count:
        raise ValueError(f"The {what} has {column.null_count} rows without a vector; leave them out.")
    values = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks]
    flat = np.concatenate([np.empty(0, dtype=np.float32), *values])
    lengths = {len(v) for v in column.slice(0, 1).to_pylist()}
    width = lengths.pop() if lengths else 0
    if any(n != width for chunk in chunks for n in _lengths(chunk)):
        raise ValueError(f"The vectors in {what} are not all of one length.")
    return _numeric(flat.reshape(len(column), width))


def _lengths(chunk: Any) -> list[int]:
    import pyarrow.compute

    return pyarrow.compute.unique(pyarrow.compute.list_value_length(chunk)).to_pylist()


def _check(X: Array, y: Array | None, path: Path, part: str = "") -> None:
    if X.ndim < 2 or X.dtype.kind not in "fiub":
        raise ValueError(
            f"X{part} in {path} must be a matrix of numbers, one row an item; got {X.dtype} {X.shape}."
        )
    if y is not None and (y.ndim not in (1, 2) or len(y) != len(X)):
        raise ValueError(
            f"{path} has {len(X)} rows in X{part} but labels of shape {y.shape}; give one a row."
        )


def _numeric(X: Array) -> Array:
    """Vectors as float32 or float64; images, which have more than two axes, as they are."""
    if X.ndim > 2 or X.dtype in (np.float32, np.float64):
        return X
    return X.astype(np.float32)
