"""A database as one reader sees it: everything of one moment, in memory, ready to answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from sihash._typing import Array
from sihash.codes import n_bytes
from sihash.database.answers import LabelSet
from sihash.database.present import numbers_of
from sihash.database.ranking import codes_and_sketches, make_ranker, n_bits_near
from sihash.hashing.hash_functions import HashFunctions
from sihash.index import CodeIndex, open_index
from sihash.index.served import ServedIndex
from sihash.ranking import Ranker, Sketcher, Weights
from sihash.store import files, relabelled, where
from sihash.store.catalogue import Catalogue
from sihash.store.errors import NoSuchItem
from sihash.store.label_table import LabelTable
from sihash.store.labels import plain_label
from sihash.store.log import Log, Operation
from sihash.store.rw_lock import SharedLock
from sihash.store.segments import Places, Segment

if TYPE_CHECKING:
    from sihash.hashing import SIH

KEPT_FILTERS = 64  # numbers that met the conditions of a search


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
