"""A database as one process sees it: everything of one moment, in memory, following as it changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from sihash._typing import Array
from sihash.codes import n_bytes
from sihash.database.answers import LabelSet
from sihash.database.ranking import PresentClasses, by_vectors, codes_and_sketches, make_ranker, n_bits_near
from sihash.hashing.hash_functions import HashFunctions
from sihash.index import CodeIndex, open_index
from sihash.index.served import ServedIndex
from sihash.ranking import Ranker, Sketcher, Weights
from sihash.store import files, where
from sihash.store.catalogue import Catalogue
from sihash.store.errors import CorruptFile, DatabaseError, NoSuchItem
from sihash.store.ids import numbers_of
from sihash.store.labels import plain_label
from sihash.store.locks import Line, SharedLock
from sihash.store.log import Log
from sihash.store.segments import Places
from sihash.store.state import Difference, State, difference, read_state

if TYPE_CHECKING:
    from sihash.hashing import SIH

CHECKED_ITEMS = 20_000  # databases up to this size are checked row by row when they are opened
ATTEMPTS = 5
PATIENCE = 5.0  # seconds; writers follow each other by hundredths
KEPT_FILTERS = 64  # numbers that met the conditions of a search


class Snapshot:
    """The state of a database with the hash functions in force, and indexes of the items that live.

    ``lock`` is held by searches together, and alone by `follow`.
    """

    def __init__(
        self, root: Path, catalogue: Catalogue, before: State | None = None, undoing: Sequence[int] = ()
    ) -> None:
        """``before`` is an earlier state of the same catalogue, to go on from; see also `read_state`."""
        self.lock = SharedLock()
        self.catalogue = catalogue  # where names of these items are
        self.root = root
        self._ranker: Ranker | None = None
        self._making = Lock()
        self._matching: dict[tuple[int, str], Array] = {}
        with catalogue.snapshot():  # all of one moment: other features change all of it
            self.meta = catalogue.meta
            self.state = read_state(root, catalogue, before, undoing)
            hash_file = catalogue.file_of_version("hash", self.version)
            sketcher_file = catalogue.file_of_kind("sketcher")
        self.places, self.classes = Places(self.state.segments), self.state.labels
        self.sketcher = Sketcher.from_array(files.load_array(root, sketcher_file))
        files.check(root, hash_file)
        self.hasher = HashFunctions.from_file(root / hash_file.path)
        self._hash_path = root / hash_file.path
        self.model = hash_file.sha256.hex()

    def follow(self) -> bool:
        """Follow the catalogue to its present state; False if that takes another snapshot."""
        after = read_state(self.root, self.catalogue, self.state)
        if after.version != self.version:
            return False
        if self._is_served and after.log.codes_from(self.version) != self.log.codes_from(self.version):
            return False  # the codes are in another collection of the server
        with self.lock.writing():
            if self._ranker is not None:
                self._follow(self._ranker, difference(self.state.segments, after.segments))
            self.state = after
            self.places.become(after.segments)
        return True

    def detached(self) -> Snapshot:
        """A snapshot of this moment that stays as it is, without indexes: for a long look."""
        own = copy(self)
        own.lock, own._making, own._ranker, own._matching = SharedLock(), Lock(), None, {}
        own.places = Places(self.state.segments)
        vars(own).pop("present", None)
        return own

    def before_update(self) -> Snapshot:
        """The database as it would be if the last update, and all that came after it, were undone."""
        since = self.log.since_update()
        if not since or self._is_served:
            why = "its index is on a server" if since else "there was no update since the last compaction"
            raise DatabaseError(f"The state before the last update cannot be had: {why}.")
        return Snapshot(self.root, self.catalogue, self.state, since)

    @property
    def log(self) -> Log:
        return self.state.log

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
        return self.state.n_items

    @property
    def ranker(self) -> Ranker:
        """The indexes, made when first asked for: who only writes has no use for them."""
        with self._making:
            if self._ranker is None:
                index = self._open_index()
                on_server = isinstance(index, ServedIndex)
                near = None if on_server else open_index(self.meta["index"], n_bits_near(self.n_bits))
                indexes = index, near
                ranker = make_ranker(self.sketcher, self.weights, indexes, self.places, self.present)
                self._follow(ranker, difference([], self.places.segments))
                if isinstance(index, ServedIndex):
                    self._replace_on_server(index)
                    index.publish()
                self._ranker = ranker
            return self._ranker

    @property
    def exact_ranker(self) -> Ranker:
        """The same, by the vectors of items in the place of their sketches."""
        return by_vectors(self.ranker, self.places)

    @property
    def weights(self) -> Weights:
        """Of the ranking, as they were found when the version in force was learned."""
        return Weights(**self.log.learned(self.version).details["ranking"])

    @cached_property
    def present(self) -> PresentClasses:
        """The classes of items, and of vectors."""
        first_new = int(self.log.learned(self.version).details["first_new"])
        return PresentClasses(self.hasher, self.places, self.classes, first_new)

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

    def _follow(self, ranker: Ranker, change: Difference) -> None:
        """Bring the indexes to the state after a change."""
        near, on_server = ranker.near, isinstance(ranker.index, ServedIndex)
        for ids in change.gone:
            ranker.index.remove(ids)
            if near is not None:
                near.remove(ids)
        for segment, rows in change.recoded:
            if not on_server:  # there an item has its code for as long as the collection is in use
                ranker.index.replace(segment.ids[rows], segment.codes[rows])
            if near is not None:
                near.replace(segment.ids[rows], codes_and_sketches(segment, rows))
        if change.came:  # all at once: an index need not be laid out again for each
            ids = np.concatenate([segment.ids[rows] for segment, rows in change.came])
            ranker.index.add(ids, np.concatenate([segment.codes[rows] for segment, rows in change.came]))
            if near is not None:
                near.add(ids, np.concatenate([codes_and_sketches(*each) for each in change.came]))


class Reader:
    """Hands out the snapshot of this moment. Threads share it; a forked child makes its own.

    If a copy is put in the place of the database, it hands out that one from then on.

    With ``prepare``, a new model version is loaded in the background and prepared by that call; until then
    the version before is handed out. Additions and removals are followed at once all the same.
    """

    def __init__(
        self, root: Path, prepare: Callable[[Snapshot], object] | None = None, patience: float = PATIENCE
    ) -> None:
        self.root = root
        self.patience = patience  # seconds that a writer waits for others
        self._prepare = prepare
        self._is_closed = False
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = Lock()
        self._opening = Lock()
        self._loading = Lock()
        self._line = Line()
        self._snapshot: Snapshot | None = None
        self._catalogue = self._open()

    def _open(self) -> Catalogue:
        while True:
            catalogue = Catalogue(self.root)
            try:
                with catalogue.snapshot():
                    catalogue.check(CHECKED_ITEMS)
                return catalogue
            except CorruptFile:
                if catalogue.is_current():  # else it changed under a reader that may take no locks
                    raise

    @property
    def catalogue(self) -> Catalogue:
        """A connection to the file that is at its path now."""
        if self._is_closed:
            raise DatabaseError(f"This database is closed: {self.root}; open it again with Database(path).")
        if self._pid != os.getpid():  # SQLite and locks must not be carried through a fork
            self._inherited = self._catalogue  # never closed here: it belongs to the parent
            self._start()
        if not self._catalogue.is_current():
            with self._opening:
                if not self._catalogue.is_current():
                    self._catalogue = self._open()  # the old one ends with the last thread that uses it
        return self._catalogue

    @property
    def line(self) -> Line:
        """Of the threads of this process that write."""
        _ = self.catalogue  # a forked child has a line of its own
        return self._line

    @property
    def busy(self) -> str:
        return f"{self.root} is busy: process {os.getpid()} is writing to it; try again when it is done."

    @contextmanager
    def current(self) -> Iterator[Snapshot]:
        """The database as it is now; it stays so for the length of the ``with`` block."""
        snapshot = self._follow()
        with snapshot.lock.reading():
            yield snapshot

    @contextmanager
    def newest(self) -> Iterator[Snapshot]:
        """As `current`, for those who write: never the version before, whatever is being prepared."""
        snapshot = self._newest()
        with snapshot.lock.reading():
            yield snapshot

    def detached(self) -> Snapshot:
        """As `newest`, to stay as it is while others follow."""
        with self.newest() as snapshot:
            return snapshot.detached()

    def _follow(self) -> Snapshot:
        catalogue, snapshot = self.catalogue, self._snapshot
        if snapshot is not None and snapshot.catalogue is catalogue:
            if catalogue.last_operation() == snapshot.operation:
                return snapshot
            if self._prepare is not None and _only_learned(catalogue, snapshot):
                if self._loading.acquire(blocking=False):
                    Thread(target=self._load, daemon=True).start()
                return snapshot
        return self._newest()

    def _newest(self) -> Snapshot:
        _ = self.catalogue  # a forked child makes its own locks
        with self._lock:
            for attempt in range(ATTEMPTS):
                catalogue = self.catalogue
                operation = catalogue.last_operation()
                try:
                    return self._renewed(catalogue, operation)
                except BaseException as error:
                    self._snapshot = None  # it may be half way
                    # A compaction takes files away; whoever was about to read one starts again.
                    stale = isinstance(error, CorruptFile) and self._has_changed(catalogue, operation)
                    if not stale or attempt == ATTEMPTS - 1:
                        raise
        raise AssertionError("unreachable")

    def _has_changed(self, catalogue: Catalogue, operation: int) -> bool:
        return self.catalogue is not catalogue or catalogue.last_operation() != operation

    def _renewed(self, catalogue: Catalogue, operation: int) -> Snapshot:
        snapshot = self._snapshot
        if snapshot is None or not _follows(snapshot, catalogue, operation):
            before = snapshot.state if snapshot is not None and snapshot.catalogue is catalogue else None
            snapshot = self._snapshot = Snapshot(self.root, catalogue, before)
        return snapshot

    def _load(self) -> None:
        """Load and prepare what is in force now; hand it out from then on. In a thread of its own."""
        fresh = None  # if it cannot be had, the next reader tries, and is told why
        try:
            catalogue, current = self.catalogue, self._snapshot
            before = current.state if current is not None and current.catalogue is catalogue else None
            with catalogue.beside() as own:
                fresh = Snapshot(self.root, own, before)
            fresh.catalogue = catalogue
            assert self._prepare is not None
            self._prepare(fresh)
        except DatabaseError:
            fresh = None
        finally:
            with self._lock:
                if fresh is None or fresh.is_later_than(self._snapshot):
                    self._snapshot = fresh
            self._loading.release()

    def close(self) -> None:
        self._is_closed = True
        if self._pid == os.getpid():
            self._catalogue.close()
        self._snapshot = None


class Frozen(Reader):
    """Hands out one snapshot, always; nothing can be written by it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.root = snapshot.root
        self._frozen = snapshot

    @property
    def catalogue(self) -> Catalogue:
        return self._frozen.catalogue

    @property
    def line(self) -> Line:
        raise _only_read()

    def _follow(self) -> Snapshot:
        return self._frozen

    def _newest(self) -> Snapshot:
        raise _only_read()

    def close(self) -> None:
        """The files belong to the database that it was taken from."""


def _only_read() -> DatabaseError:
    return DatabaseError("This is the collection as it was before an update; it can only be read.")


def _follows(snapshot: Snapshot, catalogue: Catalogue, operation: int) -> bool:
    """Whether a snapshot is of this moment, or could be brought to it."""
    current = snapshot.catalogue is catalogue
    return current and (snapshot.operation == operation or snapshot.follow())


def _only_learned(catalogue: Catalogue, snapshot: Snapshot) -> bool:
    """Whether nothing has happened since but updates, or the undoing of updates."""
    new = catalogue.operations(snapshot.operation)
    return all(operation.details.get("undone", operation.kind) == "update" for operation in new)
