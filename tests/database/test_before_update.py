"""The collection as it was before the last update: the same, to the bit, as it answered then."""

from __future__ import annotations

import numpy as np
import pytest
import small

from sihash.database import Database, DatabaseError


@pytest.fixture
def db(folder):
    with Database.create(folder / "db", *small.rows(120, seed=1), **small.PARAMS) as db:
        yield db


def test_it_answers_as_it_did(db):
    queries, _ = small.rows(8, seed=3)
    X, y = small.rows(60, seed=2)
    db.add(X, y + 5)
    then = db.search(queries), db.ids(), [item.labels for item in db.items(limit=200)]
    db.update()
    db.remove([3, 4])
    db.relabel_each({5: 9, 6: [1, 2], 7: None})
    db.add(X + 1, y)
    past = db.before_update()
    assert (past.search(queries), past.ids(), [item.labels for item in past.items(limit=200)]) == then
    assert (past.version, db.version) == (1, 2)
    db.remove([10])
    db.update()  # it stays as it is
    assert past.search(queries) == then[0]
    assert db.before_update().version == 2


def test_it_is_read_only_and_needs_an_update(db):
    with pytest.raises(DatabaseError, match="before the last update cannot be had"):
        db.before_update()
    X, y = small.rows(60, seed=2)
    db.add(X, y + 5)
    db.update()
    past = db.before_update()
    for change in (lambda: past.add(X, y), lambda: past.remove([1]), past.undo, past.compact, past.update):
        with pytest.raises(DatabaseError, match="only be read"):
            change()
    past.close()
    assert len(db) == 180
    db.undo()
    with pytest.raises(DatabaseError, match="cannot be had"):
        db.before_update()


def test_each_item_gets_labels_of_its_own_as_one_change(db):
    before = [item.labels for item in db.items(limit=4)]
    report = db.relabel_each({0: "a", 1: ["b", "c"], 2: None})
    assert (report.relabelled, report.labels) == ([0, 1, 2], ())
    assert [item.labels for item in db.items(limit=4)] == [("a",), ("b", "c"), (), before[3]]
    with pytest.raises(DatabaseError, match="No item has the id"):
        db.relabel_each({3: "a", 999: "b"})
    assert db.undo().undone == "relabel"
    assert [item.labels for item in db.items(limit=4)] == before


def test_items_are_found_by_texts(folder):
    X, y = small.rows(40, seed=1)
    ids = [f"Sku_{k}" for k in range(40)]
    columns = {"words": ["Über 50 % off", *[f"item {k}" for k in range(1, 40)]], "n": np.arange(40)}
    with Database.create(folder / "db", X, y, ids=ids, columns=columns, **small.PARAMS) as db:
        found = {text: db.ids(text=text) for text in ("über 50 %", "%", "item 3", "sku_3", "_", "nothing")}
        assert found["über 50 %"] == found["%"] == ["Sku_0"]
        assert found["item 3"] == ["Sku_3", *[f"Sku_{k}" for k in range(30, 40)]]
        assert found["sku_3"] == ["Sku_3", *[f"Sku_{k}" for k in range(30, 40)]]
        assert found["_"] == ids
        assert found["nothing"] == []
        db.remove(["Sku_30"])
        assert db.ids(text="sku_3", where="n > 31") == [f"Sku_{k}" for k in range(32, 40)]
        assert [item.id for item in db.items_of(["Sku_9", "Sku_30", "Sku_2"])] == ["Sku_2", "Sku_9"]
