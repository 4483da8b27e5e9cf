"""Tables as text: CSV, TSV, or an object of JSON per line. Each row is an item: a vector, or the path of an
image.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.datasets.dataset import Collection, ColumnChoice
from sihash.datasets.files import MAX_FILE
from sihash.datasets.vectors import LABEL_COLUMNS, VECTOR_COLUMNS, fingerprint
from sihash.features.images import BadImage
from sihash.labels import object_array

JSON_LINES = (".jsonl", ".ndjson")
TEXTS = (".csv", ".tsv", *JSON_LINES)
FILE_COLUMNS = ("file", "filename", "path", "image")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def is_table(path: Path) -> bool:
    return path.suffix.lower() in TEXTS


def read(path: Path, label: str | None, asked: ColumnChoice) -> Collection:
    """The items of a table that has a column of vectors (lists of numbers), or of files beside the table."""
    columns = read_columns(path)
    n = len(next(iter(columns.values()), []))
    if not n:
        raise ValueError(f"{path} has no rows below its header; expected an item per row.")
    if label is not None and label not in columns:
        raise ValueError(f"{path} has no column {label!r}; it has {', '.join(columns)}.")
    label = label or next((name for name in LABEL_COLUMNS if name in columns), None)
    vector = next((name for name in VECTOR_COLUMNS if name in columns), None)
    file = None if vector else next((name for name in FILE_COLUMNS if name in columns), None)
    if vector is None and file is None:
        raise ValueError(
            f"{path} needs a column of vectors ({', '.join(VECTOR_COLUMNS)}) or of image files "
            f"({', '.join(FILE_COLUMNS)}); it has {', '.join(columns)}."
        )
    usual = [name for name in ("id",) if name != label]
    id_column = asked.id_column([name for name in columns if name != vector], usual, str(path))
    files = None if file is None else [_path(value, k, path) for k, value in enumerate(columns[file])]
    name = "name" if files is None and "name" in columns and label != "name" else None
    rest = [each for each in columns if each not in (label, vector, file, id_column, name)]
    return Collection(
        "a table of vectors" if files is None else "a table of files",
        _vectors(columns[vector], path) if vector else _contents(path.parent, files or []),
        None if label is None else object_array([_labels(v) for v in columns[label]]),
        np.zeros(n, dtype=bool),
        lambda: fingerprint(path),
        names=files if name is None else ["" if v is None else str(v) for v in columns[name]],
        ids=columns[id_column] if id_column else files,
        ids_said=id_column is not None,
        columns={each: columns[each] for each in asked.chosen(rest, str(path))},
    )


def read_columns(path: Path) -> dict[str, list[Any]]:
    """The columns of a table by name; of a CSV or TSV file, cells as the numbers and so on that they are."""
    if path.suffix.lower() in JSON_LINES:
        rows = [_object(path, number, line) for number, line in _lines(path) if line.strip()]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return {name: [row.get(name) for row in rows] for name in names}
    head, *cells = read_cells(path) or [[]]
    if len(set(head)) < len(head) or "" in head:
        raise ValueError(f"{path} must begin with a row of different names of columns, got {head[:10]}.")
    for number, row in enumerate(cells, 2):
        if len(row) != len(head):
            raise ValueError(f"Row {number} of {path} has {len(row)} cells where the header has {len(head)}.")
    return {name: typed([row[k] for row in cells]) for k, name in enumerate(head)}


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


def _vectors(values: list[Any], path: Path) -> Array:
    rows = []
    for number, value in enumerate(values, 1):
        row = value
        if isinstance(value, str):  # a cell of a CSV file
            try:
                row = json.loads(value)
            except (ValueError, RecursionError):
                row = None
        if not isinstance(row, list) or not all(type(v) in (int, float) for v in row):
            raise ValueError(
                f"Row {number} of {path} must have a vector as in [0.5, 1.0], got {value!r:.80}."
            )
        rows.append(row)
        if len(row) != len(rows[0]):
            raise ValueError(
                f"The vectors in {path} are not all of one length: {len(rows[0])} in row 1, "
                f"{len(row)} in row {number}."
            )
    try:
        with np.errstate(over="ignore"):  # beyond float32 is infinite, and rejected
            return np.array(rows, dtype=np.float64).astype(np.float32)
    except OverflowError:
        raise ValueError(f"The vectors in {path} hold whole numbers beyond the range of floats.") from None


def _labels(value: Any) -> Any:
    """The label in a cell; a list of labels is written as JSON, as vectors are."""
    if isinstance(value, str) and value.startswith("["):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return found if isinstance(found, list) else value
    return None if value == "" else value


def _path(value: Any, row: int, path: Path) -> str:
    value = str(value) if type(value) is int else value
    if not isinstance(value, str) or not value:
        raise ValueError(f"Row {row + 1} of {path} must name a file, got {value!r:.80}.")
    return value.replace("\\", "/").removeprefix("./")


def _contents(folder: Path, names: list[str]) -> Iterator[bytes | BadImage]:
    for name in names:
        try:
            if not (folder / name).is_file():  # a pipe or a device would block for ever
                raise OSError(2, "no such file")
            if (folder / name).stat().st_size > MAX_FILE:
                raise OSError(27, f"larger than the {MAX_FILE >> 20} MiB allowed")
            yield (folder / name).read_bytes()
        except OSError as error:
            yield BadImage(f"cannot be read: {error.strerror}")
