"""The file that was opened, to be known again: a restored copy may be put in its place at any time."""

from __future__ import annotations

import os
from pathlib import Path

from sihash.store.errors import CorruptFile, gone


class OpenedFile:
    """A catalogue as it was found at its path.

    ``immutable`` says that SQLite must be told to take no locks: it would make its log and index beside the
    file, they are not there, and this user may not write in the folder. SQLite never looks again then, so
    that size and time of the file are watched here, and whether a writer has made a log.
    """

    def __init__(self, path: Path, write: bool) -> None:
        self.path = path
        self._log, self._index = (path.with_name(path.name + ending) for ending in ("-wal", "-shm"))
        self.immutable = not (write or os.access(path.parent, os.W_OK) or self._has_log())
        self._seen = self._look()

    @property
    def inode(self) -> tuple[int, ...]:
        return self._seen[:2]

    def is_in_place(self) -> bool:
        """Whether it is still the file at the path."""
        return self._look()[:2] == self.inode

    def is_current(self) -> bool:
        """Whether it is, and SQLite sees what is in it now; by one call of ``stat``, as a rule."""
        return self._look() == self._seen and not (self.immutable and self._has_log())

    def _has_log(self) -> bool:
        """Whether SQLite finds what it needs, or there is a log that must not be passed over."""
        try:
            return os.stat(self._log).st_size > 0 or self._index.exists()
        except FileNotFoundError:
            return False

    def _look(self) -> tuple[int, ...]:
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            found = self._look_again()
        inode = (found.st_dev, found.st_ino)
        if not self.immutable:
            return inode
        return (*inode, found.st_size, found.st_mtime_ns)

    def _look_again(self) -> os.stat_result:
        """Where nothing was a moment ago a copy may be now; if not, say what is missing, folder or file."""
        if not self.path.parent.is_dir():
            raise gone(self.path.parent)
        try:
            return os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise CorruptFile(f"{self.path} is missing; restore it from a copy of the database.") from None
