"""A database as one reader sees it: everything of one moment, in memory, ready to answer."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.codes import n_bytes
from sihash.database import files
from sihash.database.answers import Label
from sihash.database.catalogue import Catalogue, Operation
from sihash.database.errors import DatabaseError, NoSuchItem
from sihash.database.ranking import codes_and_sketches, make_ranker, n_bits_near
from sihash.database.segments import Places, Segment
from sihash.database.served import ServedIndex
from sihash.database.shared import SharedLock
from sihash.database.texts import plain_label
from sihash.hashing.hash_functions import HashFunctions
from sihash.index import CodeIndex, open_index
from sihash.ranking import Ranker, Sketcher, Weights


class Log:
    """What follows from the operations alone; ``last`` is the latest of them."""

    last: Operation

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations: dict[int, Operation] = {}
        self.undone: set[int] = set()
        for operation in operations:
            self.append(operation)

    def append(self, operation: Operation) -> None:
        self.operations[operation.number] = self.last = operation
        if operation.kind == "undo" and operation.target is not None:
            self.undone.add(operation.target)

    @property
    def next_id(self) -> int:
        """Ids are never given twice, not even those of undone additions."""
        stops = (o.details["first_id"] + o.details["n_added"] for o in self.of_kind("create", "add"))
        return max(stops, default=0)

    @property
    def next_version(self) -> int:
        return max(o.version for o in self.operations.values()) + 1

    def of_kind(self, *kinds: str) -> list[Operation]:
        return [o for o in self.operations.values() if o.kind in kinds]

    def undoable(self) -> Operation | None:
        """The last operation that can be taken back: none before a compaction or the creation."""
        for number in sorted(self.operations, reverse=True):
            operation = self.operations[number]
            if operation.kind in ("create", "compact"):
                return None
            if operation.kind != "undo" and number not in self.undone:
                return operation
        return None

    def version_before(self, number: int) -> int:
        """The model version in force just before an operation."""
        return self.operations[number - 1].version


class Snapshot:
    """Segments with the codes of one model version, its hash functions and an index over what is alive.

    ``lock`` is held by searches together, and alone by `advance`.
    """

    def __init__(self, root: Path, catalogue: Catalogue) -> None:
        self.lock = SharedLock()
        self.catalogue = catalogue  # where names and classes of these items are
        self._root = root
        self._uncoded: set[int] = set()  # segments
        self._ranker: Ranker | None = None
        self._making = Lock()
        with catalogue.snapshot():
            self.log = Log(catalogue.operations())
            self.meta = catalogue.meta
            self.classes: dict[int, Label] = {n: json.loads(text) for n, text in catalogue.rows("classes")}
            segment_rows = catalogue.rows("segments")
            found = list(catalogue.files("version IS NULL OR version = ?", (self.version,)))
            hash_file = catalogue.file_of_version("hash", self.version)
            sketcher_file = catalogue.file_of_kind("sketcher")
            removed = catalogue.rows("removed")
        self.sketcher = Sketcher.from_array(files.load_array(root, sketcher_file))
        files.check(root, hash_file)
        self.hasher = HashFunctions.from_file(root / hash_file.path)
        self._model = hash_file.sha256.hex()
        self.places = Places(self._load_segments(segment_rows, found))
        ids_removed: dict[int, list[int]] = defaultdict(list)
        for _, operation, number in removed:
            ids_removed[operation].append(number)
        self._replay(self.log.operations.values(), ids_removed)

    @property
    def operation(self) -> int:
        return self.log.last.number

    @property
    def version(self) -> int:
        return self.log.last.version

    def is_later_than(self, other: Snapshot | None) -> bool:
        """Whether this is to be handed out instead: not if a copy was put in the place of the database."""
        return other is None or (self.catalogue is other.catalogue and self.operation > other.operation)

    @property
    def n_items(self) -> int:
        return sum(int(segment.alive.sum()) for segment in self.places.segments)

    @property
    def ranker(self) -> Ranker:
        """The indexes, made when first asked for: who only writes has no use for them."""
        with self._making:
            if self._ranker is None:
                index = self._open_index()
                on_server = isinstance(index, ServedIndex)
                near = None if on_server else open_index(self.meta["index"], n_bits_near(self.n_bits))
                ranker = make_ranker(
                    self.hasher,
                    self.sketcher,
                    self.weights,
                    (index, near),
                    self.places,
                    self.classes,
                )
                self._follow(ranker, {})
                if isinstance(index, ServedIndex):
                    index.publish()
                self._ranker = ranker
            return self._ranker

    @property
    def weights(self) -> Weights:
        """Of the ranking, as they were found when the version in force was learned."""
        learned = [o for o in self.log.of_kind("create", "update") if o.version == self.version]
        return Weights(**learned[-1].details["ranking"])

    def _open_index(self) -> CodeIndex:
        name = self.meta["index"]
        if not name.startswith("milvus+"):
            return open_index(name, self.n_bits)
        return ServedIndex(name, self.n_bits, self.version, self._model, self.n_items, self.places.alive)

    @property
    def n_bits(self) -> int:
        return int(self.meta["n_bits"])

    @property
    def n_bytes(self) -> int:
        return n_bytes(self.n_bits)

    @property
    def width(self) -> int:
        return int(self.meta["width"])

    def codes(self, ids: Array) -> Array:
        return self.places.codes(ids, self.n_bytes)

    def vectors(self, ids: Array) -> Array:
        return self.places.vectors(ids, self.width)

    def ids_of(self, labels: Iterable[Any]) -> Array:
        """Ids of the living items of some classes; a label that no item has is refused."""
        number_of = {label: number for number, label in self.classes.items()}
        numbers = []
        for label in labels:
            plain = plain_label(label)
            number = number_of.get(label, number_of.get(plain))
            if number is None:
                raise NoSuchItem(f"No class is named {plain!r}; the info of the database lists all.")
            numbers.append(number)
        ids, own = self.places.live_ids(), self.places.live_classes()
        return ids[np.isin(own, numbers)]

    def living(self, ids: Iterable[Any]) -> Array:
        """Ids as an array, in their order; one that the collection does not have is refused."""
        values = list(ids)
        if not all(isinstance(value, int | np.integer) and abs(int(value)) < 1 << 62 for value in values):
            raise DatabaseError(f"Ids are whole numbers, got {values[:3]!r}.")
        wanted = np.array(values, dtype=np.int64)
        missing = wanted[~self.places.alive(wanted)]
        if len(missing):
            raise NoSuchItem(f"No item has the id {missing[0]}.")
        return wanted

    def _load_segments(self, rows: list[Any], found: list[Any]) -> list[Segment]:
        by_segment: dict[int, dict[str, files.Written]] = defaultdict(dict)
        for kind, segment, _, file in found:
            by_segment[segment][kind] = file
        return [self._load_segment(row, by_segment[row[0]]) for row in rows]

    def _load_segment(self, row: Any, own: dict[str, files.Written]) -> Segment:
        number, operation, n = row
        for kind in ("rows", "vectors"):
            if kind not in own:
                raise self.catalogue.corrupt(f"it names no {kind} file of segment {number}")
        rows = files.load_array(self._root, own["rows"])
        if "codes" in own:
            codes = files.load_array(self._root, own["codes"])
        else:  # what was dead when this version was learned has no codes in it, nor any use for them
            codes = np.zeros((n, self.n_bytes), dtype=np.uint8)
            self._uncoded.add(number)
        alive = np.zeros(n, dtype=bool)
        return Segment(self._root, number, operation, rows, own["vectors"], codes, alive)

    def _replay(self, operations: Iterable[Operation], removed: dict[int, list[int]]) -> None:
        """Let each operation do to ``alive`` what it did to the collection."""
        by_operation: dict[int, list[Segment]] = defaultdict(list)
        for segment in self.places.segments:
            by_operation[segment.operation].append(segment)
        for operation in operations:
            # An undo does the contrary of what its target did; an update changes codes, not the collection.
            number = operation.target if operation.kind == "undo" else operation.number
            assert number is not None
            comes = operation.kind != "undo"
            for segment in by_operation.get(number, []):
                segment.alive[:] = comes
            ids = np.array(removed.get(number, []), dtype=np.int64)
            for segment, _, rows in self.places.find(ids):
                segment.alive[rows] = not comes
        for segment in self.places.segments:
            if segment.number in self._uncoded and segment.alive.any():
                raise self.catalogue.corrupt(
                    f"it names no codes of segment {segment.number} by version {self.version}"
                )

    def advance(self, catalogue: Catalogue) -> bool:
        """Follow the catalogue by what has changed since; False if it takes a new snapshot."""
        with catalogue.snapshot():
            new = catalogue.operations(self.operation)
            touched = {o.target if o.kind == "undo" else o.number for o in new}
            if {o.details.get("undone", o.kind) for o in new} & {"update", "compact"}:
                return False
            new_classes = catalogue.rows("classes", "number >= ?", (len(self.classes),))
            segment_rows = catalogue.rows("segments", "operation > ?", (self.operation,))
            numbers = [row[0] for row in segment_rows]
            found = list(catalogue.files("segment >= ?", (min(numbers),))) if numbers else []
            removed: dict[int, list[int]] = defaultdict(list)
            for _, operation, number in catalogue.rows_in("removed", "operation", sorted(touched)):
                removed[operation].append(number)
        fresh = self._load_segments(segment_rows, [f for f in found if f[2] in (None, self.version)])
        with self.lock.writing():
            before = {segment.number: segment.alive.copy() for segment in self.places.segments}
            self.places.take(fresh)
            self._replay(new, removed)
            if self._ranker is not None:
                self._follow(self._ranker, before)
            self.classes.update({number: json.loads(text) for number, text in new_classes})
            for operation in new:
                self.log.append(operation)
        return True

    def _follow(self, ranker: Ranker, before: dict[int, Array]) -> None:
        """Bring the indexes from what was alive in each segment to what is."""
        for segment in self.places.segments:
            was = before.get(segment.number, np.zeros(len(segment.ids), dtype=bool))
            gone, come = was & ~segment.alive, segment.alive & ~was
            if gone.any():
                ranker.index.remove(segment.ids[gone])
                if ranker.near is not None:
                    ranker.near.remove(segment.ids[gone])
            if come.any():
                ranker.index.add(segment.ids[come], segment.codes[come])
                if ranker.near is not None:
                    ranker.near.add(segment.ids[come], codes_and_sketches(segment, come))
