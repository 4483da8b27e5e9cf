"""Following a database that others change: one connection and one snapshot in memory for each process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Thread

from sihash.database.snapshot import Snapshot
from sihash.store.catalogue import Catalogue
from sihash.store.errors import CorruptFile, DatabaseError

CHECKED_ITEMS = 20_000  # databases up to this size are checked row by row when they are opened
ATTEMPTS = 5


class Reader:
    """Hands out the snapshot of this moment. Threads share it; a forked child makes its own.

    If a copy is put in the place of the database, it hands out that one from then on.

    With ``prepare``, a new model version is loaded in the background and prepared by that call; until then
    the version before is handed out. Additions and removals are followed at once all the same.
    """

    def __init__(self, root: Path, prepare: Callable[[Snapshot], object] | None = None) -> None:
        self.root = root
        self._prepare = prepare
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = Lock()
        self._opening = Lock()
        self._loading = Lock()
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
        if self._pid != os.getpid():  # SQLite and locks must not be carried through a fork
            self._inherited = self._catalogue  # never closed here: it belongs to the parent
            self._start()
        if not self._catalogue.is_current():
            with self._opening:
                if not self._catalogue.is_current():
                    self._catalogue = self._open()  # the old one ends with the last thread that uses it
        return self._catalogue

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
            known = snapshot.log if snapshot is not None and snapshot.catalogue is catalogue else None
            snapshot = self._snapshot = Snapshot(self.root, catalogue, known)
        return snapshot

    def _load(self) -> None:
        """Load and prepare what is in force now; hand it out from then on. In a thread of its own."""
        fresh = None  # if it cannot be had, the next reader tries, and is told why
        try:
            catalogue = self.catalogue
            with catalogue.beside() as own:
                fresh = Snapshot(self.root, own)
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
        if self._pid == os.getpid():
            self._catalogue.close()
        self._snapshot = None


def _follows(snapshot: Snapshot, catalogue: Catalogue, operation: int) -> bool:
    """Whether a snapshot is of this moment, or could be brought to it."""
    current = snapshot.catalogue is catalogue
    return current and (snapshot.operation == operation or snapshot.advance(catalogue))


def _only_learned(catalogue: Catalogue, snapshot: Snapshot) -> bool:
    """Whether nothing has happened since but updates, or the undoing of updates."""
    new = catalogue.operations(snapshot.operation)
    return all(operation.details.get("undone", operation.kind) == "update" for operation in new)
