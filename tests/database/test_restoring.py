"""A database whose folder is moved, replaced by a copy, or left for another folder, while it is open."""

from __future__ import annotations

import os
import threading
import time

import pytest
import small

from sihash.database import CorruptFile, Database, DatabaseBusy, DatabaseError, operations, updating, verify
from sihash.store import catalogue
from sihash.store.catalogue import FILE, Catalogue


def exchange(root, copy):
    """What a user does to restore a copy."""
    root.rename(root.with_name("old"))
    copy.rename(root)


@pytest.fixture
def lived_in(db, folder):
    """An open database that went on after a copy was taken."""
    copy = small.copy(db.path, folder / "copy")
    db.add(*small.rows(6, seed=3, classes=4))
    db.update()
    db.search(small.QUERIES)
    return db, copy


@pytest.mark.parametrize("background", [False, True])
def test_an_open_handle_follows_a_restored_copy(lived_in, background):
    db, copy = lived_in
    with Database(db.path, background=background) as handle:
        assert handle.search(small.QUERIES[:1], classes=[1])[0].version == 2
        with Database(copy) as before:
            expected = small.seen(before)
        exchange(db.path, copy)
        assert small.seen(handle) == expected
        assert handle.add(*small.rows(6, seed=4)).version == 1
        assert handle.search(small.QUERIES[:1], classes=[1])[0].version == 1
        assert verify(handle.path) == verify(handle.path.with_name("old")) == []
        with Database(handle.path) as fresh:
            assert small.seen(fresh) == small.seen(handle)
            assert len(fresh) == 66


@pytest.mark.parametrize("change", ["add", "remove", "undo", "update", "compact"])
def test_every_change_through_an_open_handle_is_one_of_the_copy(lived_in, change):
    db, copy = lived_in
    with Database(copy) as other:
        other.add(*small.rows(6, seed=5))
    arguments = {"add": small.rows(3, seed=6), "remove": ([1],)}.get(change, ())
    exchange(db.path, copy)
    getattr(db, change)(*arguments)
    assert verify(db.path) == verify(db.path.with_name("old")) == []
    with Database(db.path) as fresh, Database(db.path.with_name("old")) as old:
        assert small.seen(fresh) == small.seen(db)
        assert old.version == 2


def test_a_copy_with_other_features_is_followed(db, folder):
    X, y = small.rows(60, seed=7)
    Database.create(folder / "copy", X[:, :5], y, **small.PARAMS).close()
    exchange(db.path, folder / "copy")
    assert len(db.search(small.QUERIES[:, :5])) == 4
    with pytest.raises(DatabaseError, match="vectors of 5 numbers"):
        db.search(small.QUERIES)


CHANGES = {"add": lambda db: db.add(*small.rows(6, seed=8)), "update": lambda db: db.update()}


@pytest.mark.parametrize(
    ("change", "place", "name"), [("add", operations, "ingest"), ("update", updating, "write_models")]
)
def test_a_copy_that_comes_in_the_middle_of_a_change_is_left_alone(
    lived_in, change, place, name, monkeypatch
):
    """Neither the copy nor what was moved away is a mixture of both afterwards."""
    db, copy = lived_in
    db.add(*small.rows(6, seed=5))
    before = small.seen(db)
    with Database(copy) as other:
        expected = small.seen(other)
    once = [lambda: exchange(db.path, copy)]
    original = getattr(place, name)

    def slow(*arguments, **options):
        result = original(*arguments, **options)
        while once:
            once.pop()()
        return result

    monkeypatch.setattr(place, name, slow)
    with pytest.raises(DatabaseError):
        CHANGES[change](db)
    assert small.seen(db) == expected
    assert verify(db.path) == verify(db.path.with_name("old")) == []
    with Database(db.path.with_name("old")) as old:
        assert small.seen(old) == before


def test_a_search_in_the_middle_of_which_a_copy_comes_is_of_one_of_them(lived_in, monkeypatch):
    db, copy = lived_in
    expected = []
    for each in (db.path, copy):
        with Database(each) as other:
            expected.append(other.search(small.QUERIES, classes=[1], rank="hamming"))
    once = [lambda: exchange(db.path, copy)]
    items = Catalogue.items

    def slow(self, ids):
        while once:
            once.pop()()
        return items(self, ids)

    monkeypatch.setattr(Catalogue, "items", slow)
    with Database(db.path) as handle:
        assert handle.search(small.QUERIES, classes=[1], rank="hamming") in expected
        assert handle.search(small.QUERIES, classes=[1], rank="hamming") == expected[1]


def test_threads_follow_a_restored_copy(lived_in):
    """None fails: between the two renamings, where there is nothing, they wait."""
    db, copy = lived_in
    answers, failures, stop = [], [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                answers.append(db.search(small.QUERIES[:1])[0].version)
            except DatabaseError as error:
                failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    db.path.rename(db.path.with_name("old"))
    time.sleep(0.1)
    copy.rename(db.path)
    end = len(answers) + 50
    while len(answers) < end and not failures:
        stop.wait(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert answers[-1] == 1


def test_a_folder_that_is_gone_is_not_called_damaged(db, folder, monkeypatch):
    monkeypatch.setattr(catalogue, "EXCHANGE_SECONDS", 0.05)
    db.path.rename(folder / "elsewhere")
    calls = [
        lambda: db.search(small.QUERIES),
        lambda: db.search(small.QUERIES, classes=[1]),
        db.info,
        lambda: db.add(*small.rows(3, seed=1)),
        lambda: db.remove([1]),
        db.update,
        db.undo,
        db.compact,
    ]
    for call in calls:
        with pytest.raises(DatabaseError, match="no longer exists: the folder was moved or deleted") as error:
            call()
        assert not isinstance(error.value, CorruptFile | DatabaseBusy)
    (folder / "elsewhere").rename(db.path)
    assert db.add(*small.rows(3, seed=1)).added == [60, 61, 62]


def test_the_current_folder_may_change(template, folder, monkeypatch):
    small.copy(template, folder / "db")
    (folder / "other").mkdir()
    monkeypatch.chdir(folder)
    with (
        Database("db") as db,
        Database.create("made", *small.rows(30, seed=0), **small.PARAMS) as made,
    ):
        monkeypatch.chdir(folder / "other")
        for each, n in ((db, 60), (made, 30)):
            assert each.path.is_absolute()
            assert len(each.search(small.QUERIES[:1], classes=[1])[0].hits) == 10
            assert len(each.add(*small.rows(3, seed=1)).added) == 3
            assert each.info()["n_items"] == n + 3
    assert os.listdir(folder / "other") == []


# What the catalogue must name.


def forget(root, where):
    """A catalogue that is whole, and names less than it should."""
    catalogue = Catalogue(root, write=True)
    catalogue.begin()
    catalogue.delete("files", where)
    version = catalogue.operations()[-1].version
    catalogue.commit("remove", version, {"n_removed": 0})
    catalogue.close()


@pytest.mark.parametrize(
    "kind", ["hash", "training-state", "training", "codes", "rows", "vectors", "sketcher"]
)
def test_files_that_are_not_named_are_missed(lived_in, kind):
    db, _ = lived_in
    db.close()
    forget(db.path, f"kind = '{kind}'")
    problems = verify(db.path)
    assert [problem.file for problem in problems] == [FILE]
    assert f"names no {kind}" in problems[0].reason
    if kind not in ("training-state", "training"):
        with Database(db.path) as opened, pytest.raises(CorruptFile, match=f"names no {kind}"):
            opened.search(small.QUERIES)
    elif kind == "training-state":
        with Database(db.path) as opened, pytest.raises(CorruptFile, match="names no training-state"):
            opened.update()
