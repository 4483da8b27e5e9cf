"""A database as one file for others, and for `create`: Parquet, or NumPy's npz.

Both hold the vectors, ``id``, ``label`` (npz: ``y``), ``name``, the codes and every column. Where some items
have several labels, ``label`` is a column of lists; npz has an indicator matrix ``Y`` (n × number of labels)
and ``label_names`` in the place of ``y``. What is missing is null in Parquet; in an npz file an array
``price.missing`` beside ``price`` marks it. A column whose name has a meaning in the file has ``column.``
before it. Ids or labels of which some are numbers and others text are written as JSON, and the file says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sihash._typing import Array
from sihash.database.answers import LabelSet
from sihash.database.snapshot import Snapshot
from sihash.datasets.roles import LABEL_COLUMNS, PREFIX, VECTOR_COLUMNS
from sihash.datasets.vectors import NPZ_OWN
from sihash.store.atomic_file import whole_file
from sihash.store.catalogue import Catalogue
from sihash.store.columns import Column, Table, joined
from sihash.store.errors import DatabaseError
from sihash.store.ids import of_row
from sihash.store.segments import Segment

PARQUET_OWN = ("id", "name", "sha256", "code", *LABEL_COLUMNS, *VECTOR_COLUMNS)
MOST_TEXT = 1 << 30  # bytes of a column of text in an npz file, where every row takes as much as the longest


def export(snapshot: Snapshot, catalogue: Catalogue, path: Path) -> None:
    """Write the living items; ``path`` holds the old file or the new one, whole."""
    writers = {".parquet": _write_parquet, ".npz": _write_npz}
    if path.suffix.lower() not in writers:
        raise DatabaseError(f"The file to export to must end in .parquet or .npz, got {path.name}.")
    try:
        with whole_file(path) as file:
            writers[path.suffix.lower()](snapshot, catalogue, file)
    except OSError as error:
        raise DatabaseError(str(error)) from error


def _parts(snapshot: Snapshot, catalogue: Catalogue) -> Iterator[tuple[Segment, Array, list[Any]]]:
    """Segment after segment: which of its rows live, and what the catalogue says of them."""
    for segment in snapshot.places.segments:
        rows = np.flatnonzero(segment.alive)
        items = list(catalogue.rows_in("items", "id", segment.ids[rows].tolist()))
        if len(items) < len(rows):
            raise catalogue.corrupt("items are missing")
        yield segment, rows, items


def _are_numbers(values: Sequence[Any]) -> bool | None:
    """Whether values are all whole numbers of 64 bits (True), all text (False), or neither (None)."""
    if all(isinstance(value, str) for value in values):
        return False
    return True if all(isinstance(v, int) and -(1 << 63) <= v < 1 << 63 for v in values) else None


def _ids_are_numbers(catalogue: Catalogue, snapshot: Snapshot) -> bool | None:
    """As `_are_numbers`, of the ids of living items."""
    kinds = set()
    for _, _, items in _parts(snapshot, catalogue):
        kinds |= {type(of_row(item[0], item[5])) for item in items}
    return None if len(kinds) > 1 else kinds != {str}


def _own_name(name: str, own: Sequence[str]) -> str:
    """The name of a column in a file where some names have a meaning."""
    taken = name in own or name.startswith(PREFIX) or name.endswith(".missing")
    return f"{PREFIX}{name}" if taken else name


def _label_values(sets: list[LabelSet], lists: bool) -> list[Any]:
    """Labels of items as a column has them: lists, or one each; None for none."""
    return [(list(own) if lists else own[0]) if own else None for own in sets]


def _has_several(snapshot: Snapshot) -> bool:
    """Whether a living item has more than one label."""
    return bool((snapshot.classes.apart(snapshot.places.live_classes())[1] > 1).any())


def _plain(values: list[Any], numbers: bool | None) -> list[Any]:
    """Values as they are, or as JSON where they are of two kinds."""
    if numbers is not None:
        return values
    return [None if v is None else json.dumps(v, ensure_ascii=False) for v in values]


def _write_parquet(snapshot: Snapshot, catalogue: Catalogue, file: BinaryIO) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'sihash[parquet]'.") from None
    numeric_ids = _ids_are_numbers(catalogue, snapshot)
    numeric_labels, lists = _are_numbers(snapshot.classes.labels), _has_several(snapshot)
    kinds = _kinds(snapshot)
    types = {"text": pyarrow.string(), "true or false": pyarrow.bool_(), "whole": pyarrow.int64()}
    text_or_number = {True: pyarrow.int64(), False: pyarrow.string(), None: pyarrow.string()}
    coded = [name for name, kind in (("id", numeric_ids), ("label", numeric_labels)) if kind is None]
    label_type = text_or_number[numeric_labels]
    schema = pyarrow.schema(
        [
            ("id", text_or_number[numeric_ids]),
            ("label", pyarrow.list_(label_type) if lists and numeric_labels is not None else label_type),
            ("name", pyarrow.string()),
            ("sha256", pyarrow.binary(32)),
            ("code", pyarrow.binary(snapshot.n_bytes)),
            ("vector", pyarrow.list_(pyarrow.float32(), snapshot.width)),
            *((_own_name(n, PARQUET_OWN), types.get(kind, pyarrow.float64())) for n, kind in kinds.items()),
        ],
        metadata={
            "n_bits": str(snapshot.n_bits),
            "version": str(snapshot.version),
            "sihash json": " ".join(coded),
        },
    )
    with parquet.ParquetWriter(file, schema) as out:
        for segment, rows, items in _parts(snapshot, catalogue):
            ids = _plain([of_row(item[0], item[5]) for item in items], numeric_ids)
            labels = _plain(_label_values(snapshot.labels(segment.ids[rows]), lists), numeric_labels)
            flat = pyarrow.array(np.ascontiguousarray(segment.vectors[rows]).reshape(-1))
            said = segment.columns.take(rows).columns
            values: list[Any] = [
                ids,
                labels,
                [item[3] for item in items],
                [item[4] for item in items],
                [code.tobytes() for code in segment.codes[rows]],
                pyarrow.FixedSizeListArray.from_arrays(flat, snapshot.width),
                *(said[name].tolist() if name in said else [None] * len(rows) for name in kinds),
            ]
            arrays = [
                v if isinstance(v, pyarrow.Array) else pyarrow.array(v, field.type)
                for v, field in zip(values, schema, strict=True)
            ]
            out.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


def _kinds(snapshot: Snapshot) -> dict[str, str]:
    """Kinds of the columns that living items have; "whole" for numbers that are whole in all segments."""
    kinds: dict[str, str] = {}
    for segment in snapshot.places.segments:
        for name, column in segment.columns.take(segment.alive).columns.items():
            if column.missing.all():
                continue
            kind = "whole" if column.values.dtype == np.int64 else column.kind
            kinds[name] = kind if kinds.get(name, kind) == kind else "number"
    return kinds


def _write_npz(snapshot: Snapshot, catalogue: Catalogue, file: BinaryIO) -> None:
    """``X``, ``y`` or ``Y`` and ``label_names``, ``id``, ``name``, ``codes``, ``n_bits``, and the columns."""
    numbers, ids, names = [np.empty(0, dtype=np.int64)], [], []
    tables: list[Table] = []
    for segment, rows, items in _parts(snapshot, catalogue):
        numbers.append(segment.ids[rows])
        ids += [of_row(item[0], item[5]) for item in items]
        names += [item[3] for item in items]
        tables.append(segment.columns.take(rows))
    every = np.concatenate(numbers)
    numeric_ids = _are_numbers(ids)
    labels = _label_arrays(snapshot, every)
    coded = [*(["id"] if numeric_ids is None else []), *labels.pop("json")]
    arrays: dict[str, Any] = {
        "X": snapshot.vectors(every),
        "id": _texts("id", _plain(ids, numeric_ids)),
        "name": _texts("name", names),
        "codes": snapshot.codes(every),
        "n_bits": np.array(snapshot.n_bits),
        "json": np.array(coded, dtype=str),
    } | labels
    for name, column in joined(tables).columns.items() if tables else ():
        arrays |= _marked(
            _own_name(name, (*NPZ_OWN, "file", "allow_pickle")), _array(name, column), column.missing
        )
    np.savez(file, **arrays)


def _label_arrays(snapshot: Snapshot, ids: Array) -> dict[str, Any]:
    """Labels of items as arrays; ``json`` names those that are coded so."""
    if _has_several(snapshot):
        numbers, table = snapshot.places.classes(ids), snapshot.classes
        present = np.flatnonzero(table.sizes(numbers))
        names: list[Any] = [table.labels[place] for place in present]
        numeric = _are_numbers(names)
        return {
            "Y": table.indicators(numbers)[:, present],
            "label_names": _texts("label_names", _plain(names, numeric)),
            "json": ["label_names"] if numeric is None else [],
        }
    labels = _label_values(snapshot.labels(ids), False)
    numeric = _are_numbers([label for label in labels if label is not None])
    missing: Any = -1 if numeric else ""
    y = [missing if label is None else label for label in _plain(labels, numeric)]
    marked = _marked("y", _texts("y", y), np.array([label is None for label in labels], dtype=bool))
    return {**marked, "json": ["y"] if numeric is None else []}


def _marked(name: str, values: Array, missing: Array) -> dict[str, Array]:
    return {name: values, f"{name}.missing": missing} if missing.any() else {name: values}


def _array(name: str, column: Column) -> Array:
    if column.kind != "text":
        return column.values
    return _texts(name, ["" if value is None else value for value in column.tolist()])


def _texts(name: str, values: list[Any]) -> Array:
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    if 4 * longest * len(values) > MOST_TEXT:
        raise DatabaseError(
            f"Column {name!r} has a text of {longest:,} characters, and an .npz file would give every item "
            "as much room; export to .parquet."
        )
    return np.array(values)
