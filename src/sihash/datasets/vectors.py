"""Vectors that somebody made already: NumPy files, Parquet and Arrow."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sihash._typing import Array
from sihash.datasets.dataset import NO_COLUMNS, Collection, ColumnChoice, check_fits, two_parts
from sihash.labels import object_array

NPY, PARQUET, ARROW = b"\x93NUMPY", b"PAR1", b"ARROW1"

BATCH_ROWS = 8192  # of a table, decoded at a time
Result = TypeVar("Result")

PREFIX = "column."  # before the name of a column in a file of ours, where the name has a meaning there
NPZ_OWN = (
    *("X", "y", "Y", "id", "ids", "name", "names"),
    *("codes", "n_bits", "class_names", "label_names", "json"),
)
_PANDAS_INDEX = re.compile(r"__index_level_[0-9]+__")
LABEL_COLUMNS = ("y", "label", "labels", "class", "target", "category")
VECTOR_COLUMNS = ("X", "vector", "embedding", "features")


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
        return two_parts("npz", (_numeric(train[0]), train[1]), (_numeric(test[0]), test[1]), **others)
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
            return [None if gone else _from_json(v, what) for v, gone in _marked(found, missing)]
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
        _numeric(X),
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


def _from_json(text: Any, what: str) -> Any:
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


def plain_name(name: str) -> str:
    """The name of a column in a file of ours: a prefix keeps those apart that have a meaning there."""
    return name.removeprefix(PREFIX)


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


def read_table(
    path: Path, labels: str | Path | None, mapped: bool = False, asked: ColumnChoice = NO_COLUMNS
) -> Collection:
    """A Parquet or Arrow file with a column of lists of numbers, perhaps also of labels, ids and names.

    ``mapped`` leaves the vectors of a Parquet file on the disk, for those who read them block by block.
    """
    schema = _schema(path)
    twice = next((name for k, name in enumerate(schema.names) if name in schema.names[:k]), None)
    if twice is not None:
        raise ValueError(f"{path} has two columns named {twice!r}; give one of them another name.")
    column = _vector_column(schema, path)
    about = {key.decode(): text.decode() for key, text in (schema.metadata or {}).items()}
    coded = about.get("sihash json", "").split()
    names = [f.name for f in schema if f.name != column and not _is_passed_over(f)]
    label_column = str(labels) if labels else next((c for c in LABEL_COLUMNS if c in names), None)
    if label_column and label_column not in names:
        raise ValueError(f"{path} has no column {label_column!r}; it has {', '.join(schema.names)}.")
    id_column = asked.id_column(names, [n for n in ("id",) if n != label_column], str(path))
    name_column = (
        "name" if "name" in names and label_column != "name" and is_text(schema.field("name").type) else None
    )
    rest = {plain_name(n): n for n in names if n not in (label_column, id_column, name_column)}
    chosen = {name: rest[name] for name in asked.chosen(list(rest), str(path))}
    wanted = list(dict.fromkeys(n for n in (label_column, id_column, name_column, *chosen.values()) if n))
    X: Any
    if mapped and _is_parquet(path):
        table = _open_table(path, wanted)
        X = TableRows(path, column)
    else:
        table = _open_table(path, [column, *wanted])
        X = _matrix(table.column(column), f"column {column!r} of {path}")

    def values(name: str) -> list[Any]:
        found = table.column(name).to_pylist()
        if name not in coded:
            return found
        return [None if v is None else _from_json(v, f"{name} in {path}") for v in found]

    return Collection(
        "Parquet or Arrow",
        X,
        _labels_array(values(label_column)) if label_column else None,
        np.zeros(len(X), dtype=bool),
        lambda: fingerprint(path),
        names=[str(v) for v in values(name_column)] if name_column else None,
        ids=values(id_column) if id_column else None,
        ids_said=id_column is not None,
        columns={name: values(n) for name, n in chosen.items()},
    )


def _is_passed_over(field: Any) -> bool:
    """Codes and digests of an export, which pandas may have written again, and an index of pandas."""
    import pyarrow.types as types

    of_bytes = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    ours = field.name in ("code", "sha256") and any(is_a(field.type) for is_a in of_bytes)
    return ours or _PANDAS_INDEX.fullmatch(field.name) is not None


def _labels_array(values: list[Any]) -> Array:
    """Labels of one type as an array of it, else, and where some are missing, as objects."""
    kinds = {type(v) for v in values}
    return object_array(values) if len(kinds) > 1 or list in kinds else np.array(values)


def is_text(kind: Any) -> bool:
    import pyarrow

    return pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)


class TableRows:
    """Vectors in a column of a Parquet file, read as slices are asked for, best one after the other."""

    ndim = 2

    def __init__(self, path: Path, column: str) -> None:
        self._path, self._column, self._what = path, column, f"column {column!r} of {path}"
        self._file = _told(path, lambda parquet: parquet.ParquetFile(path))
        self._start()
        first = next(self._batches, np.empty((0, 0), dtype=np.float32))
        self.shape = (self._file.metadata.num_rows, first.shape[1])
        self._start()

    def _start(self) -> None:
        self._place, self._rest, self._batches = 0, np.empty((0, 0), dtype=np.float32), self._read()

    def _read(self) -> Iterator[Array]:
        import pyarrow

        batches = self._file.iter_batches(batch_size=BATCH_ROWS, columns=[self._column])

        def read(_: Any) -> Any:
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)
            return batch

        while (batch := _told(self._path, read)) is not None:
            yield _matrix(pyarrow.chunked_array([batch.column(0)]), self._what)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(len(self))
        if start < self._place:
            self._start()
        return _told(self._path, lambda _: self._forward(start, stop))

    def _forward(self, start: int, stop: int) -> Array:
        parts, end = [self._rest], self._place + len(self._rest)
        while end < stop:
            parts.append(next(self._batches))
            end += len(parts[-1])
        if len({part.shape[1] for part in parts if len(part)}) > 1:
            raise ValueError(f"The vectors in {self._what} are not all of one length.")
        every = np.concatenate([part for part in parts if len(part)] or [np.empty(self.shape, np.float32)])
        place, self._place, self._rest = self._place, stop, every[stop - self._place :]
        return every[start - place : stop - place]


def _is_parquet(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(PARQUET)) == PARQUET


def _told(path: Path, work: Callable[[Any], Result]) -> Result:
    """``work`` with the Parquet module; what is wrong with the file as one sentence."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet and Arrow files need pyarrow: pip install 'sihash[parquet]'.") from None
    try:
        return work(parquet)
    except (pyarrow.ArrowException, OSError, StopIteration) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _schema(path: Path) -> Any:
    if _is_parquet(path):
        return _told(path, lambda parquet: parquet.read_schema(path))
    return _open_table(path).schema


def _open_table(path: Path, columns: list[str] | None = None) -> Any:
    def read(parquet: Any) -> Any:
        from pyarrow import feather

        reader = parquet.read_table if _is_parquet(path) else feather.read_table
        table = reader(path, columns=columns)
        table.validate(full=True)  # offsets of a spoilt file may point out of their buffer
        return table

    return _told(path, read)


def _vector_column(schema: Any, path: Path) -> str:
    import pyarrow

    def is_vectors(kind: Any) -> bool:
        lists = (pyarrow.types.is_list, pyarrow.types.is_large_list, pyarrow.types.is_fixed_size_list)
        numbers = (pyarrow.types.is_floating, pyarrow.types.is_integer)
        return any(is_a(kind) for is_a in lists) and any(is_a(kind.value_type) for is_a in numbers)

    found = [field.name for field in schema if is_vectors(field.type)]
    if len(found) > 1:  # numbers of several labels are lists, too
        found = [name for name in found if name not in LABEL_COLUMNS]
    named = [name for name in VECTOR_COLUMNS if name in found]
    if len(found) == 1 or named:
        return str((named or found)[0])
    raise ValueError(
        f"{path} has {len(found)} columns of number lists ({', '.join(found) or 'none'}); expected one, "
        f"or one named {', '.join(VECTOR_COLUMNS)}."
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
            f"X{part} in {path} must be a matrix of numbers, one row per item; got {X.dtype} {X.shape}."
        )
    if y is not None and (y.ndim not in (1, 2) or len(y) != len(X)):
        raise ValueError(
            f"{path} has {len(X)} rows in X{part} but labels of shape {y.shape}; give one per row."
        )


def _numeric(X: Array) -> Array:
    """Vectors as float32 or float64; images, which have more than two axes, as they are."""
    if X.ndim > 2 or X.dtype in (np.float32, np.float64):
        return X
    return X.astype(np.float32)
