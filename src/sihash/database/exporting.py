"""A database as one file for others: Parquet, or NumPy's npz."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sihash._typing import Array
from sihash.database.catalogue import Catalogue
from sihash.database.errors import DatabaseError
from sihash.database.segments import Segment
from sihash.database.snapshot import Snapshot
from sihash.wholefile import whole_file


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


def _are_numbers(snapshot: Snapshot) -> bool:
    """Whether all labels fit a column of numbers; otherwise all are written as text."""
    return all(
        isinstance(label, int) and -(1 << 63) <= label < 1 << 63 for label in snapshot.classes.values()
    )


def _write_parquet(snapshot: Snapshot, catalogue: Catalogue, file: BinaryIO) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'sihash[parquet]'.") from None
    numbers = _are_numbers(snapshot)
    label_kind = pyarrow.int64() if numbers else pyarrow.string()
    schema = pyarrow.schema(
        [
            ("id", pyarrow.int64()),
            ("label", label_kind),
            ("name", pyarrow.string()),
            ("sha256", pyarrow.binary(32)),
            ("code", pyarrow.binary(snapshot.n_bytes)),
            ("vector", pyarrow.list_(pyarrow.float32(), snapshot.width)),
        ],
        metadata={"n_bits": str(snapshot.n_bits), "version": str(snapshot.version)},
    )
    with parquet.ParquetWriter(file, schema) as out:
        for segment, rows, items in _parts(snapshot, catalogue):
            labels = snapshot.labels(segment.ids[rows])
            flat = pyarrow.array(np.ascontiguousarray(segment.vectors[rows]).reshape(-1))
            columns = [
                pyarrow.array(segment.ids[rows]),
                pyarrow.array(
                    labels if numbers else [None if v is None else str(v) for v in labels], label_kind
                ),
                pyarrow.array([item[3] for item in items], pyarrow.string()),
                pyarrow.array([item[4] for item in items], pyarrow.binary(32)),
                pyarrow.array(
                    [code.tobytes() for code in segment.codes[rows]], pyarrow.binary(snapshot.n_bytes)
                ),
                pyarrow.FixedSizeListArray.from_arrays(flat, snapshot.width),
            ]
            out.write_table(pyarrow.Table.from_arrays(columns, schema=schema))


def _write_npz(snapshot: Snapshot, catalogue: Catalogue, file: BinaryIO) -> None:
    """``X``, ``y``, ``ids``, ``names``, ``codes``, ``n_bits``; ``y`` of an unlabelled item is "" or −1."""
    ids, labels, names = [], [], []
    for segment, rows, items in _parts(snapshot, catalogue):
        ids.append(segment.ids[rows])
        labels += snapshot.labels(segment.ids[rows])
        names += [item[3] for item in items]
    numbers = _are_numbers(snapshot)
    missing: Any = -1 if numbers else ""
    y = np.array([missing if label is None else label if numbers else str(label) for label in labels])
    every = np.concatenate([np.empty(0, dtype=np.int64), *ids])
    np.savez(
        file,
        X=snapshot.vectors(every),
        y=y,
        ids=every,
        names=np.array(names, dtype=str),
        codes=snapshot.codes(every),
        n_bits=np.array(snapshot.n_bits),
    )
