"""Locks: a file that one process at a time holds, and a lock that many threads may hold together to read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition

from sihash.store.errors import DatabaseBusy, gone

LOOK_EVERY = 0.01  # seconds, while another holds it: writers that follow each other leave short gaps

if os.name == "nt":  # pragma: no cover
    import msvcrt

    def _take(descriptor: int) -> None:
        # Far behind the number of the holder, which others must be able to read.
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _take(descriptor: int) -> None:
        # flock belongs to the open file, not to the process: it also parts two databases in one process.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _taken(descriptor: int) -> bool:
    try:
        _take(descriptor)
    except OSError:
        return False
    return True


@contextmanager
def locked(path: Path, what: str, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock at ``path``, or raise `DatabaseBusy` after ``patience`` seconds.

    It ends with the process.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:
        raise gone(path.parent) from None
    try:
        deadline = time.monotonic() + patience
        while not _taken(descriptor):
            if time.monotonic() >= deadline:
                holder = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
                raise DatabaseBusy(
                    f"{path.parent} is busy: process {holder} {what}; try again when it is done."
                )
            time.sleep(LOOK_EVERY)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        os.close(descriptor)


class SharedLock:
    """A writer that waits goes before readers that come later, so it is never starved."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._n_readers = 0
        self._n_writers = 0  # at work or waiting

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._changed:
            while self._n_writers:
                self._changed.wait()
            self._n_readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._n_readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """For one writer at a time: callers hold a lock of their own."""
        with self._changed:
            self._n_writers += 1
            while self._n_readers:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._n_writers -= 1
                self._changed.notify_all()
