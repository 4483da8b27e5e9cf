"""Labels that change: everything sees the new one at once, updates learn it, undo takes it back."""

from __future__ import annotations

import numpy as np
import pytest
import small
from sklearn.datasets import load_digits

from sihash import SIH
from sihash.database import Database, DatabaseError, IdTaken, NoSuchItem, verify


def labels_of(db):
    return {item.id: item.label for item in db.items(limit=1000)}


def test_everything_sees_the_new_label_at_once(db, folder):
    reader = Database(db.path)
    reader.search(small.QUERIES)  # it has a snapshot to bring along
    report = db.relabel([0, 3], "new")
    assert (report.relabelled, report.label) == ([0, 3], "new")
    db.export(folder / "out.npz")
    exported = np.load(folder / "out.npz")
    assert (
        dict(zip(exported["id"].tolist(), exported["y"].tolist(), strict=True))[3] == '"new"'
    )  # as JSON, beside numbers
    for each in (db, reader, Database(db.path)):
        assert each.item(3).label == "new"
        assert each.labels() == [0, 1, 2, "new"]
        assert [item.id for item in each.items(classes=["new"])] == [0, 3]
        assert 3 not in [item.id for item in each.items(classes=[0])]
        (answer,) = each.search(small.QUERIES[:1], classes=["new"])
        assert sorted((hit.id, hit.label) for hit in answer.hits) == [(0, "new"), (3, "new")]
        info = each.info()
        assert info["classes"] == {0: 18, 1: 20, 2: 20, "new": 2}
        assert (info["n_waiting"], info["undoable"]) == (2, "relabel")


def test_evaluate_goes_by_the_new_labels(db):
    """Queries with the labels of another class find nothing, until the items have them."""
    X, y = small.rows(30, seed=5)
    wrong = np.roll([0, 1, 2], 1)[y]
    assert db.evaluate(X, wrong).p_at_1 < 0.2
    right = db.evaluate(X, y).p_at_1
    ids = {label: [item.id for item in db.items(classes=[label])] for label in (0, 1, 2)}
    for label, own in ids.items():
        db.relabel(own, int(np.roll([0, 1, 2], 1)[label]))
    db.update("relearn", reencode=True)
    assert db.evaluate(X, wrong).p_at_1 == right


def test_none_takes_the_label_away(db):
    db.relabel([7], None)
    assert db.item(7).label is None
    assert db.info()["n_unlabelled"] == 1
    assert 7 in [hit.id for hit in db.search(small.QUERIES[:1], k=60)[0].hits]
    assert db.update().n_forgotten == 1


def test_undo_gives_the_labels_back_one_relabelling_after_the_other(db):
    first = labels_of(db)
    db.relabel([1, 2], 0)
    second = labels_of(db)
    db.relabel([2, 3], "x")
    for before in (second, first):
        assert db.undo().undone == "relabel"
        assert labels_of(db) == before == labels_of(Database(db.path))
    assert db.info()["n_waiting"] == 0


def test_items_that_have_the_label_are_no_change(db):
    operation = db.info()["operation"]
    assert db.relabel([0], 0).relabelled == []
    assert db.info()["operation"] == operation
    assert db.relabel([0, 1, 1], np.int64(0)).relabelled == [1]


def test_several_classes_become_one(db):
    report = db.relabel_classes([1, 2], "other")
    assert len(report.relabelled) == 40
    assert db.labels() == [0, "other"]
    db.update()
    assert db.classify(small.QUERIES)[0].probabilities.keys() == {0, "other"}


def test_what_cannot_be_relabelled_changes_nothing(db):
    before = small.seen(db)
    with pytest.raises(NoSuchItem, match="No item has the id 999"):
        db.relabel([0, 999], 1)
    with pytest.raises(DatabaseError, match="text or whole numbers"):
        db.relabel([0], 1.5)
    with pytest.raises(NoSuchItem, match="No class is named 'q'"):
        db.relabel_classes(["q"], 1)
    assert small.seen(db) == before


def test_an_update_learns_the_new_labels_as_the_same_change_in_memory(db):
    """The oracle is the hasher itself: the rows leave, and join again with their new labels."""
    X, _ = small.rows(60, seed=0)
    changed = [5, 17, 30]
    params = {name: value for name, value in small.PARAMS.items() if name != "index"}
    hasher = SIH(**params, random_state=0).fit(X, np.arange(60) % 3)
    hasher.update(X[changed], [1, 1, 1], changed, remove=changed)
    db.relabel(changed, 1)
    report = db.update(reencode=True)
    assert (report.n_learned, report.n_forgotten) == (3, 3)
    assert [item.code for item in db.items(limit=100)] == [c.tobytes() for c in hasher.transform(X)]
    assert not db.update().changed


def test_an_update_undone_waits_for_the_label_again(db):
    db.relabel([0], 1)
    db.update()
    assert db.info()["n_waiting"] == 0
    db.undo()
    assert db.info()["n_waiting"] == 1
    db.undo()
    assert db.info()["n_waiting"] == 0


def test_a_label_given_during_an_update_is_learned_by_the_next(db):
    def at_once(phase, done):
        if phase == "ranking" and done == 0:
            Database(db.path).relabel([9], 2)

    db.add(*small.rows(6, seed=3))
    db.update(progress=at_once)
    assert db.item(9).label == 2
    assert db.info()["n_waiting"] == 1
    assert db.update().n_learned == 1


def test_a_compaction_keeps_the_labels_and_drops_the_overlay(db):
    db.add(*small.rows(6, seed=3))
    db.relabel([2, 61], "x")
    db.remove([61])
    seen = small.seen(db)
    db.compact()
    assert small.seen(db) == seen == small.seen(Database(db.path))
    catalogue = db._reader.catalogue
    assert catalogue.rows("relabelled") == []
    number = db._read(lambda s: s.classes).number_of(("x",))
    assert catalogue.rows("items", "id = 2")[0][2] == number
    assert verify(db.path) == []
    assert db.update().n_learned == 6  # five that came, one relabelled
    assert db.item(2).label == "x"


def test_what_comes_again_is_held_against_the_label_of_now(db):
    X, _ = small.rows(1, seed=5)
    db.add(X, [0], ids=["a"])
    db.relabel(["a"], 1)
    assert db.add(X, [1], ids=["a"]).skipped == ["row 0"]
    with pytest.raises(IdTaken):
        db.add(X, [0], ids=["a"])
    assert db.add(X, [0], ids=["a"], replace=True).replaced == ["a"]
    assert db.item("a").label == 0


def test_codes_are_made_again_where_many_items_got_other_labels(tmp_path):
    """A label set has a word of its own, so the codes of before would lie far from those of new queries."""
    X, y = load_digits(return_X_y=True)
    db = Database.create(tmp_path / "db", X[:600], [[int(k)] for k in y[:600]], n_bits=32, n_anchors=100)

    def right():
        answers = db.search(X[600:800], k=10, rank="hamming")
        return np.mean([int(k) in h.labels for k, a in zip(y[600:800], answers, strict=True) for h in a.hits])

    before = right()
    for k in range(5):
        db.relabel(np.flatnonzero(y[:600] == k).tolist(), [k, "even" if k % 2 == 0 else "odd"])
    assert db.update().n_reencoded == 600
    assert right() >= before - 0.03
    db.relabel([0], 3)
    assert db.update().n_reencoded == 0
