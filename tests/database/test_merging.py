"""Two databases become one: what both have, what one has, and what cannot be put together."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import small
from test_faults import Failing

from sihash.database import Database, DatabaseError, verify
from sihash.store import files

X, Y = small.rows(60, seed=0)


def everything(db):
    return {i.id: (i.label, i.name, i.sha256, i.code, i.columns) for i in db.items(limit=1000)}


def rows(db):
    """What items are, whatever their ids."""
    return sorted((str(i.label), i.sha256, i.code) for i in db.items(limit=1000))


@pytest.fixture
def two(template, folder):
    """Copies of one database that went their own ways; closed."""
    with Database(small.copy(template, folder / "a")) as a:
        a.add(*small.rows(6, seed=1, classes=4))
        a.remove([3, 7])
    with Database(small.copy(template, folder / "b")) as b:
        b.add(*small.rows(4, seed=2, classes=6), names=["n0", "n1", "n2", "n3"])
        b.add(small.rows(6, seed=1, classes=4)[0][:2], [0, 1])
        b.remove([5, 7])
    return folder / "a", folder / "b"


def test_the_union_is_found_and_learned_from(two, folder):
    a, b = (Database(path) for path in two)
    with Database.merge(folder / "c", *two) as c:
        assert rows(c) == sorted(set(rows(a)) | set(rows(b)))
        assert c.merged_.n_first == len(a)
        assert len(c) == len(a) + c.merged_.n_second
        assert len(c.merged_.skipped) + c.merged_.n_second == len(b)
        mine = everything(a)
        assert {own: item for own, item in everything(c).items() if own in mine} == mine
        assert verify(c.path) == []
        # Searches find what both would have found.
        for query in small.QUERIES:
            parts = [db.search(query, k=100, rank="hamming")[0].hits for db in (a, b)]
            expected = sorted({(hit.distance, hit.code) for hits in parts for hit in hits})
            found = [(hit.distance, hit.code) for hit in c.search(query, k=200, rank="hamming")[0].hits]
            assert sorted(set(found)) == expected
        # The model goes on from what it was learned from, removed items and all.
        assert c.info()["n_waiting"] > 0
        c.update()
        c.update("relearn")
        c.undo()
        c.compact()
        assert rows(c) == sorted((label, content, code) for label, content, code in rows(c))
        assert verify(c.path) == []
    assert verify(two[0]) == verify(two[1]) == []


def test_versions_and_undoing_start_with_the_merged_database(two, folder):
    for path in two:
        with Database(path) as db:
            db.remove([i.id for i in db.items(limit=100) if i.id >= 60])
            db.compact()
    shutil.rmtree(two[1])
    with Database(two[0]) as a:
        a.add(*small.rows(3, seed=5))
        a.update()
        shutil.copytree(two[0], two[1])
    with Database.merge(folder / "c", *two) as c:
        assert c.version == 2
        assert [(v.number, v.current) for v in c.versions()] == [(2, True)]
        with pytest.raises(DatabaseError, match="nothing to undo"):
            c.undo()
        c.add(*small.rows(2, seed=6))
        assert c.update().version == 3
        c.undo()
        assert c.version == 2


def shop(path, ids, X, Y, columns=None):
    return Database.create(path, X, Y, ids=ids, columns=columns, **small.PARAMS)


@pytest.fixture
def shops(folder):
    with shop(folder / "a", [f"s{k}" for k in range(60)], X, Y, {"n": list(range(60))}):
        shutil.copytree(folder / "a", folder / "b")
    return folder / "a", folder / "b"


NEW, _ = small.rows(4, seed=9)


def test_ids_and_columns_stay(shops, folder):
    with Database(shops[0]) as a, Database(shops[1]) as b:
        a.add(NEW[:2], [0, 1], ids=["x", "y"], columns={"n": [1, 2]})
        b.add(
            NEW[1:], [1, None, "other"], ids=["y", "z", 7], columns={"n": [2, 3, 4], "m": [None, "t", None]}
        )
        a.remove(["s3"])
        expected = everything(b) | everything(a)
        with Database.merge(folder / "c", *shops) as c:
            assert everything(c) == expected  # s3 is back: the second has it
            assert c.info()["columns"] == {"n": "number", "m": "text"}
            assert [i.id for i in c.items(where="n = 3")] == ["s3", "z"]
            assert c.add(small.rows(1, seed=11)[0]).added[0] > 7
            assert verify(c.path) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda b: b.add(NEW[1:2], [0], ids=["x"], columns={"n": [1]}),
            "id 'x', and the two differ",
        ),
        (lambda b: b.add(NEW[:1], [1], ids=["x"], columns={"n": [1]}), "item with the id 'x'"),
        (lambda b: b.add(NEW[:1], [0], ids=["x"], columns={"n": [2]}), "item with the id 'x'"),
        (lambda b: b.add(NEW[:1], [0], ids=["X"], columns={"n": [1]}), "'x' and 'X' differ only in case"),
        (lambda b: b.add(NEW[1:2], [0], ids=["z"], columns={"k": ["a"]}), "Column 'k' holds numbers"),
    ],
)
def test_what_cannot_be_put_together_is_named(shops, folder, change, message):
    with Database(shops[0]) as a, Database(shops[1]) as b:
        a.add(NEW[:1], [0], ids=["x"], columns={"n": [1]})
        a.add(NEW[3:], [0], ids=["k"], columns={"k": [1]})
        change(b)
    with pytest.raises(DatabaseError, match=message):
        Database.merge(folder / "c", *shops)
    assert not (folder / "c").exists()


def test_items_without_ids_that_differ_in_their_label_are_named(template, folder):
    paths = [small.copy(template, folder / name) for name in "ab"]
    for path, label in zip(paths, [0, 1], strict=True):
        with Database(path) as db:
            db.add(NEW[:1], [label], names=["the one"])
    with pytest.raises(DatabaseError, match=r"an item like 'the one' \(id 60\)"):
        Database.merge(folder / "c", *paths)


def test_a_database_and_itself(shops, folder):
    """Also where one content is there under an id, and without one."""
    with Database(shops[0]) as a:
        a.add(NEW[:2], [0, 1])
        a.add(NEW[:1], [1], ids=["x"], columns={"n": [1]})
        expected = everything(a)
    with Database.merge(folder / "c", shops[0], shops[0]) as c:
        assert everything(c) == expected
        assert (c.merged_.n_second, len(c.merged_.skipped)) == (0, 63)


def test_databases_that_were_learned_apart_are_told_what_to_do(db, folder):
    other = Database.create(folder / "other", *small.rows(60, seed=5), **small.PARAMS)
    with pytest.raises(DatabaseError, match=r"were learned apart.*sihash export, sihash add.* update it\."):
        Database.merge(folder / "c", db.path, other.path)
    with pytest.raises(DatabaseError, match="no database"):
        Database.merge(folder / "c", db.path, folder / "nothing")
    with pytest.raises(DatabaseError, match="already holds a database"):
        Database.merge(other.path, db.path, db.path)
    assert not (folder / "c").exists()


def test_thumbnails_come_along(folder):
    rng = np.random.RandomState(0)
    images = [rng.randint(0, 255, (30, 30, 3)).astype(np.uint8) for _ in range(14)]
    params = {"n_bits": 8, "n_anchors": 5, "kernel_width": 1.0, "index": "exact"}
    with Database.create(folder / "a", images[:12], [0, 1] * 6, **params) as a:
        shutil.copytree(folder / "a", folder / "b")
        a.add(images[12:13], 0)
    with Database(folder / "b") as b:
        b.add(images[13:], 1)
        expected = b.thumbnail(12)
    with Database.merge(folder / "c", folder / "a", folder / "b") as c:
        assert c.thumbnail(13) == expected
        assert len(c) == 14


def test_every_call_of_a_merge_may_fail(two, folder, monkeypatch):
    """Whole, or not at all; and then again in the same place."""
    disk = Failing()
    monkeypatch.setattr(files, "disk", disk)
    expected = small.seen(Database.merge(folder / "clean", *two))
    monkeypatch.undo()
    for k in range(0, disk.n_calls, 1 if small.SOAK else 3):
        monkeypatch.setattr(files, "disk", Failing(k))
        with pytest.raises(DatabaseError):
            Database.merge(folder / f"{k}", *two)
        monkeypatch.undo()
        with Database.merge(folder / f"{k}", *two) as db:
            assert small.seen(db) == expected
            assert verify(db.path) == []
        shutil.rmtree(folder / f"{k}")


def test_labels_that_were_changed_are_merged(two, folder):
    with Database(two[0]) as a, Database(two[1]) as b:
        for db in (a, b):
            db.relabel([10], "both")
        a.relabel([65], "first")
        b.relabel([61], None)
        expected = sorted(set(rows(a)) | set(rows(b)))
    with Database.merge(folder / "c", *two) as c:
        assert rows(c) == expected
        assert c.item(10).label == "both"
        assert c.item(65).label == "first"
        assert verify(c.path) == []
        c.compact()
        assert rows(c) == expected
    with Database(two[1]) as b:
        b.relabel([11], "second")
    with pytest.raises(DatabaseError, match="differ in content, label or columns"):
        Database.merge(folder / "d", *two)
