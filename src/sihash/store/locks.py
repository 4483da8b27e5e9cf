"""Locks: a file that one process at a time holds, a line of threads, and a lock that many threads may hold
together to read.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from threading import Condition
from typing import Any

from sihash.store.errors import DatabaseBusy, gone

Work = Callable[[list[Any]], Sequence[Any]]
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


class _Place:
    """Of a thread in a `Line`: what it wants done and, in the end, what came of it."""

    def __init__(self, work: Work | None, item: Any) -> None:
        self.work, self.item = work, item
        self.is_taken = self.is_done = False
        self.outcome: Any = None


class Line:
    """Threads that write, in the order in which they came. Where the same work waits for several of them,
    side by side, the first does it for all at once.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._places: deque[_Place] = deque()
        self._is_busy = False

    @contextmanager
    def turn(self, busy: str, patience: float) -> Iterator[None]:
        """Wait for the turn; after ``patience`` seconds, raise `DatabaseBusy` with the sentence ``busy``."""
        self._wait(_Place(None, None), busy, patience)
        try:
            yield
        finally:
            self._end_turn([])

    def do(self, work: Work, item: Any, busy: str, patience: float) -> Any:
        """The outcome that ``work`` has for an item: it is given a list of items that wait, and returns those
        of the first of them, one at least. An outcome that is an exception is raised here.
        """
        place = _Place(work, item)
        if not self._wait(place, busy, patience):
            self._work(place)
        if isinstance(place.outcome, BaseException):
            raise place.outcome
        return place.outcome

    def _wait(self, place: _Place, busy: str, patience: float) -> bool:
        """Until it is the turn of a place, or it was done by another: which of the two."""
        with self._changed:
            self._places.append(place)
            try:
                if not self._changed.wait_for(lambda: self._may_go_on(place), patience):
                    if not place.is_taken:
                        raise DatabaseBusy(busy)
                    self._changed.wait_for(lambda: self._may_go_on(place))
            except BaseException:
                with suppress(ValueError):
                    self._places.remove(place)
                self._changed.notify_all()
                raise
            if not place.is_done:
                self._places.popleft()
                self._is_busy = True
            return place.is_done

    def _may_go_on(self, place: _Place) -> bool:
        return place.is_done or (not self._is_busy and not place.is_taken and self._places[0] is place)

    def _work(self, place: _Place) -> None:
        """Do the work of a place whose turn it is, and of those behind it that want the same."""
        with self._changed:
            alike = [place, *takewhile(lambda other: other.work == place.work, self._places)]
            for other in alike:
                other.is_taken = True
        done: list[_Place] = []
        try:
            outcomes = place.work([other.item for other in alike]) if place.work else []
            done = alike[: len(outcomes)]
            for other, outcome in zip(done, outcomes, strict=True):
                other.outcome = outcome
        finally:
            with self._changed:
                for other in alike:
                    other.is_taken = False
            self._end_turn(done)

    def _end_turn(self, done: Sequence[_Place]) -> None:
        with self._changed:
            for place in done:
                place.is_done = True
                with suppress(ValueError):  # the first is not in the line any more
                    self._places.remove(place)
            self._is_busy = False
            self._changed.notify_all()


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
