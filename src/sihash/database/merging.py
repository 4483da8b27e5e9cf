"""Two databases of one model become a third: the first compacted, and what the second has beside it.

Items of the first keep their numbers, for the model is learned from rows under these; those of the second are
numbered behind them. Ids of users stay what they are. The new database has one operation, its creation, and
comes about as every creation does: whole, or not at all.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sihash._typing import Array, Progress
from sihash.database.answers import Id, MergeReport
from sihash.database.intake import Collected, Present
from sihash.database.operations import sketch_all
from sihash.database.snapshot import Snapshot
from sihash.database.updating import training_ids
from sihash.store import files, segments
from sihash.store.catalogue import SqlRow
from sihash.store.columns import check_kinds
from sihash.store.errors import DatabaseError
from sihash.store.ids import of_row
from sihash.store.labels import LabelTable, to_json
from sihash.store.segments import Segment
from sihash.store.writer import Writer, new_folder, writing

SERVED = "milvus+"  # before an index on a server, which two databases must not share
OWN_INDEX = "exact"


def merge(root: Path, first: Snapshot, second: Snapshot, progress: Progress) -> MergeReport:
    """Write a new database at ``root`` with the items of both."""
    _check_alike(first, second)
    with new_folder(root), writing(root, create=True) as writer:
        if writer.catalogue.last_operation():
            raise DatabaseError(f"{root} already holds a database; choose another folder.")
        writer.catalogue.lay_out()
        meta = dict(first.meta)
        meta["index"] = OWN_INDEX if meta["index"].startswith(SERVED) else meta["index"]
        writer.catalogue.insert("meta", [(key, json.dumps(value)) for key, value in meta.items()])
        writer.catalogue.insert("classes", [(n, to_json(own)) for n, own in enumerate(first.classes.sets)])
        merging = _Merging(writer, first, LabelTable(writer.catalogue.rows("classes")))
        learned = training_ids(first.root, first.catalogue, first.version)
        for k, segment in enumerate(first.places.segments):
            progress("merging", k / (len(first.places.segments) + len(second.places.segments)))
            merging.copy(first, segment, segment.alive | np.isin(segment.ids, learned))
        merging.next_number = max(first.log.next_id, second.log.next_id)
        there = _There(first)
        for k, segment in enumerate(second.places.segments, len(first.places.segments)):
            progress("merging", k / (len(first.places.segments) + len(second.places.segments)))
            merging.copy(second, segment, there.lacks(second, segment), renumbered=True)
        writer.insert_removed(np.array(merging.dead, dtype=np.int64))
        for kind, version, file in _copied_models(first, root):
            writer.adopt(kind, file, version=version)
        writer.catalogue.make_indexes()
        writer.commit("create", first.version, _details(first, second, merging, there))
        progress("merging", 1.0)
    return MergeReport(first.version, first.n_items, merging.n_renumbered, there.skipped)


def _check_alike(first: Snapshot, second: Snapshot) -> None:
    """Refuse databases whose codes mean different things."""
    if first.model != second.model:
        what = "its vectors (sihash export, sihash add)" if first.holds_vectors else "its images (sihash add)"
        raise DatabaseError(
            f"{first.root} and {second.root} were learned apart, so their codes cannot be compared; add the "
            f"items of one to the other by {what}, then update it."
        )
    if first.meta["features"] != second.meta["features"]:
        raise DatabaseError(f"{first.root} and {second.root} describe images in different ways.")
    check_kinds(first.log.columns, second.log.columns)


@dataclass
class _Merging:
    """A database in the making: how its classes are numbered, and what it has got so far."""

    writer: Writer
    first: Snapshot
    table: LabelTable
    next_number: int = 0
    n_renumbered: int = 0
    dead: list[int] = field(default_factory=list)

    def copy(self, source: Snapshot, segment: Segment, rows: Array, renumbered: bool = False) -> None:
        """Copy some rows of a segment with all that belongs to them."""
        if not rows.any():
            return
        items = segment.rows_now[rows]
        alive = segment.alive[rows]
        if renumbered:
            items["id"] = self.next_number + np.arange(len(items))
            self.next_number += len(items)
            self.n_renumbered += len(items)
        items["class"] = self._class_numbers(source, items["class"])
        if not np.array_equal(source.sketcher.to_array(), self.first.sketcher.to_array()):
            sketches = sketch_all(self.first.sketcher, segment.vectors[rows])
            items = segments.make_rows(items["id"], items["class"], sketches)
        new = self.writer.new_segment(items, [segment.vectors[rows]])
        self.writer.write_codes(new.number, self.first.version, segment.codes[rows])
        self.writer.add_columns(new, segment.columns.take(rows))
        old = segment.ids[rows][alive].tolist()
        number_of = dict(zip(old, items["id"][alive].tolist(), strict=True))
        self._copy_rows(source, number_of, dict(zip(old, items["class"][alive].tolist(), strict=True)))
        self.dead += items["id"][~alive].tolist()

    def _class_numbers(self, source: Snapshot, numbers: Array) -> Array:
        """Numbers of the same labels here; new labels are taken up."""
        distinct, which = np.unique(numbers, return_inverse=True)
        sets = [source.classes[number] for number in distinct.tolist()]
        return np.array(self.writer.class_numbers(sets, self.table))[which.reshape(-1)]

    def _copy_rows(self, source: Snapshot, number_of: dict[int, int], class_of: dict[int, int]) -> None:
        """Rows of the catalogue of living items."""
        operation = self.writer.operation

        def items() -> Iterator[SqlRow]:
            for row in _rows(source, list(number_of)):
                own = class_of[row[0]]
                yield (number_of[row[0]], operation, None if own < 0 else own, *row[3:])

        self.writer.catalogue.insert("items", items())
        pictures = source.catalogue.rows_in("thumbnails", "id", list(number_of))
        self.writer.catalogue.insert("thumbnails", ((number_of[n], image) for n, image in pictures))


def _rows(source: Snapshot, numbers: list[int]) -> list[SqlRow]:
    rows = list(source.catalogue.rows_in("items", "id", numbers))
    if len(rows) < len(numbers):
        raise source.catalogue.corrupt("items are missing")
    return rows


class _There:
    """What the first database has of the second: under the same id, or, of items without one, the same.

    Of equal vectors each is an item, so one of the first stands for one of the second.
    """

    def __init__(self, first: Snapshot) -> None:
        self._first = first
        self._known = Collected(first.catalogue, first.places, first.classes)
        self._paired: set[int] = set()  # numbers in the first that stand for vectors of the second
        self.skipped: list[Id] = []

    def lacks(self, second: Snapshot, segment: Segment) -> Array:
        """Which rows of a segment are to be taken over; ids that mean two different items are refused."""
        out = segment.alive.copy()
        places = np.flatnonzero(segment.alive)
        rows = _rows(second, segment.ids[places].tolist())
        columns, labels = second.places.columns(segment.ids[places]), second.labels(segment.ids[places])
        under = self._known.under([of_row(row[0], row[5]) for row in rows if row[5] is not None])
        alike = self._by_content([row[4] for row in rows if row[5] is None])
        for place, row, own_labels, said in zip(places.tolist(), rows, labels, columns, strict=True):
            own = of_row(row[0], row[5])
            if row[5] is not None:
                others = [under[own]] if own in under else []
            else:
                others = [each for each in alike.get(row[4], []) if each.number not in self._paired]
            mine = (row[4], own_labels, said)
            same = [each for each in others if mine == (each.content, each.labels, each.columns)]
            if same:
                if row[5] is None and second.holds_vectors:
                    self._paired.add(row[0] if row[0] in [each.number for each in same] else same[0].number)
                out[place] = False
                self.skipped.append(own)
            elif row[5] is None and second.holds_vectors and row[0] not in [each.number for each in others]:
                continue
            elif others:
                what = f"with the id {own!r}" if row[5] is not None else f"like {row[3]!r} (id {own!r})"
                raise DatabaseError(
                    f"Both databases have an item {what}, and the two differ in content, label or columns; "
                    "remove one of them, or make them the same, and merge again."
                )
        return out

    def _by_content(self, contents: list[bytes]) -> dict[bytes, list[Present]]:
        """The items of the first database that have these contents."""
        first = self._first
        rows = list(first.catalogue.rows_in("items", "content", contents))
        numbers = np.array([row[0] for row in rows], dtype=np.int64)
        alive = first.places.alive(numbers)
        columns, labels = first.places.columns(numbers[alive]), first.labels(numbers[alive])
        living = [row for row, lives in zip(rows, alive, strict=True) if lives]
        out: dict[bytes, list[Present]] = defaultdict(list)
        for row, own_labels, said in zip(living, labels, columns, strict=True):
            out[row[4]].append(Present(row[0], of_row(row[0], row[5]), row[4], own_labels, said))
        return out


def _copied_models(source: Snapshot, root: Path) -> Iterator[tuple[str, int | None, files.Written]]:
    """Copies of what the version in force consists of, beside the segments."""
    where = "segment IS NULL AND (version IS NULL OR version = ?)"
    for kind, _, version, file in source.catalogue.files(where, (source.version,)):
        ending = file.path.rpartition(".")[2]
        name = files.unique_name(f"{files.MODELS_FOLDER}/{version or 0:06d}.{kind}", ending)
        yield kind, version, files.write_bytes(root, name, [files.read_checked(source.root, file)])


def _details(first: Snapshot, second: Snapshot, merging: _Merging, there: _There) -> dict[str, Any]:
    return {
        **first.log.learned(first.version).details,
        "words": first.version,
        "first_new": merging.next_number,
        "first_id": 0,
        "n_added": merging.next_number,
        "place": None,
        "n_skipped": len(there.skipped),
        "n_rejected": 0,
        "n_replaced": 0,
        "largest_id": max(first.log.next_id, second.log.next_id) - 1,
        "columns": first.log.columns | second.log.columns,
    }
