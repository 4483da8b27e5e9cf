"""Following a database that others change: one connection and one snapshot in memory for each process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from sihash.database.catalogue import Catalogue
from sihash.database.errors import CorruptFile
from sihash.database.snapshot import Snapshot

CHECKED_ITEMS = 20_000  # databases up to this size are checked row by row when they are opened
ATTEMPTS = 5


class Reader:
    """Hands out the snapshot of this moment. Threads share it; a forked child makes its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._lock = Lock()
        self._snapshot: Snapshot | None = None
        self._catalogue = Catalogue(self.root)
        with self._catalogue.snapshot():
            self._catalogue.check(CHECKED_ITEMS)

    @property
    def catalogue(self) -> Catalogue:
        if self._pid != os.getpid():  # SQLite and locks must not be carried through a fork
            self._inherited = self._catalogue  # never closed here: it belongs to the parent
            self._open()
        return self._catalogue

    @contextmanager
    def current(self) -> Iterator[Snapshot]:
        """The database as it is now; it stays so for the length of the ``with`` block."""
        snapshot = self._follow()
        with snapshot.lock.reading():
            yield snapshot

    def _follow(self) -> Snapshot:
        catalogue, snapshot = self.catalogue, self._snapshot
        if snapshot is not None and catalogue.last_operation() == snapshot.operation:
            return snapshot
        with self._lock:
            for attempt in range(ATTEMPTS):
                operation = catalogue.last_operation()
                try:
                    return self._renewed(operation)
                except BaseException as error:
                    self._snapshot = None  # it may be half way
                    # A compaction takes files away; whoever was about to read one starts again.
                    stale = isinstance(error, CorruptFile) and catalogue.last_operation() != operation
                    if not stale or attempt == ATTEMPTS - 1:
                        raise
        raise AssertionError("unreachable")

    def _renewed(self, operation: int) -> Snapshot:
        snapshot = self._snapshot
        if snapshot is None or (snapshot.operation != operation and not snapshot.advance(self._catalogue)):
            snapshot = Snapshot(self.root, self._catalogue)
        self._snapshot = snapshot
        return snapshot

    def close(self) -> None:
        if self._pid == os.getpid():
            self._catalogue.close()
        self._snapshot = None
