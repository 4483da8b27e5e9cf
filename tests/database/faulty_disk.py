"""A disk that fails, fills up, or loses its power, at a call of one's choice.

Calls are those of `sihash.store.files.Disk`, every ``fsync`` and rename of Python wherever it is made, and
the moments of SQLite's commits. What the power leaves follows from what was synced: the bytes of a file once
it was synced itself, its name once its folder was. SQLite syncs its own files and is trusted with them.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from sihash.database import operations
from sihash.store import files
from sihash.store.catalogue import FILE, Catalogue
from sihash.store.files import Disk

MOMENTS = ("BEGIN IMMEDIATE", "COMMIT", "PRAGMA wal_checkpoint", "VACUUM")


class Killed(BaseException):
    """Not an Exception: nothing may catch it and go on as if there were a process."""


class InTurn(Executor):
    """Does at once what a thread would do meanwhile: so calls come in the same order every time."""

    def __init__(self, _=1):
        pass

    def submit(self, work, *arguments):
        future = Future()
        try:
            future.set_result(work(*arguments))
        except BaseException as error:
            future.set_exception(error)
        return future


class FaultyDisk(Disk):
    """Counts its calls. One that is in ``plan`` fails, by the error there; from a `Killed` on, all do.

    ``looks`` are callables by the number of the call before which they come: what others do meanwhile.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.RLock()
        self._fsync, self._replace, self._execute = os.fsync, os.replace, Catalogue.execute
        self._bytes: dict[int, int] = {}  # how many are safe of each file, by its inode
        self._names: dict[Path, dict[str, int]] = {}  # of each folder: inodes by safe names
        self._deleted: dict[int, bytes] = {}  # contents of files that may come back
        self.plan: dict[int, BaseException] = {}
        self.looks: dict[int, object] = {}
        self.forever = False  # whether calls go on failing after the first one
        self.n_calls, self._error, self._looking = 0, None, False
        self._found = None
        self._settle()

    def _settle(self) -> None:
        """What is there at first is safe, and so is the folder that the database is to be made in."""
        for folder, _, names in os.walk(self.root.parent):
            for name in names:
                found = os.stat(os.path.join(folder, name))
                self._bytes[found.st_ino] = found.st_size
            self._sync_names(Path(folder))

    def _sync_names(self, folder: Path) -> None:
        self._names[folder] = {name: os.stat(folder / name).st_ino for name in os.listdir(folder)}

    @contextmanager
    def in_use(self):
        """All that is written passes through here, inside a ``with`` block."""
        with (
            mock.patch.object(files, "disk", self),
            mock.patch.object(os, "fsync", self._on_fsync),
            mock.patch.object(os, "replace", self._on_replace),
            mock.patch.object(Catalogue, "execute", _watched_execute(self)),
            mock.patch.object(operations, "ThreadPoolExecutor", InTurn),
        ):
            yield self

    def _call(self, fails: bool = True) -> None:
        """One call more; ``fails`` is False where only a kill is told apart from no trouble."""
        with self._lock:
            if self._looking:  # by somebody else, in the middle of a call of ours
                return
            if isinstance(self._error, Killed):
                raise self._error
            number = self.n_calls
            self.n_calls += 1
            look = self.looks.pop(number, None)
            if look is not None:
                self._looking = True
                try:
                    look()
                finally:
                    self._looking = False
            error = self.plan.pop(number, None) or (self._error if self.forever else None)
            if isinstance(error, Killed):
                self._keep()
            if error is not None and (fails or isinstance(error, Killed)):
                self._error = error
                raise error

    @property
    def was_killed(self) -> bool:
        return isinstance(self._error, Killed)

    def heal(self) -> None:
        """The trouble is over."""
        self.plan, self.looks, self.forever, self._error = {}, {}, False, None

    # Calls.

    def create(self, path):
        self._call()
        descriptor = super().create(path)
        self._bytes.pop(os.fstat(descriptor).st_ino, None)
        return descriptor

    def write(self, descriptor, data):
        try:
            self._call()
        except OSError:
            super().write(descriptor, data[: len(data) // 2])  # a disk fills up in the middle of a write
            raise
        return super().write(descriptor, data[:1000])  # and may write less than it was given

    def make_folder(self, path):
        self._call()
        super().make_folder(path)

    def unlink(self, path):
        self._call()
        self._remember(path)
        super().unlink(path)

    def _on_fsync(self, descriptor):
        self._call()
        found = os.fstat(descriptor)
        self._fsync(descriptor)
        if stat.S_ISDIR(found.st_mode):
            for folder in [self.root.parent, *self._folders()]:
                if os.stat(folder).st_ino == found.st_ino:
                    self._sync_names(folder)
        else:
            self._bytes[found.st_ino] = found.st_size

    def _on_replace(self, source, target):
        self._call()
        self._remember(Path(target))
        self._replace(source, target)

    def _remember(self, path: Path) -> None:
        """What comes back of a file; its inode may be another file's soon."""
        if path.is_file():
            inode = os.stat(path).st_ino
            self._deleted[inode] = _safe_part(path.read_bytes(), self._bytes.pop(inode, 0))

    def _folders(self) -> list[Path]:
        return [Path(folder) for folder, _, _ in os.walk(self.root)]

    # What is left.

    def _keep(self) -> None:
        """Keep the folder as it is at this moment: what comes after a kill is not to be seen."""
        self._found = self.root.with_name(f"{self.root.name}-found")
        if self.root.exists():
            shutil.copytree(self.root, self._found, ignore=lambda *_: [])
        self._inodes = {
            folder.relative_to(self.root): {
                name: os.stat(folder / name).st_ino for name in os.listdir(folder)
            }
            for folder in self._folders()
        }

    def power_goes(self) -> None:
        """Now, between two calls."""
        self._keep()

    def left(self, to: Path, how: str) -> Path:
        """The folder as the next start finds it.

        After a ``kill`` all that was written is there. After a loss of power, ``least``: only what was
        synced, and what was deleted is back; or ``most``: every name, but zeros where bytes were not synced.
        """
        found = self._found
        if not found.exists() or (how == "least" and self.root.name not in self._names[self.root.parent]):
            return to
        if how == "kill":
            return Path(shutil.copytree(found, to))
        for folder in self._inodes:
            (to / folder).mkdir(exist_ok=True)
            now, safe = self._inodes[folder], self._names.get(self.root / folder, {})
            for name, inode in (safe if how == "least" else now).items():
                path = found / folder / name
                if path.is_dir():
                    continue
                is_there = now.get(name) == inode
                if name.startswith(FILE):
                    data = path.read_bytes() if is_there else b""
                elif is_there:
                    data = _safe_part(path.read_bytes(), self._bytes.get(inode, 0))
                else:
                    data = self._deleted.get(inode, b"")
                (to / folder / name).write_bytes(data)
            if how == "least":  # SQLite's files beside the catalogue come and go by its own doing
                for name in now.keys() - safe.keys():
                    if name.startswith(f"{FILE}-") and FILE in safe:
                        shutil.copy(found / folder / name, to / folder / name)
        return to


def _safe_part(data: bytes, n: int) -> bytes:
    """The first ``n`` bytes, and zeros for what was not synced."""
    return data[:n] + bytes(max(0, len(data) - n))


def _watched_execute(disk: FaultyDisk):
    def execute(self, sql, values=()):
        writes = sql != "COMMIT" or hasattr(self, "_totals")  # a reader's ends nothing
        if sql.startswith(MOMENTS) and writes:
            disk._call(fails=False)
        return disk._execute(self, sql, values)

    return execute
