"""A database as one reader sees it: everything of one moment, in memory, ready to answer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from sihash._typing import Array
from sihash.codes import n_bytes
from sihash.database import files, relabelled, where
from sihash.database.answers import LabelSet
from sihash.database.catalogue import Catalogue, Operation
from sihash.database.errors import NoSuchItem
from sihash.database.label_table import LabelTable
from sihash.database.label_text import plain_label
from sihash.database.present import numbers_of
from sihash.database.ranking import codes_and_sketches, make_ranker, n_bits_near
from sihash.database.rw_lock import SharedLock
from sihash.database.segments import Places, Segment
from sihash.database.server_index import ServedIndex
from sihash.hashing.hash_functions import HashFunctions
from sihash.index import CodeIndex, open_index
from sihash.ranking import Ranker, Sketcher, Weights

if TYPE_CHECKING:
    from sihash.hashing import SIH

KEPT_FILTERS = 64  # numbers that met the conditions of a search


class Log:
    """What follows from the operations alone; ``last`` is the latest of them."""

    last: Operation

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations: dict[int, Operation] = {}
        self.undone: set[int] = set()
        self.next_number = 0  # numbers are never given twice, not even those of undone additions
        self.next_id = 0  # the next number that can be an id: past every one that a user has given
        self._columns: Counter[tuple[str, str]] = Counter()  # in how many additions each was
        self._learned: dict[int, Operation] = {}  # by version
        self._undone_versions: set[int] = set()
        for operation in operations:
            self.append(operation)

    def append(self, operation: Operation) -> None:
        self.operations[operation.number] = self.last = operation
        if operation.kind in ("create", "add"):
            about = operation.details
            self.next_number = max(self.next_number, about["first_id"] + about["n_added"])
            self.next_id = max(self.next_id, self.next_number, about["largest_id"] + 1)
            if about["columns"]:
                self._columns.update(about["columns"].items())
        if operation.kind in ("create", "update"):
            self._learned[operation.version] = operation
        if operation.kind == "undo" and operation.target is not None:
            self.undone.add(operation.target)
            target = self.operations[operation.target]
            if target.kind == "add":
                self._columns.subtract(target.details["columns"].items())
            if target.kind == "update":
                self._undone_versions.add(target.version)

    def and_then(self, operations: Iterable[Operation]) -> Log:
        """A log that goes on from this one, which stays as it is."""
        longer = copy(self)
        longer.operations, longer.undone = self.operations.copy(), self.undone.copy()
        longer._columns, longer._learned = self._columns.copy(), self._learned.copy()
        longer._undone_versions = self._undone_versions.copy()
        for operation in operations:
            longer.append(operation)
        return longer

    @property
    def columns(self) -> dict[str, str]:
        """Names and kinds of the columns."""
        return {name: kind for (name, kind), n in self._columns.items() if n > 0}

    @property
    def next_version(self) -> int:
        return max(o.version for o in self.operations.values()) + 1

    def of_kind(self, *kinds: str) -> list[Operation]:
        return [o for o in self.operations.values() if o.kind in kinds]

    def undoable(self) -> Operation | None:
        """The last operation that can be taken back: none before a compaction or the creation.

        Nor an update whose version before is not kept (`sihash.database.kept_versions`).
        """
        for number, operation in reversed(self.operations.items()):
            if operation.kind in ("create", "compact"):
                return None
            if operation.kind not in ("undo", "reencode") and number not in self.undone:
                is_lost = operation.kind == "update" and self.version_before(number) < self.oldest_version
                return None if is_lost else operation
        return None

    def learned(self, version: int) -> Operation:
        """The operation that a version was learned by."""
        return self._learned[version]

    def words_from(self, version: int) -> int:
        """The version at which the words of a version were drawn: codes made since then go with it."""
        return int(self.learned(version).details["words"])

    def codes_from(self, version: int) -> int:
        """The latest version by which all items that there were got their codes: by learning, or again."""
        words = self.words_from(version)
        whole = [o.version for o in self.of_kind("reencode") if o.details["is_last"]]
        return max([words, *(v for v in whole if self.has_valid_codes(v, version))])

    def has_valid_codes(self, version: int, now: int) -> bool:
        """Whether codes by ``version`` go with the hash functions of the version ``now``."""
        return self.is_valid(version, self.words_from(now), now)

    def is_valid(self, version: int, words: int, now: int) -> bool:
        """As `has_valid_codes`, of a version ``now`` whose words were drawn at the version ``words``."""
        return words <= version <= now and not self.is_undone(version)

    @property
    def oldest_version(self) -> int:
        """The first version whose files are kept."""
        latest = self._learned[max(self._learned)]
        return int(latest.details.get("oldest", 0))

    def versions_in_force(self) -> list[int]:
        """The versions that undoing leads through, the first one first."""
        return [version for version in self._learned if not self.is_undone(version)]

    def is_undone(self, version: int) -> bool:
        """Whether a version was taken back; it is never in force again."""
        return version in self._undone_versions

    def version_before(self, number: int) -> int:
        """The model version in force just before an operation."""
        return self.operations[number - 1].version


class Snapshot:
    """Segments with their codes, the hash functions of one model version and an index over what is alive.

    Of each segment the codes are the latest that go with these hash functions.

    ``lock`` is held by searches together, and alone by `advance`.
    """

    def __init__(self, root: Path, catalogue: Catalogue, known: Log | None = None) -> None:
        """``known`` are operations of this catalogue that were read already: there may be thousands."""
        self.lock = SharedLock()
        self.catalogue = catalogue  # where names and classes of these items are
        self.root = root
        self._uncoded: set[int] = set()  # segments
        self._ranker: Ranker | None = None
        self._making = Lock()
        self._matching: dict[tuple[int, str], Array] = {}
        with catalogue.snapshot():
            known = known or Log(())
            self.log = known.and_then(catalogue.operations(len(known.operations)))
            self.meta = catalogue.meta
            self.classes = LabelTable(catalogue.rows("classes"))
            segment_rows = catalogue.rows("segments")
            found = list(catalogue.files("segment IS NOT NULL"))
            hash_file = catalogue.file_of_version("hash", self.version)
            sketcher_file = catalogue.file_of_kind("sketcher")
            removed = catalogue.rows("removed")
            relabelled_rows = catalogue.rows("relabelled")
        self.sketcher = Sketcher.from_array(files.load_array(root, sketcher_file))
        files.check(root, hash_file)
        self.hasher = HashFunctions.from_file(root / hash_file.path)
        self._hash_path = root / hash_file.path
        self.model = hash_file.sha256.hex()
        self.places = Places(self._load_segments(segment_rows, found))
        self._derive([row[1:] for row in removed], relabelled.by_operation(relabelled_rows))
        self._check_coded()

    def estimator(self) -> SIH:
        """The estimator behind `hasher`, for those who learn; it brings scikit-learn."""
        from sihash.hashing import SIH

        return SIH.load(self._hash_path)

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
                    self._replace_on_server(index)
                    index.publish()
                self._ranker = ranker
            return self._ranker

    @property
    def weights(self) -> Weights:
        """Of the ranking, as they were found when the version in force was learned."""
        return Weights(**self.log.learned(self.version).details["ranking"])

    def _replace_on_server(self, index: ServedIndex) -> None:
        """Items that came since may have other codes there: those of before an update, or of one undone."""
        since = self.log.learned(self.log.codes_from(self.version)).number
        for segment in self.places.segments:
            rows = segment.alive
            if rows.any() and int(np.max(segment.operations)) > since:
                index.replace(segment.ids[rows], segment.codes[rows])

    def _open_index(self) -> CodeIndex:
        name = self.meta["index"]
        if not self._is_served:
            return open_index(name, self.n_bits)
        # An item keeps its code on a server until all have been encoded again, in a collection of their own.
        base = self.log.codes_from(self.version)
        mark = self.log.learned(base).details["model"]
        return ServedIndex(name, self.n_bits, base, mark, self.n_items, self.places.alive)

    @property
    def _is_served(self) -> bool:
        return bool(self.meta["index"].startswith("milvus+"))

    @property
    def holds_vectors(self) -> bool:
        return bool(self.meta["features"]["name"] == "none")

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

    def labels(self, ids: Array) -> list[LabelSet]:
        """Labels of items as they are now, in the order of ``ids``."""
        return [self.classes[number] for number in self.places.classes(ids).tolist()]

    def known_labels(self, labels: Iterable[Any]) -> list[str | int]:
        """Labels as the database has them; one that it does not have is refused."""
        out = []
        for label in labels:
            plain = plain_label(label)
            if plain is None or self.classes.place_of(plain) is None:
                raise NoSuchItem(f"No class is named {plain!r}; `sihash info DB --json` lists all classes.")
            out.append(plain)
        return out

    def ids_of(self, labels: Iterable[Any]) -> Array:
        """Ids of the living items that have one of some labels; a label that no item has is refused."""
        numbers = self.classes.holding(self.known_labels(labels))
        ids, own = self.places.live_ids(), self.places.live_classes()
        return ids[np.isin(own, numbers)]

    def living(self, ids: Iterable[Any]) -> Array:
        """Numbers of items by their ids, in their order; one that the collection does not have is refused."""
        return numbers_of(self.catalogue, self.places, ids)

    def matching(self, text: str) -> Array:
        """Numbers of the living items that meet the conditions of `where`, ascending."""
        key = (self.operation, text)
        found = self._matching.get(key)
        if found is None:
            conditions = where.parse(text)
            where.check(conditions, self.log.columns)
            parts = [
                segment.ids[  # by places: a mask with every other row takes far longer
                    np.flatnonzero(
                        segment.alive & where.matching(conditions, segment.columns, len(segment.ids))
                    )
                ]
                for segment in self.places.segments
            ]
            found = np.concatenate([np.empty(0, dtype=np.int64), *parts])
            found.flags.writeable = False  # so an index may keep what it makes of it
            if len(self._matching) >= KEPT_FILTERS:
                self._matching.clear()
            self._matching[key] = found
        return found

    def _load_segments(self, rows: list[Any], found: list[Any]) -> list[Segment]:
        by_segment: dict[int, dict[str, files.Written]] = defaultdict(dict)
        codes: dict[int, tuple[int, files.Written]] = {}
        for kind, segment, version, file in found:
            if kind != "codes":
                by_segment[segment][kind] = file
            elif self.log.has_valid_codes(version, self.version):
                codes[segment] = max(codes.get(segment, (0, file)), (version, file), key=lambda each: each[0])
        return [self._load_segment(row, by_segment[row[0]], codes.get(row[0])) for row in rows]

    def _load_segment(
        self, row: Any, own: dict[str, files.Written], coded: tuple[int, files.Written] | None
    ) -> Segment:
        number, operation, n = row
        operations = np.broadcast_to(np.int64(operation), n)
        if "operations" in own:
            operations = files.load_array(self.root, own["operations"])
        for kind in ("rows", "vectors"):
            if kind not in own:
                raise self.catalogue.corrupt(f"it names no {kind} file of segment {number}")
        rows = files.load_array(self.root, own["rows"])
        if coded is not None:
            code_version, codes = coded[0], files.load_array(self.root, coded[1])
        else:  # what was dead when these words were drawn has no codes, nor any use for them
            code_version, codes = 0, np.zeros((n, self.n_bytes), dtype=np.uint8)
            self._uncoded.add(number)
        alive = np.zeros(n, dtype=bool)
        columns = own.get("columns")
        return Segment(
            self.root, number, operations, rows, own["vectors"], codes, alive, columns, code_version
        )

    def _derive(self, removed: Iterable[tuple[int, int]], labels: dict[int, relabelled.Relabelled]) -> None:
        """``alive`` and ``classes`` from all operations that are in force, those that were not undone.

        An item lives if the operation that brought it is in force, and none that removed it. As the last
        operation is undone first, it does not matter in which order they and their undoing came.
        """
        undone = self.log.undone
        for segment in self.places.segments:
            first, last = segment.span
            if first == last:
                segment.alive[:] = first not in undone
            else:
                segment.alive[:] = ~np.isin(segment.operations, list(undone))
        gone = np.array([number for operation, number in removed if operation not in undone], dtype=np.int64)
        for segment, _, rows in self.places.find(gone):
            segment.alive[rows] = False
        for operation, change in labels.items():
            if operation not in undone:
                change.replay(self.places, comes=True)

    def _replay(
        self,
        operations: Iterable[Operation],
        removed: dict[int, list[int]],
        labels: dict[int, relabelled.Relabelled],
    ) -> None:
        """Let each new operation do to ``alive`` and ``classes`` what it did to the collection."""
        for operation in operations:
            # An undo does the contrary of what its target did; an update changes codes, not the collection.
            number = operation.target if operation.kind == "undo" else operation.number
            assert number is not None
            comes = operation.kind != "undo"
            for segment in self.places.segments:
                segment.set_alive(number, comes)
            ids = np.array(removed.get(number, []), dtype=np.int64)
            for segment, _, rows in self.places.find(ids):
                segment.alive[rows] = not comes
            if number in labels:
                labels[number].replay(self.places, comes)

    def _check_coded(self) -> None:
        """Refuse a catalogue that names no codes of items that live."""
        for segment in self.places.segments:
            if segment.number in self._uncoded and segment.alive.any():
                raise self.catalogue.corrupt(
                    f"it names no codes of segment {segment.number} that go with version {self.version}"
                )

    def advance(self, catalogue: Catalogue) -> bool:
        """Follow the catalogue by what has changed since; False if it takes a new snapshot."""
        with catalogue.snapshot():
            new = catalogue.operations(self.operation)
            touched = {o.target if o.kind == "undo" else o.number for o in new}
            if {o.details.get("undone", o.kind) for o in new} & {"update", "compact"}:
                return False
            if self._is_served and any(o.kind == "reencode" and o.details["is_last"] for o in new):
                return False
            new_classes = catalogue.rows("classes", "number >= ?", (len(self.classes),))
            named = catalogue.rows("segments")
            known = {segment.number for segment in self.places.segments}
            merged = known - {row[0] for row in named}
            segment_rows = [row for row in named if row[0] not in known]
            numbers = [row[0] for row in segment_rows]
            found = list(catalogue.files("segment >= ?", (min(numbers),))) if numbers else []
            removed: dict[int, list[int]] = defaultdict(list)
            for _, operation, number in catalogue.rows_in("removed", "operation", sorted(touched)):
                removed[operation].append(number)
            relabelled_rows = list(catalogue.rows_in("relabelled", "operation", sorted(touched)))
            again = {k for o in new if o.kind == "reencode" for k in o.details["segments"]}
            recoded = {
                segment: file
                for _, segment, _, file in catalogue.files("kind = 'codes' AND version = ?", (self.version,))
                if segment in again
            }
        fresh = self._load_segments(segment_rows, found)
        new_codes = {number: files.load_array(self.root, file) for number, file in recoded.items()}
        with self.lock.writing():
            for segment in fresh:
                self._take_over(segment)
            self.places.take(fresh, merged)
            before = {segment.number: segment.alive.copy() for segment in self.places.segments}
            self._replay(new, removed, relabelled.by_operation(relabelled_rows))
            self._check_coded()
            if self._ranker is not None:
                self._follow(self._ranker, before)
            for segment in self.places.segments:
                if segment.number in new_codes:
                    self._recode(segment, new_codes[segment.number])
            self.classes.take(new_classes)
            for operation in new:
                self.log.append(operation)
        return True

    def _take_over(self, fresh: Segment) -> None:
        """What was known of the items of a new segment that are here already: it was merged of others."""
        recoded = np.zeros(len(fresh.ids), dtype=bool)
        for segment, places, rows in self.places.find(fresh.ids):
            fresh.alive[places] = segment.alive[rows]
            fresh.classes[places] = segment.classes[rows]
            recoded[places] = (fresh.codes[places] != segment.codes[rows]).any(axis=1)
        self._replace_codes(fresh, fresh.alive & recoded)

    def _recode(self, segment: Segment, codes: Array) -> None:
        """Take new codes of a segment, by the version in force."""
        segment.codes, segment.code_version = codes, self.version
        self._replace_codes(segment, segment.alive)

    def _replace_codes(self, segment: Segment, rows: Array) -> None:
        """Bring the codes of some rows into the indexes, which have others."""
        codes, ranker = segment.codes, self._ranker
        if ranker is not None and rows.any() and not isinstance(ranker.index, ServedIndex):
            ranker.index.replace(segment.ids[rows], codes[rows])
            if ranker.near is not None:
                ranker.near.replace(segment.ids[rows], codes_and_sketches(segment, rows))

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
