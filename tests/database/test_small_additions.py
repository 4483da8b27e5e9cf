"""Thousands of small additions, many updates: files stay few, and undoing goes on as if none were merged."""

from __future__ import annotations

import os

import numpy as np
import pytest
import small
from hypothesis import given
from hypothesis import strategies as st

from sihash.database import Database, DatabaseError
from sihash.database.updating import UpdatePolicy
from sihash.store import files
from sihash.store.catalogue import Catalogue
from sihash.store.compaction import n_last_to_merge
from sihash.store.files import Disk

X, Y = small.rows(400, seed=4)


class Counting(Disk):
    """Counts calls and bytes."""

    def __init__(self):
        self.n_calls = self.n_bytes = 0

    def write(self, descriptor, data):
        self.n_calls += 1
        self.n_bytes += len(data)
        return super().write(descriptor, data)

    def sync(self, descriptor):
        self.n_calls += 1
        super().sync(descriptor)


def n_files(root):
    return sum(len(names) for _, _, names in os.walk(root))


def add_one(db, k):
    db.add(X[k : k + 1], [int(Y[k])])


@given(st.lists(st.integers(1, 50), max_size=300))
def test_segments_stay_few_whatever_the_sizes(added):
    sizes, n_written = [], 0
    for size in added:
        sizes.append(size)
        n = n_last_to_merge(sizes, full=10**9)
        if n:
            n_written += sum(sizes[-n:])
            sizes[-n:] = [sum(sizes[-n:])]
    total = sum(added)
    assert sum(sizes) == total
    assert len(sizes) <= 4 * np.log2(total + 2)
    assert n_written <= total * np.log2(total + 2)


def test_full_segments_are_left_alone():
    assert n_last_to_merge([1, 1, 1, 50], full=100) == 0
    assert n_last_to_merge([50, 1, 1, 1, 1], full=100) == 4
    assert n_last_to_merge([30, 30, 30, 30], full=100) == 0


def test_the_cost_of_an_addition_does_not_grow(db, monkeypatch):
    calls, sizes = [], []
    for k in range(200):
        disk = Counting()
        monkeypatch.setattr(files, "disk", disk)
        add_one(db, k)
        calls.append(disk.n_calls)
        sizes.append(db.info()["n_segments"])
    monkeypatch.undo()
    assert np.mean(calls[-50:]) <= 2 * calls[0]
    assert max(sizes) <= 4 * np.log2(260)
    assert n_files(db.path) < 100
    assert db.verify() == []


def test_the_log_is_read_once_whatever_is_learned(db, monkeypatch):
    """An addition after an update goes on from the operations that are known."""
    read, operations = [], Catalogue.operations

    def noted(self, after=0):
        found = operations(self, after)
        read.append(len(found))
        return found

    for k in range(20):
        add_one(db, k)
    db.update()
    monkeypatch.setattr(Catalogue, "operations", noted)
    add_one(db, 20)
    assert max(read) <= 2
    monkeypatch.undo()
    db.undo()
    db.undo()  # the update
    with Database(db.path) as fresh:
        known, again = (each._read(lambda s: s.log) for each in (db, fresh))
        assert {**vars(known), "operations": 0, "last": 0} == {**vars(again), "operations": 0, "last": 0}
        assert list(known.operations) == list(again.operations)


def test_additions_that_were_merged_are_undone_one_by_one(db):
    """With removals, labels and columns in between; a reader follows, another opens."""
    reader, states = Database(db.path), [small.seen(db)]
    changes = [
        lambda k: db.remove([k % 50]),
        lambda k: db.relabel([50 + k % 10, 60 + k // 2], "other"),
        lambda k: db.add(X[k + 100 : k + 103], [0, None, 2], columns={"price": [1.5, None, 3]}),
        lambda k: db.add(X[k + 200 : k + 201], [1], ids=[f"own {k}"], columns={"colour": ["blue"]}),
        lambda k: db.add(X[k + 300 : k + 301], [2], ids=[f"own {k - 1}"], replace=True),
    ]
    for k in range(40):
        (changes[k // 2 % len(changes)] if k % 2 else lambda k: add_one(db, k))(k)
        states.append(small.seen(db))
        assert small.seen(reader) == states[-1]
    assert db.info()["n_segments"] < 12
    with Database(db.path) as fresh:
        assert small.seen(fresh) == states[-1]
    while len(states) > 1:
        db.undo()
        states.pop()
        assert small.seen(db) == small.seen(reader) == states[-1]
        if len(states) % 5 == 0:
            with Database(db.path) as fresh:
                assert small.seen(fresh) == states[-1]
            assert db.verify() == []


@pytest.mark.parametrize("strategy", ["incremental", "relearn"])
@pytest.mark.parametrize("reencode", [False, True])
def test_codes_of_merged_items_are_those_of_their_version(db, strategy, reencode):
    """After updates, additions and merging, undoing leads to the codes of before."""
    reader, states = Database(db.path), [small.seen(db)]
    for k in range(24):
        add_one(db, k)
        states.append(small.seen(db))
        if k % 5 == 4:
            changed = db.update(strategy)
            assert changed.changed
            states.append(small.seen(db))
            if reencode:  # no operation that is undone by itself
                db.update(reencode=True)
                states[-1] = small.seen(db)
        assert small.seen(reader) == states[-1]
    while len(states) > 1:
        undone = db.undo().undone
        states.pop()
        with Database(db.path) as fresh:
            assert small.seen(fresh) == small.seen(db) == small.seen(reader)
        if not reencode or undone == "update":
            assert small.seen(db) == states[-1]


def test_items_that_are_merged_while_others_are_encoded_again(db, monkeypatch):
    for k in range(3):
        add_one(db, k)
    db.update()
    writer, numbers = Database(db.path), iter(range(10, 30))

    def meanwhile(phase, done):
        if phase == "encoding" and done < 1:
            add_one(writer, next(numbers))

    db.update(reencode=True, progress=meanwhile)
    hasher, vectors = db._read(lambda s: (s.hasher, s.vectors(s.places.live_ids())))
    expected = [code.tobytes() for code in hasher.transform(vectors)]
    assert [item.code for item in db.items(limit=1000)] == expected
    assert db.verify() == []


@pytest.mark.parametrize("strategy", ["incremental", "relearn"])
def test_items_that_are_merged_while_an_update_learns(db, strategy):
    for k in range(3):
        add_one(db, k)
    writer = Database(db.path)

    def meanwhile(phase, done):
        if phase == "ranking" and done == 0:
            add_one(writer, 10)  # the fourth: it merges what was encoded already

    db.update(strategy, progress=meanwhile)
    assert db.info()["n_segments"] == 2
    hasher, vectors = db._read(lambda s: (s.hasher, s.vectors(s.places.live_ids())))
    first = 0 if strategy == "relearn" else 60  # others keep their codes
    expected = [code.tobytes() for code in hasher.transform(vectors)]
    assert [item.code for item in db.items(limit=1000)][first:] == expected[first:]
    there = {segment.number for segment in db._read(lambda s: s.places.segments)}
    named = {segment for _, segment, _, _ in db._reader.catalogue.files("segment IS NOT NULL")}
    assert named == there  # no file of a segment that is gone
    assert db.verify() == []


def test_a_long_look_ends_while_additions_go_on(db):
    """Files of merged segments go under a reader's hands; the second time it keeps hold of them."""
    reader, k, n_tries = Database(db.path), iter(range(400)), []

    def work(snapshot):
        n_tries.append(1)
        for _ in range(8):
            add_one(db, next(k))
        return snapshot.vectors(snapshot.places.live_ids())

    add_one(db, next(k))
    assert len(reader._read(work)) in (61, 69, 77)
    assert len(n_tries) <= 3


def test_files_stay_few_and_undoing_goes_back_over_the_last_updates(db):
    states = []
    undoable = UpdatePolicy().undoable_updates
    for k in range(undoable + 4):
        add_one(db, k)
        states.append((db.version, small.seen(db)[1]))
        db.update()
    assert n_files(db.path) < 6 * undoable + 40
    assert db.verify() == []
    for _ in range(undoable):
        assert db.undo().undone == "update"
        assert (db.version, small.seen(db)[1]) == states.pop()
        assert db.undo().undone == "add"
    assert db.info()["undoable"] is None
    with pytest.raises(DatabaseError, match="10 updates at most"):
        db.undo()
    add_one(db, 50)
    db.update()  # goes on from there, and can be undone again
    db.undo()
    assert db.verify() == []
