"""Nothing but `sihash.store.files` writes, renames or deletes in a database: fault injection sees all."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import contextmanager

import pytest
import small

from sihash.database import Database

CHANGING = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"}
LOCKS = ("writer.lock", "waiting.lock", "update.lock")
_watched: list = []  # a hook cannot be taken away: it looks where there is something to watch


def _writes(event, args):
    if event == "open":
        mode, flags = args[1], args[2]
        by_mode = isinstance(mode, str) and any(letter in mode for letter in "wax+")
        return by_mode or bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
    return event in CHANGING or event.startswith("shutil.")


def _hook(event, args):
    if not _watched or not (event == "open" or event in CHANGING or event.startswith("shutil.")):
        return
    root, found = _watched[-1]
    names = [os.fspath(a) for a in args if isinstance(a, str | os.PathLike)]
    inside = [name for name in names if str(name).startswith(str(root))]
    if inside and _writes(event, args) and not str(inside[0]).endswith(LOCKS):
        frames = [(frame.filename, frame.name) for frame in traceback.extract_stack()]
        by_files = any(name.endswith(os.path.join("store", "files.py")) for name, _ in frames)
        found.append((event, inside[0], by_files))


sys.addaudithook(_hook)


@contextmanager
def watched(root):
    """What is written, renamed or deleted below ``root``, and whether `files` does it."""
    found: list = []
    _watched.append((root, found))
    try:
        yield found
    finally:
        _watched.pop()


CHANGES = {
    "add": lambda db: [db.add(*small.rows(2, seed=seed)) for seed in range(1, 7)],  # merges, too
    "replace": lambda db: db.add(small.rows(1, seed=5)[0], [0], ids=[1], columns={"a": ["b"]}, replace=True),
    "remove": lambda db: db.remove([1, 2]),
    "relabel": lambda db: db.relabel([3], "other"),
    "update": lambda db: (db.add(*small.rows(2, seed=1)), db.update()),
    "relearn": lambda db: db.update("relearn"),
    "reencode": lambda db: (db.add(*small.rows(2, seed=1)), db.update(reencode=True)),
    "undo": lambda db: (db.remove([1]), db.undo()),
    "compact": lambda db: (db.remove([1]), db.update(), db.compact()),
    "search": lambda db: (db.search(small.QUERIES), db.info(), db.verify()),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_nothing_else_writes_in_a_database(kind, db):
    with watched(db.path) as found:
        CHANGES[kind](db)
    assert [each for each in found if not each[2]] == []
    assert bool(found) == (kind not in ("remove", "relabel", "undo", "search"))


def test_a_creation_makes_the_catalogue_and_nothing_else_by_itself(folder):
    with watched(folder) as found:
        small.make(folder / "db").close()
    others = {(event, os.path.basename(path)) for event, path, by_files in found if not by_files}
    assert others == {("open", "catalogue.sqlite")}  # SQLite opens it afterwards


def test_the_hook_sees_a_write_past_the_module(db):
    with watched(db.path) as found, open(db.path / "stray", "w"):
        pass
    assert found == [("open", str(db.path / "stray"), False)]
    with Database(db.path) as again:
        assert again.verify() == []
