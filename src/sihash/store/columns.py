"""Columns: what a source says of its items beside label and name, kept by segment and searched by `where`.

A column holds numbers, texts, or true and false; any value may be missing. Texts are kept as positions among
the distinct ones in their order, so that a comparison of texts is one of whole numbers.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import safetensors.numpy

from sihash._typing import Array
from sihash.store import files
from sihash.store.errors import CorruptFile, DatabaseError
from sihash.store.files import Written
from sihash.store.labels import check_text

Value = str | int | float | bool
ColumnKind = Literal["number", "text", "true or false"]
LONGEST_VALUE = 65_536  # characters of a value
MOST_COLUMNS = 1000  # columns of a database


class Texts(Sequence[str]):
    """Distinct texts in ascending order: their UTF-8 one after the other, and where each begins."""

    def __init__(self, blob: bytes, starts: Array) -> None:
        self.blob, self.starts = blob, starts

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        encoded = sorted(text.encode() for text in set(texts))
        starts = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(each) for each in encoded], out=starts[1:])
        return cls(b"".join(encoded), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, place: Any) -> Any:
        if not 0 <= place < len(self):
            raise IndexError(place)
        return self.blob[self.starts[place] : self.starts[place + 1]].decode()


@dataclass(frozen=True)
class Column:
    """Values (n,), int64, float64, bool or positions in ``texts`` (int32), and which of them are missing."""

    kind: ColumnKind
    values: Array
    missing: Array
    texts: Texts

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, row: int) -> Value | None:
        if self.missing[row]:
            return None
        value = self.values[row].item()
        return self.texts[value] if self.kind == "text" else value

    def take(self, rows: Any) -> Column:
        return Column(self.kind, self.values[rows], self.missing[rows], self.texts)

    def tolist(self) -> list[Value | None]:
        every = list(self.texts) if self.kind == "text" else None
        plain = self.values.tolist() if every is None else [every[k] if every else "" for k in self.values]
        return [None if gone else value for value, gone in zip(plain, self.missing.tolist(), strict=True)]


NO_TEXTS = Texts(b"", np.zeros(1, dtype=np.int64))


def make_column(name: str, values: Sequence[Any]) -> Column:
    """A column of what a caller or a file holds: one kind throughout, None and NaN where there is nothing."""
    array = values if isinstance(values, np.ndarray) else None
    if array is not None and array.ndim == 1 and array.dtype.kind in "iub" and array.dtype != np.uint64:
        kind: ColumnKind = "true or false" if array.dtype.kind == "b" else "number"
        values = array if kind == "true or false" else array.astype(np.int64)
        return Column(kind, values, np.zeros(len(array), dtype=bool), NO_TEXTS)
    plain: list[Any] = [_plain(name, value) for value in values]
    missing = np.array([value is None for value in plain], dtype=bool)
    kinds = {_kind(value): value for value in plain if value is not None}
    if len(kinds) > 1:
        (one, first), (other, second), *_ = kinds.items()
        raise DatabaseError(
            f"Column {name!r} mixes {one} ({_short(first)}) and {other} ({_short(second)}); make it one kind."
        )
    kind = next(iter(kinds), "text")
    if kind == "text":
        texts = Texts.of(value for value in plain if value is not None)
        position = {text: k for k, text in enumerate(texts)}
        places = np.array([0 if value is None else position[value] for value in plain], dtype=np.int32)
        return Column(kind, places, missing, texts)
    filled = [0 if value is None else value for value in plain]
    whole = all(type(value) is int for value in filled)
    dtype: Any = bool if kind == "true or false" else np.int64 if whole else np.float64
    return Column(kind, np.array(filled, dtype=dtype), missing, NO_TEXTS)


def _plain(name: str, value: Any) -> Value | None:
    """A value as a column keeps it: text, number, bool, or None; dates as text, which sorts as they do."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        if math.isinf(value):
            raise DatabaseError(f"Column {name!r} holds an infinite number; leave it empty.")
        return None if math.isnan(value) else value
    if isinstance(value, str):
        if len(value) > LONGEST_VALUE:
            raise DatabaseError(
                f"Values of columns have at most {LONGEST_VALUE:,} characters; column {name!r} has one of "
                f"{len(value):,} that begins with {value[:40]!r}."
            )
        return value if value.isascii() else _whole_characters(name, value)
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise DatabaseError(
                f"Column {name!r} holds {_short(value)}, which does not fit 64 bits; write it as text."
            )
        return value
    if isinstance(value, date | datetime | time):
        return None if value != value else value.isoformat()  # pandas' NaT is a datetime
    if value is None or _is_na(value):
        return None
    raise DatabaseError(
        f"Columns hold numbers, text, dates, or true and false; column {name!r} holds {_short(value)}. "
        "Write it as text, or name the columns to keep (--column, columns=)."
    )


def _is_na(value: Any) -> bool:
    """The NA of pandas, which alone of all values does not say whether it equals itself."""
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


def _whole_characters(name: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DatabaseError(
            f"Column {name!r} holds {value[:50]!r}, which contains half a character; correct it."
        ) from None
    return value


def _kind(value: Value) -> ColumnKind:
    if isinstance(value, bool):
        return "true or false"
    return "text" if isinstance(value, str) else "number"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


@dataclass(frozen=True)
class Table:
    """Columns by name, all of them ``n`` long."""

    n: int
    columns: Mapping[str, Column]

    def take(self, rows: Any) -> Table:
        """The rows at some places, given as an array of places or of bools."""
        columns = {name: column.take(rows) for name, column in self.columns.items()}
        places = np.asarray(rows)
        return Table(int(places.sum()) if places.dtype == bool else len(places), columns)

    def row(self, row: int) -> dict[str, Value]:
        """What is known of one item."""
        found = {name: column[row] for name, column in self.columns.items()}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def kinds(self) -> dict[str, ColumnKind]:
        return {name: column.kind for name, column in self.columns.items()}


def make_table(n: int, columns: Any) -> Table:
    """A table of what a caller or a file gave: anything with names and values, a pandas DataFrame too."""
    given = dict(columns.items())
    if len(given) > MOST_COLUMNS:
        raise DatabaseError(f"A database has at most {MOST_COLUMNS:,} columns, got {len(given):,}.")
    made = {}
    for name, values in given.items():
        if not isinstance(name, str) or not name:
            raise DatabaseError(f"The name of a column must be text, got {name!r}.")
        values = values.tolist() if hasattr(values, "tolist") and not _is_plain(values) else values
        if len(values) != n:
            raise DatabaseError(
                f"Expected one value per item in column {name!r}, got {len(values)} for {n} items."
            )
        column = make_column(check_text(name), values)
        if not column.missing.all():  # else nothing is known, not even its kind
            made[name] = column
    return Table(n, made)


def _is_plain(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind in "iub"


def joined(tables: Sequence[Table]) -> Table:
    """Tables one after the other; a column that one of them lacks is missing there."""
    n = sum(table.n for table in tables)
    names = dict.fromkeys(name for table in tables for name in table.columns)
    return Table(n, {name: _joined_column(name, tables) for name in names})


def _joined_column(name: str, tables: Sequence[Table]) -> Column:
    parts = [table.columns.get(name) for table in tables]
    there = [part for part in parts if part is not None]
    if len(there) == len(tables) and all(part.texts is there[0].texts for part in there):
        values = np.concatenate([part.values for part in there])  # of one source, or all numbers
        return Column(there[0].kind, values, np.concatenate([p.missing for p in there]), there[0].texts)
    values_of = [
        [None] * table.n if part is None else part.tolist() for table, part in zip(tables, parts, strict=True)
    ]
    made = make_column(name, [value for values in values_of for value in values])
    # Of those whose values are all missing nobody would know the kind.
    return replace(made, kind=there[0].kind)


def check_kinds(known: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Refuse columns of another kind than the database has under the same name."""
    for name, kind in new.items():
        if known.get(name, kind) != kind:
            raise DatabaseError(
                f"Column {name!r} holds {_words(known[name])} in the database and {_words(kind)} in the "
                "source; give it another name, or the same kind."
            )
    if len({*known, *new}) > MOST_COLUMNS:
        raise DatabaseError(
            f"A database has at most {MOST_COLUMNS:,} columns; the source would make it more."
        )


def _words(kind: str) -> str:
    return "numbers" if kind == "number" else kind


# The file of a segment.


def write_table(root: Path, number: int, table: Table) -> Written:
    """File of the columns of a segment: safetensors, what they are in its header."""
    tensors: dict[str, Array] = {}
    for k, column in enumerate(table.columns.values()):
        tensors[f"{k}.values"] = np.ascontiguousarray(column.values)
        tensors[f"{k}.missing"] = np.ascontiguousarray(column.missing)
        if column.kind == "text":
            used = _only_used(column)
            tensors[f"{k}.values"] = used.values
            tensors[f"{k}.text"] = np.frombuffer(used.texts.blob, dtype=np.uint8)
            tensors[f"{k}.starts"] = used.texts.starts
    about = [{"name": name, "kind": column.kind} for name, column in table.columns.items()]
    header = {"n": str(table.n), "columns": json.dumps(about)}
    blob = safetensors.numpy.save(tensors, metadata=header)
    return files.write_bytes(
        root, files.unique_name(f"{files.SEGMENTS_FOLDER}/{number:06d}.columns", "safetensors"), [blob]
    )


def _only_used(column: Column) -> Column:
    """The same texts without those that no row has."""
    used = np.unique(column.values[~column.missing])
    if len(used) == len(column.texts):
        return column
    texts = Texts.of(column.texts[k] for k in used.tolist())
    places = np.searchsorted(used, column.values).astype(np.int32)
    places[column.missing] = 0
    return Column(column.kind, places, column.missing, texts)


def read_table(root: Path, file: Written) -> Table:
    """The columns of a segment, after every byte has been checked."""
    blob = files.read_checked(root, file)
    try:
        tensors = safetensors.numpy.load(blob)
        header = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])["__metadata__"]
        about, n = json.loads(header["columns"]), int(header["n"])
        columns = {}
        for k, each in enumerate(about):
            texts = NO_TEXTS
            if each["kind"] == "text":
                texts = Texts(tensors[f"{k}.text"].tobytes(), tensors[f"{k}.starts"])
            columns[each["name"]] = Column(
                each["kind"], tensors[f"{k}.values"], tensors[f"{k}.missing"], texts
            )
        return Table(n, columns)
    except (ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise CorruptFile(f"{root / file.path} does not hold columns as they are written: {error}.") from None


def first_not_less(texts: Texts, value: str) -> int:
    """The place of the first text that is not less than ``value``."""
    return bisect_left(texts, value)
