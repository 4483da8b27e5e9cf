"""A file beside the items that says their labels: CSV, TSV, or an object of JSON per line."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sihash.datasets.roles import FILE_COLUMNS, ColumnChoice
from sihash.datasets.tables import read_cells, read_columns
from sihash.store.errors import DatabaseError
from sihash.store.labels import LabelSet, joined_labels, label_sets, printable

_JSON_LINES = (".jsonl", ".ndjson")


def is_label_file(labels: Any) -> bool:
    """Whether this is the path of a table of names and labels; one column is a label per line, and none."""
    if not isinstance(labels, str | os.PathLike):
        return False
    path = Path(labels).expanduser()
    if path.suffix.lower() not in (".csv", ".tsv", *_JSON_LINES):
        return False
    if not path.is_file():
        raise DatabaseError(f"There is no file of labels at {path}.")
    if path.suffix.lower() in _JSON_LINES:
        return True
    with open(path, "rb") as file:
        return (b"\t" if path.suffix.lower() == ".tsv" else b",") in file.readline()


def labels_by_name(path: Path, names: list[str]) -> list[LabelSet]:
    """The labels of items by their names; items that the file does not name stay unlabelled, and one that it
    names several times has all these labels.

    A full name always counts. Else one name may be the end of the other, as ``1.png`` and ``cat/1.png``, if
    there is only one item and one row that it can mean.
    """
    label_of = _table(path)
    row_of = _rows_of(names, label_of)
    if not row_of:
        raise DatabaseError(
            f"None of the {len(names)} items is named in {path}; its first column names files."
        )
    return [label_of[row_of[name]] if name in row_of else () for name in names]


def columns_by_name(
    path: Path, names: list[str], asked: ColumnChoice
) -> tuple[list[Any] | None, dict[str, list[Any]]]:
    """Ids, if the file has a column of them, and other columns that it has beside file and label.

    For that it needs a header whose first column is ``file``; JSON lines have their names with them.
    """
    lines = path.suffix.lower() in _JSON_LINES
    if not lines and read_cells(path)[0][0].lower() not in FILE_COLUMNS:
        return None, {}
    columns = read_columns(path)
    file, label = ("file", "label") if lines else list(columns)[:2]
    files = [_plain_name(value) for value in columns.pop(file)]
    columns.pop(label)
    row_of = _rows_of(names, dict.fromkeys(files))
    number_of = _first_rows(path, files, columns)
    rows = [number_of[row_of[name]] if name in row_of else None for name in names]
    try:
        id_column = asked.id_column(list(columns), ("id",), str(path))
        chosen = asked.chosen([name for name in columns if name != id_column], str(path))
    except ValueError as error:
        raise DatabaseError(str(error)) from None
    ids = None
    if id_column is not None:
        missing = [name for name, row in zip(names, rows, strict=True) if row is None]
        if missing:
            raise DatabaseError(f"{path} has ids but none for {missing[0]}; then every item needs one.")
        ids = [columns[id_column][row] for row in rows if row is not None]
    values = {name: [None if row is None else columns[name][row] for row in rows] for name in chosen}
    return ids, values


def _first_rows(path: Path, files: list[str], columns: dict[str, list[Any]]) -> dict[str, int]:
    """The row of each file; where it has several, one a label, they must say the same beside it."""
    number_of: dict[str, int] = {}
    for number, name in enumerate(files):
        first = number_of.setdefault(name, number)
        for column, values in columns.items() if first != number else ():
            if values[first] != values[number]:
                raise DatabaseError(
                    f"{path} names {name} in several rows, one a label, and they differ in column "
                    f"{column!r}: {values[first]!r} and {values[number]!r}; make these the same."
                )
    return number_of


def _rows_of(names: list[str], rows: Mapping[str, Any]) -> dict[str, str]:
    """Names of items, and the names of rows that mean them."""
    row_of = {name: name for name in names if name in rows}
    return row_of | _by_ending(
        [name for name in names if name not in row_of], {row for row in rows if row not in row_of}
    )


def _by_ending(names: Iterable[str], rows: set[str]) -> dict[str, str]:
    """Names and the rows that mean them, where each fits no other."""
    longer: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for ending in _endings(row):
            longer[ending].append(row)
    found = {}
    for name in names:
        fitting = longer.get(name, []) + [ending for ending in _endings(name) if ending in rows]
        if len(fitting) == 1:
            found[name] = fitting[0]
    n_names = Counter(found.values())
    return {name: row for name, row in found.items() if n_names[row] == 1}


def _endings(name: str) -> list[str]:
    """``b/1.png`` and ``1.png`` of ``a/b/1.png``."""
    parts = name.split("/")
    return ["/".join(parts[k:]) for k in range(1, len(parts))]


def _table(path: Path) -> dict[str, LabelSet]:
    rows = _rows(path)
    labels_of: dict[str, LabelSet] = {}
    for (file, _), labels in zip(rows, label_sets(value for _, value in rows), strict=True):
        name = _plain_name(file)
        labels_of[name] = joined_labels(labels_of.get(name, ()), labels)
    return labels_of


def _plain_name(file: Any) -> str:
    return printable(str(file)).replace("\\", "/").removeprefix("./")


def _rows(path: Path) -> list[tuple[Any, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() in _JSON_LINES:
            lines = enumerate(text.split("\n"), 1)  # other line ends may be part of a name
            return [_json_row(path, number, line) for number, line in lines if line.strip()]
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DatabaseError(f"{path} must be a table as UTF-8 text, and is not: {error}.") from None
    for row in rows:
        if len(row) < 2:
            raise DatabaseError(f"{path} must have two columns, file and label; got the row {row}.")
    return [(row[0], row[1]) for row in rows]


def _json_row(path: Path, number: int, line: str) -> tuple[Any, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not {"file", "label"} <= row.keys():
        raise DatabaseError(
            f'Line {number} of {path} must be an object with "file" and "label", got {line[:80]}.'
        )
    return row["file"], row["label"]
