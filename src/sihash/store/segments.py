"""Segments: the rows, vectors and codes of items that came together, in files that never change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sihash._typing import Array
from sihash.store import files
from sihash.store.columns import Table, Value, joined, read_table
from sihash.store.errors import CorruptFile
from sihash.store.files import MappedArray, Written

BYTES = 64 << 20  # vectors in one segment


@dataclass(eq=False)
class Segment:
    """Items in the order of their ids (n,): class numbers (−1: unlabelled), sketches, vectors, packed codes.

    ``operations`` are the numbers of those that brought each item. ``alive`` says which of them are part of
    the collection, and ``classes`` are their labels, at the moment of a `sihash.store.state.State`. ``codes``
    were made by ``code_version``, which may be older than the version in force; 0 where there are none.
    """

    root: Path
    number: int
    operations: Array
    rows: Array
    features: Written
    codes: Array
    alive: Array
    columns_file: Written | None = None
    code_version: int = 0

    @cached_property
    def columns(self) -> Table:
        """What the source said of the items beside their labels."""
        if self.columns_file is None:
            return Table(len(self.ids), {})
        return read_table(self.root, self.columns_file)

    @cached_property
    def ids(self) -> Array:
        return np.ascontiguousarray(self.rows["id"])

    @cached_property
    def classes(self) -> Array:
        """Class numbers; items that were relabelled have others than in ``rows``."""
        return self.rows["class"].copy()

    @cached_property
    def span(self) -> tuple[int, int]:
        """The first and the last operation that brought items."""
        return int(self.operations.min()), int(self.operations.max())

    def hold(self) -> None:
        """Keep hold of the files, whoever deletes them: they are mapped, or in memory."""
        _ = self.vectors, self.columns

    @property
    def is_relabelled(self) -> bool:
        return not np.array_equal(self.classes, self.rows["class"])

    @property
    def rows_now(self) -> Array:
        """The rows with the labels of now in them."""
        return make_rows(self.ids, self.classes, self.sketches)

    @property
    def sketches(self) -> Array:
        """The first bytes of the sketches are for finding candidates, all of them for cosines."""
        return self.rows["sketch"]

    @cached_property
    def vectors(self) -> Array:
        """Mapped: who reads rows has them checked."""
        return MappedArray(self.root, self.features)  # type: ignore[return-value]  # it gives rows as one does

    def sketch(self, sketches: Array) -> None:
        """Let a segment that is not written yet have these sketches."""
        self.rows = make_rows(self.ids, self.rows["class"], sketches)

    def release(self) -> None:
        """Give back the memory of the vectors that were read."""
        if isinstance(self.__dict__.get("vectors"), MappedArray):
            self.__dict__["vectors"].release()


def in_memory(root: Path, operations: Array, rows: Array, vectors: Array, columns: Table) -> Segment:
    """A segment that is not written yet: it has no number, no files and no codes."""
    no_codes, alive = np.empty((len(rows), 0), dtype=np.uint8), np.ones(len(rows), dtype=bool)
    segment = Segment(root, 0, operations, rows, Written("", 0, b""), no_codes, alive)
    segment.vectors, segment.columns = vectors, columns
    return segment


def joined_in_memory(parts: Sequence[Segment]) -> Segment:
    """Segments in memory that follow each other as one."""
    if len(parts) == 1:
        return parts[0]
    operations, rows, vectors = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("operations", "rows", "vectors")
    )
    columns = joined([part.columns for part in parts])
    return in_memory(parts[0].root, operations, rows, vectors, columns)


def without(segments: Sequence[Segment], ids: Array) -> list[Segment]:
    """Segments in which some items are not alive; the segments given stay as they are."""
    out = list(segments)
    for segment, _, rows in Places(segments).find(ids):
        changed = out[out.index(segment)] = copy(segment)
        changed.alive = segment.alive.copy()
        changed.alive[rows] = False
    return out


def rows_of(width: int) -> int:
    """How many vectors of ``width`` numbers make a segment."""
    return max(1, BYTES // (4 * width))


def write_vectors(root: Path, number: int, blocks: Sequence[Array]) -> Written:
    """File of the vectors of a new segment."""
    shape = (sum(map(len, blocks)), blocks[0].shape[1])
    name = files.unique_name(f"{files.SEGMENTS_FOLDER}/{number:06d}.vectors", files.MAPPED)
    return files.write_mapped(root, name, shape, np.float32, blocks)


def write_rows(root: Path, number: int, rows: Array) -> Written:
    """File of what is known of each item of a segment."""
    name = files.unique_name(f"{files.SEGMENTS_FOLDER}/{number:06d}.rows", files.MAPPED)
    return files.write_mapped(root, name, rows.shape, rows.dtype, [rows])


def write_operations(root: Path, number: int, operations: Array) -> Written:
    """File of the operations that brought the items of a segment, where they are several."""
    name = files.unique_name(f"{files.SEGMENTS_FOLDER}/{number:06d}.operations", "npy")
    return files.write_array(root, name, operations.shape, np.int64, [operations])


def make_rows(ids: Array, classes: Array, sketches: Array) -> Array:
    row = [("id", "<i8"), ("class", "<i4"), ("sketch", "u1", (sketches.shape[1],))]
    rows = np.empty(len(ids), dtype=row)
    rows["id"], rows["class"], rows["sketch"] = ids, classes, sketches
    return rows


def write_codes(root: Path, number: int, version: int, codes: Array) -> Written:
    """File of the packed codes that one model version gives to the items of a segment."""
    name = files.unique_name(f"{files.SEGMENTS_FOLDER}/{number:06d}.codes.v{version:06d}", "npy")
    return files.write_array(root, name, codes.shape, np.uint8, [codes])


class Places:
    """Where items are: segments, given in the order of their ids."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.become(segments)

    def become(self, segments: Sequence[Segment]) -> None:
        """Let these be the segments from now on."""
        self.segments = list(segments)
        self._first = np.array([segment.ids[0] for segment in self.segments], dtype=np.int64)

    def find(self, ids: Array) -> list[tuple[Segment, Array, Array]]:
        """For each segment that holds some: ``(segment, places in ids, rows)``. Unknown ids are in none."""
        ids = np.asarray(ids, dtype=np.int64)
        if not len(self.segments) or not len(ids):
            return []
        number = self._first.searchsorted(ids, side="right") - 1
        found = []
        for k in sorted(set(number.tolist()) - {-1}):
            segment = self.segments[k]
            places = np.flatnonzero(number == k)
            rows = segment.ids.searchsorted(ids[places])
            rows[rows == len(segment.ids)] = 0
            there = segment.ids[rows] == ids[places]
            found.append((segment, places[there], rows[there]))
        return found

    def alive(self, ids: Array) -> Array:
        """Which ids are part of the collection now."""
        out = np.zeros(len(ids), dtype=bool)
        for segment, places, rows in self.find(ids):
            out[places] = segment.alive[rows]
        return out

    def codes(self, ids: Array, n_bytes: int) -> Array:
        """Packed codes of items, in the order of ``ids``."""
        out = np.empty((len(ids), n_bytes), dtype=np.uint8)
        for segment, places, rows in self.find_all(ids):
            out[places] = segment.codes[rows]
        return out

    def vectors(self, ids: Array, width: int, release: bool = False) -> Array:
        """Vectors of items, in the order of ``ids``; of removed ones too, until a compaction drops them.

        With ``release`` the memory of what was read is given back, segment after segment.
        """
        out = np.empty((len(ids), width), dtype=np.float32)
        for segment, places, rows in self.find_all(ids):
            out[contiguous(places)] = segment.vectors[contiguous(rows)]
            if release:
                segment.release()
        return out

    def classes(self, ids: Array) -> Array:
        """Class numbers of items, −1 where they have no label."""
        out = np.empty(len(ids), dtype=np.int64)
        for segment, places, rows in self.find_all(ids):
            out[places] = segment.classes[rows]
        return out

    def columns(self, ids: Array) -> list[dict[str, Value]]:
        """What the columns say of items, in the order of ``ids``."""
        out: list[dict[str, Value]] = [{}] * len(ids)
        for segment, places, rows in self.find_all(ids):
            if segment.columns.columns:
                for place, row in zip(places.tolist(), rows.tolist(), strict=True):
                    out[place] = segment.columns.row(row)
        return out

    def sketches(self, ids: Array, n_bytes: int) -> Array:
        """The first bytes of the sketches of items, in the order of ``ids``."""
        out = np.empty((len(ids), n_bytes), dtype=np.uint8)
        for segment, places, rows in self.find_all(ids):
            out[places] = segment.sketches[rows, :n_bytes]
        return out

    def find_all(self, ids: Array) -> list[tuple[Segment, Array, Array]]:
        """As `find`; raises `CorruptFile` unless every id is found."""
        found = self.find(ids)
        if sum(len(rows) for _, _, rows in found) < len(ids):
            raise CorruptFile(
                "The segments do not hold all items that are asked for; verify tells what is wrong."
            )
        return found

    def only(self, ids: Array, vectors: Array) -> Places:
        """Some items (ids ascending) whose vectors are at hand, in one segment in memory."""
        found = self.find_all(ids)
        rows = make_rows(ids, self.classes(ids), self.sketches(ids, found[0][0].sketches.shape[1]))
        codes = np.empty((len(ids), found[0][0].codes.shape[1]), dtype=np.uint8)
        for segment, places, own in found:
            codes[places] = segment.codes[own]
        first = found[0][0]
        no_operations = np.zeros(len(ids), dtype=np.int64)
        one = Segment(first.root, 0, no_operations, rows, first.features, codes, self.alive(ids))
        one.vectors = vectors
        return Places([one])

    def live_ids(self) -> Array:
        """Ids of the collection, ascending."""
        return self._live(lambda segment: segment.ids)

    def live_classes(self) -> Array:
        """Class numbers of the collection, in the order of `live_ids`."""
        return self._live(lambda segment: segment.classes)

    def _live(self, column: Callable[[Segment], Array]) -> Array:
        parts = [column(segment)[segment.alive] for segment in self.segments]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def contiguous(numbers: Array) -> Array | slice:
    """Ascending numbers without a gap as a slice, which numpy copies many times faster."""
    n = len(numbers)
    whole = n and numbers[-1] - numbers[0] == n - 1 and (np.diff(numbers) == 1).all()
    return slice(int(numbers[0]), int(numbers[-1]) + 1) if whole else numbers
