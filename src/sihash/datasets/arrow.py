"""Tables of Arrow: Parquet and Arrow files, and what other libraries have in memory.

Anything that hands out an Arrow stream (``__arrow_c_stream__``: pandas, polars, DuckDB, pyarrow), the data
frame protocol (``__dataframe__``), or is a data set of Hugging Face becomes a table of pyarrow, mostly
without a copy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sihash._typing import Array
from sihash.datasets.dataset import Collection
from sihash.datasets.files import file_contents
from sihash.datasets.roles import NO_COLUMNS, ColumnChoice, Kind, Roles
from sihash.datasets.vectors import fingerprint, from_json, numeric
from sihash.features.images import BadImage
from sihash.labels import object_array

PARQUET, ARROW = b"PAR1", b"ARROW1"
BATCH_ROWS = 8192  # of a table, decoded at a time
_PANDAS_INDEX = re.compile(r"__index_level_[0-9]+__")
Result = TypeVar("Result")


def read_table(
    path: Path, labels: str | Path | None, mapped: bool = False, asked: ColumnChoice = NO_COLUMNS
) -> Collection:
    """A Parquet or Arrow file with vectors or images, perhaps also labels, ids, names and facts.

    ``mapped`` leaves the vectors of a Parquet file on the disk, for those who read them block by block.
    """
    schema = _schema(path)
    roles = _roles(schema, str(labels) if labels else None, asked, str(path))
    used = _columns_of(roles)
    if mapped and roles.vectors and _is_parquet(path):
        X = TableRows(path, roles.vectors)
        table = _open_table(path, [name for name in used if name not in roles.vectors])
        return _collection(table, schema, roles, str(path), lambda: fingerprint(path), X)
    table = _open_table(path, used)
    return _collection(table, schema, roles, str(path), lambda: fingerprint(path), folder=path.parent)


def read_frame(frame: Any, label: str | None, asked: ColumnChoice) -> Collection:
    """A table in memory; see above for those that it may be."""
    table = as_table(frame)
    roles = _roles(table.schema, label, asked, "The table")
    return _collection(table, table.schema, roles, "the table", lambda: "", folder=Path())


# Tables in memory.


def is_frame(source: Any) -> bool:
    """Whether this is a table, or a column of one, that another library has in memory."""
    return any(hasattr(source, name) for name in ("__arrow_c_stream__", "__dataframe__")) or _is_hugging_face(
        source
    )


def is_column(source: Any) -> bool:
    """Whether this is one column: a Series of pandas or polars, an array of Arrow."""
    is_arrow = any(hasattr(source, name) for name in ("__arrow_c_stream__", "__arrow_c_array__"))
    is_more = ("columns", "schema", "__dataframe__", "__array_interface__")  # the last is a picture of Pillow
    return is_arrow and not any(hasattr(source, name) for name in is_more)


def _is_hugging_face(source: Any) -> bool:
    return hasattr(source, "with_format") and hasattr(source, "features")


def as_table(frame: Any) -> Any:
    """A frame as a table of pyarrow."""
    pyarrow = _pyarrow("Tables in memory")
    try:
        if _is_hugging_face(frame):
            rows = frame.with_format("arrow")
            return rows[:] if hasattr(rows, "__len__") else pyarrow.concat_tables(rows)
        if hasattr(frame, "__arrow_c_stream__"):
            return pyarrow.table(frame)
        from pyarrow.interchange import from_dataframe

        return from_dataframe(frame)
    except (pyarrow.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        reason = " ".join(str(part) for part in error.args) or type(error).__name__
        raise ValueError(f"The table cannot be read: {reason}") from None


def column_values(column: Any) -> Any:
    """The values of one column: a matrix if it holds vectors, else a list."""
    pieces = column if hasattr(column, "__arrow_c_stream__") else [column]
    array = _pyarrow("Columns of tables").chunked_array(pieces)
    return _matrix(array, "column") if _kind(array.type) == "vector" else array.to_pylist()


# Tables of pyarrow.


def _roles(schema: Any, label: str | None, asked: ColumnChoice, where: str) -> Roles:
    twice = next((name for k, name in enumerate(schema.names) if name in schema.names[:k]), None)
    if twice is not None:
        raise ValueError(f"{where} has two columns named {twice!r}; give one of them another name.")
    kinds = {field.name: _kind(field.type) for field in schema if not _is_passed_over(field)}
    return asked.roles(kinds, label, where)


def _kind(kind: Any) -> Kind:
    """What a column of an Arrow type may be."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if any(is_a(kind) for is_a in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        return (
            "vector" if types.is_floating(kind.value_type) or types.is_integer(kind.value_type) else "nested"
        )
    if types.is_floating(kind) or types.is_integer(kind):
        return "number"
    if any(is_a(kind) for is_a in (types.is_string, types.is_large_string, types.is_string_view)):
        return "text"
    if any(is_a(kind) for is_a in (types.is_binary, types.is_large_binary, types.is_binary_view)):
        return "image"
    if types.is_struct(kind):  # Hugging Face has its images so
        return "image" if {"bytes", "path"} <= {field.name for field in kind} else "nested"
    return "nested" if types.is_nested(kind) else "fact"


def _is_passed_over(field: Any) -> bool:
    """Codes and digests of an export, which pandas may have written again, and an index of pandas."""
    import pyarrow.types as types

    of_bytes = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    ours = field.name in ("code", "sha256") and any(is_a(field.type) for is_a in of_bytes)
    return ours or _PANDAS_INDEX.fullmatch(field.name) is not None


def _columns_of(roles: Roles) -> list[str]:
    every = (roles.label, roles.id, roles.name, roles.images, *roles.vectors, *roles.facts.values())
    return list(dict.fromkeys(name for name in every if name))


def _collection(
    table: Any,
    schema: Any,
    roles: Roles,
    where: str,
    digest: Callable[[], str],
    X: Any = None,
    folder: Path | None = None,
) -> Collection:
    """``X`` are its vectors if they are elsewhere; paths of images are relative to ``folder``."""
    about = {key.decode(): text.decode() for key, text in (schema.metadata or {}).items()}
    coded = about.get("sihash json", "").split()

    def values(name: str) -> list[Any]:
        found = table.column(name).to_pylist()
        if name not in coded:
            return found
        return [None if v is None else from_json(v, f"{name} in {where}") for v in found]

    paths: list[str | None] | None = None
    if X is None and roles.images:
        paths, X = _images(values(roles.images), folder or Path(), f"{roles.images} in {where}")
    elif X is None:
        X = _vectors(table, roles.vectors, where)
    names = [str(v) for v in values(roles.name)] if roles.name else None
    if names is None and paths is not None:
        names = [f"image {k}" if path is None else path for k, path in enumerate(paths)]
    labels = None if roles.label is None else _named_classes(about, roles.label, values(roles.label))
    return Collection(
        "Parquet or Arrow" if paths is None else "a table of files",
        X,
        None if labels is None else _labels_array(labels),
        np.zeros(table.num_rows if len(table.column_names) else len(X), dtype=bool),
        digest,
        names=names,
        ids=values(roles.id) if roles.id else paths if paths and None not in paths else None,
        ids_said=roles.id is not None,
        columns={name: values(own) for name, own in roles.facts.items()},
        note=roles.told(),
    )


def _named_classes(about: dict[str, str], column: str, values: list[Any]) -> list[Any]:
    """Labels as they are; of a data set of Hugging Face the names, which it keeps elsewhere."""
    try:
        feature = json.loads(about["huggingface"])["info"]["features"][column]
        names = (feature if "names" in feature else feature["feature"])["names"]
    except (KeyError, TypeError, ValueError):
        return values

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(each) for each in value]
        return None if value is None or value < 0 else names[value]

    return [named(value) for value in values]


def _images(
    values: list[Any], folder: Path, what: str
) -> tuple[list[str | None], Iterator[bytes | BadImage]]:
    """Paths and contents of images: paths, contents, or both in a struct."""
    pairs: list[tuple[str | None, bytes | None]] = []
    for row, value in enumerate(values, 1):
        value = {"bytes": value} if isinstance(value, bytes) else value
        value = {"path": value} if isinstance(value, str) else value or {}
        path, content = value.get("path"), value.get("bytes")
        if not path and content is None:
            raise ValueError(f"Row {row} of {what} must name a file or hold an image, and is empty.")
        pairs.append((path, content))

    def contents() -> Iterator[bytes | BadImage]:
        for path, content in pairs:
            yield from [content] if content is not None else file_contents(folder, [str(path)])

    return [path for path, _ in pairs], contents()


def _labels_array(values: list[Any]) -> Array:
    """Labels of one type as an array of it, else, and where some are missing, as objects."""
    kinds = {type(v) for v in values}
    return object_array(values) if len(kinds) > 1 or list in kinds else np.array(values)


class TableRows:
    """Vectors in columns of a Parquet file, read as slices are asked for, best one after the other."""

    ndim = 2

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self._path, self._columns = path, columns
        self._file = _told(path, lambda parquet: parquet.ParquetFile(path))
        self._start()
        first = next(self._batches, np.empty((0, 0), dtype=np.float32))
        self.shape = (self._file.metadata.num_rows, first.shape[1])
        self._start()

    def _start(self) -> None:
        self._place, self._rest, self._batches = 0, np.empty((0, 0), dtype=np.float32), self._read()

    def _read(self) -> Iterator[Array]:
        import pyarrow

        batches = self._file.iter_batches(batch_size=BATCH_ROWS, columns=list(self._columns))

        def read(_: Any) -> Any:
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)
            return batch

        while (batch := _told(self._path, read)) is not None:
            yield _vectors(pyarrow.table(batch), self._columns, str(self._path))

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
            raise ValueError(
                f"The vectors in column {self._columns[0]!r} of {self._path} are not all of one length."
            )
        every = np.concatenate([part for part in parts if len(part)] or [np.empty(self.shape, np.float32)])
        place, self._place, self._rest = self._place, stop, every[stop - self._place :]
        return every[start - place : stop - place]


def _is_parquet(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(PARQUET)) == PARQUET


def _told(path: Path, work: Callable[[Any], Result]) -> Result:
    """``work`` with the Parquet module; what is wrong with the file as one sentence."""
    pyarrow = _pyarrow("Parquet and Arrow files")
    from pyarrow import parquet

    try:
        return work(parquet)
    except (pyarrow.ArrowException, OSError, StopIteration) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _pyarrow(what: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f"{what} need pyarrow: pip install 'sihash[parquet]'.") from None
    return pyarrow


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


def _vectors(table: Any, columns: tuple[str, ...], where: str) -> Array:
    """Vectors in one column of lists, or in columns of numbers."""
    if len(columns) == 1 and _kind(table.schema.field(columns[0]).type) == "vector":
        return _matrix(table.column(columns[0]), f"column {columns[0]!r} of {where}")
    found = []
    for name in columns:
        if _kind(table.schema.field(name).type) != "number":
            kind = table.schema.field(name).type
            raise ValueError(f"Column {name!r} of {where} must hold numbers, or lists of them; got {kind}.")
        found.append(numeric(table.column(name).to_numpy()))
    return np.column_stack(found)


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
    return numeric(flat.reshape(len(column), width))


def _lengths(chunk: Any) -> list[int]:
    import pyarrow.compute

    return pyarrow.compute.unique(pyarrow.compute.list_value_length(chunk)).to_pylist()
