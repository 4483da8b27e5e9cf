"""Segments: the vectors and codes of items that came together, in files that never change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sihash._typing import Array
from sihash.database import files
from sihash.database.errors import CorruptFile
from sihash.database.files import Written

BYTES = 64 << 20  # vectors in one segment: what is checked before the first of them is used
FOLDER = "segments"


@dataclass
class Segment:
    """Items in the order of their ids (n,), their vectors (n × d, float32) and their packed codes.

    ``alive`` says which of them are part of the collection now; it is the only thing that changes. ``codes``
    are those of the model version that the holder of the segment works with.
    """

    root: Path
    number: int
    operation: int
    ids: Array
    features: Written
    codes: Array
    alive: Array

    @cached_property
    def vectors(self) -> Array:
        """Memory-mapped, after every byte has been checked."""
        return files.map_array(self.root, self.features)


def rows_of(width: int) -> int:
    """How many vectors of ``width`` numbers make a segment."""
    return max(1, BYTES // (4 * width))


def write_rows(root: Path, number: int, ids: Array, blocks: Sequence[Array]) -> tuple[Written, Written]:
    """Files of a new segment: its ids, its vectors."""
    stem = f"{FOLDER}/{number:06d}"
    n, width = len(ids), blocks[0].shape[1]
    return (
        files.write_array(root, files.unique_name(f"{stem}.ids", "npy"), (n,), np.int64, [ids]),
        files.write_array(root, files.unique_name(f"{stem}.vectors", "npy"), (n, width), np.float32, blocks),
    )


def write_codes(root: Path, number: int, version: int, codes: Array) -> Written:
    """File of the packed codes that one model version gives to the items of a segment."""
    name = files.unique_name(f"{FOLDER}/{number:06d}.codes.v{version:06d}", "npy")
    return files.write_array(root, name, codes.shape, np.uint8, [codes])


class Places:
    """Where items are: segments in the order of their ids."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = sorted(segments, key=lambda segment: int(segment.ids[0]))
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
        for segment, places, rows in self._find_all(ids):
            out[places] = segment.codes[rows]
        return out

    def vectors(self, ids: Array, width: int) -> Array:
        """Vectors of items, in the order of ``ids``; of removed ones too, until a compaction drops them."""
        out = np.empty((len(ids), width), dtype=np.float32)
        for segment, places, rows in self._find_all(ids):
            out[_run(places)] = segment.vectors[_run(rows)]
        return out

    def _find_all(self, ids: Array) -> list[tuple[Segment, Array, Array]]:
        found = self.find(ids)
        if sum(len(rows) for _, _, rows in found) < len(ids):
            raise CorruptFile(
                "The segments do not hold all items that are asked for; verify tells what is wrong."
            )
        return found

    def live_ids(self) -> Array:
        """Ids of the collection, ascending."""
        parts = [segment.ids[segment.alive] for segment in self.segments]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _run(numbers: Array) -> Array | slice:
    """Ascending numbers without a gap as a slice, which numpy copies many times faster."""
    n = len(numbers)
    whole = n and numbers[-1] - numbers[0] == n - 1 and (np.diff(numbers) == 1).all()
    return slice(int(numbers[0]), int(numbers[-1]) + 1) if whole else numbers
