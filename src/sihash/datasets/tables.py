"""Tables as text: CSV, TSV, or an object of JSON per line; and as plain Python: dicts. Each row is an item: a
vector, or an image.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sihash._typing import Array
from sihash.datasets import arrow
from sihash.datasets.dataset import Collection
from sihash.datasets.files import file_contents
from sihash.datasets.roles import VECTOR_COLUMNS, ColumnChoice, Kind
from sihash.datasets.vectors import fingerprint
from sihash.labels import object_array

JSON_LINES = (".jsonl", ".ndjson")
TEXTS = (".csv", ".tsv", *JSON_LINES)
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def is_table(path: Path) -> bool:
    return path.suffix.lower() in TEXTS


def read(path: Path, label: str | None, asked: ColumnChoice) -> Collection:
    """The items of a table, with vectors, or files beside the table."""
    columns = read_columns(path)
    if not len(next(iter(columns.values()), [])):
        raise ValueError(f"{path} has no rows below its header; expected an item per row.")
    return _collection(columns, label, asked, str(path), path.parent, lambda: fingerprint(path))


def is_table_in_memory(source: Any) -> bool:
    """A frame (`sihash.datasets.arrow`), a list of dicts, or a dict of columns."""
    first = source[0] if isinstance(source, list | tuple) and source else source
    return isinstance(first, Mapping) or arrow.is_frame(source)


def read_table(table: Any, label: str | None, asked: ColumnChoice) -> Collection:
    """A table in memory. ``label`` is the name of its column, "" if labels come from elsewhere."""
    if arrow.is_frame(table):
        return arrow.read_frame(table, label, asked)
    return read_rows(table, label, asked)


def read_rows(rows: Any, label: str | None, asked: ColumnChoice) -> Collection:
    """The items of a list of dicts, one an item, or of a dict of columns."""
    if isinstance(rows, Mapping):
        columns = _checked(rows)
    else:
        for number, row in enumerate(rows, 1):
            if not isinstance(row, Mapping):
                raise ValueError(f"Row {number} must be a dict as the others are, got {row!r:.80}.")
        columns = _by_name(rows)
    return _collection(columns, label, asked, "the table", Path(), lambda: "")


def _checked(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """A dict of columns of one length."""
    for name, values in columns.items():
        if arrow.is_frame(values) and not arrow.is_column(values):
            raise ValueError(
                f"Expected one table, got a dict of {len(columns)}; choose one, like [{name!r}]."
            )
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise ValueError(
                f"A dict holds columns, lists of one length, got {values!r:.80} in {name!r}; give one item "
                "as a list of one dict."
            )
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The columns of the table are not all of one length: {lengths}.")
    return {name: list(values) for name, values in columns.items()}


def _collection(
    columns: dict[str, list[Any]],
    label: str | None,
    asked: ColumnChoice,
    where: str,
    folder: Path,
    digest: Callable[[], str],
) -> Collection:
    """Paths of images are relative to ``folder``."""
    roles = asked.roles({name: _kind(name, values) for name, values in columns.items()}, label, where)
    files: list[str] | None = None
    X: Any
    if roles.images is None:
        X = _vectors([columns[name] for name in roles.vectors], where)
    elif all(isinstance(value, str | int) for value in columns[roles.images]):
        files = [_path(value, k, where) for k, value in enumerate(columns[roles.images])]
        X = file_contents(folder, files)
    else:
        X = columns[roles.images]
    names = files
    if roles.name:
        names = ["" if v is None else str(v) for v in columns[roles.name]]
    elif roles.images and files is None:
        names = [f"image {k}" for k in range(len(columns[roles.images]))]
    n = len(next(iter(columns.values()), []))
    return Collection(
        "a table of vectors" if roles.images is None else "a table of files",
        X,
        None if roles.label is None else object_array([_labels(v) for v in columns[roles.label]]),
        np.zeros(n, dtype=bool),
        digest,
        names=names,
        ids=columns[roles.id] if roles.id else files,
        ids_said=roles.id is not None,
        columns={name: columns[own] for name, own in roles.facts.items()},
        note=roles.told(),
    )


def _kind(name: str, values: list[Any]) -> Kind:
    """What a column may be, by its first value; vectors in the cells of a CSV file by its name."""
    value = next((value for value in values if value is not None), None)
    if isinstance(value, list | tuple | np.ndarray):
        shape = np.shape(value) if isinstance(value, np.ndarray) or not _is_text(value) else (0,)
        if len(shape) > 1:
            return "image"
        return "nested" if _is_text(value) else "vector"
    if isinstance(value, str):
        return "vector" if name in VECTOR_COLUMNS else "text"
    if isinstance(value, bytes | Image.Image):
        return "image"
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return "vector" if name in VECTOR_COLUMNS else "number"
    return "nested" if isinstance(value, Mapping) else "fact"


def _is_text(values: Any) -> bool:
    """Whether a list holds anything but numbers."""
    return any(isinstance(value, str | bytes | Mapping) or value is None for value in values)


def read_columns(path: Path) -> dict[str, list[Any]]:
    """The columns of a table by name; of a CSV or TSV file, cells as the numbers and so on that they are."""
    if path.suffix.lower() in JSON_LINES:
        rows = [_object(path, number, line) for number, line in _lines(path) if line.strip()]
        return _by_name(rows)
    head, *cells = read_cells(path) or [[]]
    if len(set(head)) < len(head) or "" in head:
        raise ValueError(f"{path} must begin with a row of different names of columns, got {head[:10]}.")
    for number, row in enumerate(cells, 2):
        if len(row) != len(head):
            raise ValueError(f"Row {number} of {path} has {len(row)} cells where the header has {len(head)}.")
    return {name: typed([row[k] for row in cells]) for k, name in enumerate(head)}


def _by_name(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def read_cells(path: Path) -> list[list[str]]:
    """The rows of a CSV or TSV file that are not empty, as text."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        return [row for row in csv.reader(io.StringIO(_text(path)), delimiter=delimiter) if row]
    except csv.Error as error:
        raise ValueError(f"{path} must be a table as UTF-8 text, and is not: {error}.") from None


def typed(cells: list[str]) -> list[Any]:
    """Cells of a column as whole numbers, numbers, or bools, if all are; else as text. Empty ones are None.

    Digits that begin with 0, such as those of a postcode, are text.
    """
    there = [cell for cell in cells if cell != ""]
    convert: Any = str
    if there and all(_WHOLE.fullmatch(cell) for cell in there):
        convert = int
    elif there and all(_NUMBER.fullmatch(cell) for cell in there):
        convert = float
    elif there and all(cell.lower() in ("true", "false") for cell in there):
        convert = _is_true
    return [None if cell == "" else convert(cell) for cell in cells]


def _is_true(cell: str) -> bool:
    return cell.lower() == "true"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be a table as UTF-8 text, and is not: {error}.") from None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    return enumerate(_text(path).split("\n"), 1)  # other line ends may be part of a name


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise ValueError(f"Line {number} of {path} must be an object of JSON, got {line[:80]}.")
    return row


def _vectors(columns: list[list[Any]], where: str) -> Array:
    """Vectors in one column of lists, or in columns of numbers."""
    values: list[Any] = columns[0]
    if len(columns) > 1:
        values = [[np.nan if v is None else v for v in row] for row in zip(*columns, strict=True)]
    rows = []
    for number, value in enumerate(values, 1):
        row = value.tolist() if isinstance(value, np.ndarray) else value
        if isinstance(value, str):  # a cell of a CSV file
            try:
                row = json.loads(value)
            except (ValueError, RecursionError):
                row = None
        if not isinstance(row, list | tuple) or not all(
            type(v) in (int, float) or isinstance(v, np.number) for v in row
        ):
            raise ValueError(
                f"Row {number} of {where} must have a vector as in [0.5, 1.0], got {value!r:.80}."
            )
        rows.append(row)
        if len(row) != len(rows[0]):
            raise ValueError(
                f"The vectors in {where} are not all of one length: {len(rows[0])} in row 1, "
                f"{len(row)} in row {number}."
            )
    try:
        with np.errstate(over="ignore"):  # beyond float32 is infinite, and rejected
            return np.array(rows, dtype=np.float64).astype(np.float32)
    except OverflowError:
        raise ValueError(f"The vectors in {where} hold whole numbers beyond the range of floats.") from None


def _labels(value: Any) -> Any:
    """The label in a cell; a list of labels is written as JSON, as vectors are."""
    if isinstance(value, str) and value.startswith("["):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return found if isinstance(found, list) else value
    return None if value == "" else value


def _path(value: Any, row: int, where: str) -> str:
    value = str(value) if type(value) is int else value
    if not isinstance(value, str) or not value:
        raise ValueError(f"Row {row + 1} of {where} must name a file, got {value!r:.80}.")
    return value.replace("\\", "/").removeprefix("./")
