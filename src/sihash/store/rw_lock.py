"""A lock that many readers hold together and one writer alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


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
