"""Who may not write in the folder: readers follow all the same, changes are refused in one sentence."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import traceback

import pytest
import small

from sihash.database import Database, DatabaseError, verify
from sihash.store import locks
from sihash.store.catalogue import FILE, OpenedFile

NOBODY = 65534
CHANGES = {
    "add": lambda db: db.add(*small.rows(4, seed=1, classes=4)),
    "remove": lambda db: db.remove([1, 2]),
    "update": lambda db: db.update("relearn"),
    "undo": lambda db: db.undo(),
    "compact": lambda db: db.compact(),
}
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user, or mount"
)


class Nobody:
    """A child process without any rights that does its steps one by one, each when it is told to."""

    def __init__(self, *steps):
        (read, self._tell), (self._hear, write) = os.pipe(), os.pipe()
        self._pid = os.fork()
        if not self._pid:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            try:
                for step in steps:
                    os.read(read, 1)
                    step()
                    os.write(write, b".")
            except BaseException:
                traceback.print_exc()
                os.write(write, b"!")
            os._exit(0)

    def step(self):
        os.write(self._tell, b".")
        assert os.read(self._hear, 1) == b"."

    def end(self):
        os.waitpid(self._pid, 0)


@pytest.fixture
def root(template, folder):
    """A closed database that everybody may read."""
    folder.chmod(0o755)
    return small.copy(template, folder / "db")


def leave(root, left):
    """What a writer beside a reader leaves, or what a writer alone does."""
    with Database(root) as db:
        db.remove([1])
        db.undo()
    assert (root / f"{FILE}-shm").exists()
    if left == "nothing":
        for ending in ("-wal", "-shm"):
            (root / f"{FILE}{ending}").unlink()


@needs_root
@pytest.mark.parametrize("left", ["nothing", "a log"])
def test_a_reader_without_permission_to_write_follows(root, left):
    """Whether or not SQLite finds its log and index beside the catalogue when the reader opens it."""
    opened = []

    def see(n, version):
        def step():
            if not opened:
                opened.append(Database(root))
            assert (len(opened[0]), opened[0].version) == (n, version)
            assert opened[0].search(small.QUERIES[:1], classes=[1])[0].version == version
            assert len(opened[0].items(limit=100)) == n

        return step

    steps = [see(60, 1), see(64, 1), see(64, 2), see(62, 2)]
    nobody = Nobody(*steps)  # before this process opens anything: SQLite's locks do not survive a fork
    leave(root, left)
    nobody.step()
    with Database(root) as db:
        CHANGES["add"](db)
    nobody.step()
    with Database(root) as db:
        db.update("relearn")
    nobody.step()
    with Database(root) as db:
        db.remove([1, 2])
    nobody.step()
    nobody.end()
    assert verify(root) == []


@needs_root
@pytest.mark.parametrize("left", ["nothing", "a log"])
def test_a_log_that_comes_or_goes_while_a_reader_opens(root, left, monkeypatch):
    """The reader looked before, and took the other way to open the catalogue."""
    first, has_log = [left == "nothing"], OpenedFile._has_log
    monkeypatch.setattr(OpenedFile, "_has_log", lambda self: first.pop() if first else has_log(self))

    def opens():
        with Database(root) as db:
            assert len(db) == 60
            assert db._reader.catalogue._opened.immutable == (left == "nothing")

    nobody = Nobody(opens)
    leave(root, left)
    nobody.step()
    nobody.end()


@needs_root
@pytest.mark.parametrize("kind", CHANGES)
def test_changes_without_permission(kind, root):
    def refused():
        with Database(root) as db, pytest.raises(DatabaseError, match="Permission denied"):
            CHANGES[kind](db)

    nobody = Nobody(refused)
    nobody.step()
    nobody.end()
    assert verify(root) == []


@needs_root
def test_a_mount_that_is_read_only(root, folder):
    (place := folder / "mounted").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("this system does not let its root mount a file system")
    try:
        shutil.copytree(root, place / "db")
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        with Database(place / "db") as db:
            assert len(db.search(small.QUERIES[:1])[0].hits) == 10
            for change in CHANGES.values():
                with pytest.raises(DatabaseError, match="Read-only file system"):
                    change(db)
        with pytest.raises(DatabaseError, match="Read-only file system"):
            small.make(place / "new")
        assert verify(place / "db") == []
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("kind", CHANGES)
def test_a_lock_that_cannot_be_written(kind, db, monkeypatch):
    """A disk may be full before the first byte of a change."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = small.seen(db)
    monkeypatch.setattr(locks.os, "ftruncate", full)
    with pytest.raises(DatabaseError, match="No space left on device"):
        CHANGES[kind](db)
    with pytest.raises(DatabaseError, match="No space left on device"):
        small.make(db.path.with_name("new"))
    monkeypatch.undo()
    assert small.seen(db) == before
