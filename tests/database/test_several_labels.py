"""Items with several labels: from every kind of source, through every operation, and out again."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import small
from PIL import Image
from scipy import sparse

from sihash.database import Database, DatabaseError, NoSuchItem, verify
from sihash.database.answers import Hit, label_words
from sihash.database.sources import open_source
from sihash.store.labels import LabelTable, from_json, label_set, label_sets, relevance_labels, to_json

X, Y = small.rows(60, seed=0)
LISTS = [[f"c{k}"] + (["even"] if k % 2 == 0 else []) + (["x"] if i < 12 else []) for i, k in enumerate(Y)]
LISTS[59] = []
SETS = [tuple(sorted(own)) for own in LISTS]


@pytest.fixture
def made(folder):
    with Database.create(folder / "several", X, LISTS, **small.PARAMS) as db:
        yield db


def labels_of(db):
    return {item.id: item.labels for item in db.items(limit=1000)}


# Labels.


def test_a_set_in_the_catalogue():
    for own in (("a",), (3,), ("3",), (1, 2), (1, "1", "b")):
        assert from_json(to_json(own)) == own
    assert to_json(("a",)) == '"a"'
    assert to_json((1, "b")) == '[1, "b"]'


def test_one_order_for_one_set():
    assert label_set(["b", 2, "a", 10, "b"]) == (2, 10, "a", "b")
    assert label_set({"b", "a"}) == label_set(("a", "b")) == label_set(np.array(["b", "a"])) == ("a", "b")
    assert label_set([]) == label_set(None) == label_set(-1) == label_set("") == ()


@pytest.mark.parametrize("value", [["a", ""], ["a", None], [-1], [float("nan")], [["a"]], [1.5], [True]])
def test_what_is_no_label_in_a_list(value):
    with pytest.raises(DatabaseError):
        label_set(value)


def test_lists_and_single_labels_do_not_mix():
    assert label_sets([["a"], None, []]) == [("a",), (), ()]
    with pytest.raises(DatabaseError, match="Item 2 has the label 'b' and item 0 a list of labels"):
        label_sets([["a"], None, "b"])


def test_the_table_by_hand():
    table = LabelTable([(0, '"a"'), (1, '["a", "b"]'), (2, "7"), (3, '[7, "c"]')])
    assert table.labels == ["a", "b", 7, "c"]
    assert [table[k] for k in (1, -1)] == [("a", "b"), ()]
    flat, counts = table.apart(np.array([1, -1, 2, 3, 0]))
    assert (flat.tolist(), counts.tolist()) == ([0, 1, 2, 2, 3, 0], [2, 0, 1, 2, 1])
    assert table.holding(["b", 7]) == [1, 2, 3]
    assert table.sizes(np.array([1, 1, 0, -1])).tolist() == [3, 2, 0, 0]
    assert table.homes(np.array([1, 1, 0, 2])).tolist() == [1, 1, 0, 2]  # "b" is rarer than "a"
    assert table.indicators(np.array([3, -1])).tolist() == [[False, False, True, True], [False] * 4]


def test_labels_of_the_measures():
    assert relevance_labels([("a",), (1,)]) == ["a", "1"]
    assert relevance_labels([("a", "b"), ("b",), ()]).tolist() == [[1, 1], [0, 1], [0, 0]]


def test_the_label_of_an_answer_is_there_where_it_is_one():
    hits = [Hit(1, own, "", 0, 0.0, b"", None) for own in ((), ("a",), ("a", "b"))]
    assert [hit.label for hit in hits] == [None, "a", None]
    assert [label_words(hit.labels) for hit in hits] == ["no label", "a", "a, b"]


# Sources.


@pytest.mark.parametrize("form", ["array", "sparse", "bool"])
def test_an_indicator_matrix(form):
    indicators = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    given = {"array": indicators, "sparse": sparse.csr_array(indicators), "bool": indicators.astype(bool)}[
        form
    ]
    assert open_source(X[:3], given).labels == [(0, 2), (), (1,)]


def test_an_indicator_matrix_with_names():
    frame = pd.DataFrame([[1, 0, 1], [0, 0, 0]], columns=["b", "c", "a"])
    assert open_source(X[:2], frame).labels == [("a", "b"), ()]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.eye(3, dtype=int)[:2], "Expected a row of labels an item, got 2 rows for 3 items"),
        (np.array([[0, 2], [1, 0], [0, 1]]), "must be an indicator matrix"),
        ([["a"], "b", ["c"]], "Item 1 has the label 'b'"),
        ([["a"], ["b", ""], ["c"]], "holds '', which is no label"),
        ([["a"], ["b"]], "Expected as many labels as items, got 2"),
    ],
)
def test_bad_labels_are_refused_and_nothing_is_stored(folder, db, given, message):
    seen = small.seen(db)
    with pytest.raises(ValueError, match=message):
        db.add(small.rows(3, seed=5)[0], given)
    assert small.seen(db) == seen
    with pytest.raises(ValueError, match=message):
        Database.create(folder / "none", small.rows(3, seed=5)[0], given)
    assert not (folder / "none").exists()


def test_npz_with_indicators(folder):
    indicators = np.array([[1, 0], [1, 1], [0, 0]], dtype=np.int8)
    np.savez(folder / "a.npz", X=X[:3], Y=indicators, class_names=["u", "v"])
    assert open_source(folder / "a.npz").labels == [("u",), ("u", "v"), ()]
    np.savez(folder / "b.npz", X=X[:3], Y=indicators, label_names=[10, 2])
    assert open_source(folder / "b.npz").labels == [(10,), (2, 10), ()]
    np.savez(folder / "c.npz", X=X[:3], Y=indicators)
    assert open_source(folder / "c.npz").labels == [(0,), (0, 1), ()]
    np.savez(folder / "d.npz", X=X[:3], Y=indicators, class_names=["u", "v", "w"])
    with pytest.raises(ValueError, match="indicator matrix of 2 columns and names of 3 labels"):
        open_source(folder / "d.npz")


def test_a_list_column_in_parquet(folder):
    frame = pd.DataFrame({"vector": list(X[:3]), "label": [["b", "a"], [], None]})
    frame.to_parquet(folder / "a.parquet")
    assert open_source(folder / "a.parquet").labels == [("a", "b"), (), ()]
    frame["label"] = [[2, 1], [3], []]
    frame.to_parquet(folder / "b.parquet")
    assert open_source(folder / "b.parquet").labels == [(1, 2), (3,), ()]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_table_with_lists(folder, kind):
    path, lists = folder / f"all.{kind}", [["b", "a"], ["c"], []]
    rows = [{"vector": x.tolist(), "label": own} for x, own in zip(X, lists, strict=False)]
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        cells = [{name: json.dumps(value) for name, value in row.items()} for row in rows]
        pd.DataFrame(cells).to_csv(path, index=False)
    assert open_source(path).labels == [("a", "b"), ("c",), ()]


def picture(path, value):
    path.parent.mkdir(exist_ok=True, parents=True)
    noise = np.random.default_rng(value).integers(0, 60, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(noise + np.uint8(value % 3 * 90)).save(path)


def test_one_picture_in_two_folders_has_both_labels(tmp_path):
    for k in range(12):
        picture(tmp_path / "photos" / "abc"[k % 3] / f"{k}.png", k)
    picture(tmp_path / "photos" / "c" / "again.png", 0)
    picture(tmp_path / "photos" / "a" / "twice.png", 3)
    db = Database.create(
        tmp_path / "db", tmp_path / "photos", features="pixels", feature_options={"size": 8}, **small.PARAMS
    )
    assert [(each.name, each.labels) for each in db.created_.joined] == [("c/again.png", ("a", "c"))]
    assert db.created_.conflicts == []
    assert db.item("a/0.png").labels == ("a", "c")
    assert db.info()["classes"] == {"a": 4, "b": 4, "c": 5}
    again = db.add(tmp_path / "photos")
    assert (again.added, again.conflicts, again.joined) == ([], [], [])
    # What is in the database keeps its labels, and the report says so.
    picture(tmp_path / "more" / "b" / "0.png", 0)
    picture(tmp_path / "more" / "c" / "new.png", 50)
    report = db.add(tmp_path / "more")
    assert [(each.name, each.labels, each.kept) for each in report.conflicts] == [
        ("b/0.png", ("b",), ("a", "c"))
    ]
    assert db.item("a/0.png").labels == ("a", "c")
    assert verify(db.path) == []
    assert db.update().changed


# Operations.


def test_what_was_given_is_there(made):
    assert list(labels_of(made).values()) == SETS
    about = made.info()
    assert (about["n_items"], about["n_unlabelled"]) == (60, 1)
    assert about["n_several"] == sum(len(own) > 1 for own in SETS)
    assert about["classes"]["x"] == 12
    assert set(made.labels()) == {"c0", "c1", "c2", "even", "x"}
    (answer,) = made.search(X[:1], k=60)
    assert {hit.id: hit.labels for hit in answer.hits} == labels_of(made)


def test_a_filter_finds_every_set_with_the_label(made):
    (answer,) = made.search(X[:1], k=60, classes=["x", "c1"])
    assert {hit.id for hit in answer.hits} == {k for k, own in enumerate(SETS) if {"x", "c1"} & set(own)}
    assert [item.id for item in made.items(classes=["x"])] == list(range(12))
    with pytest.raises(NoSuchItem):
        made.search(X[:1], classes=["nothing"])


def test_an_item_of_a_database_with_single_labels_may_have_two(db):
    db.add(small.rows(3, seed=8)[0], [[0, "new"], [1], []])
    assert [db.item(k).labels for k in (60, 61, 62)] == [(0, "new"), (1,), ()]
    assert db.update().n_learned == 2
    assert "new" in db.info()["classes"]
    assert db.search(small.QUERIES, k=5)


def test_a_class_that_goes_takes_items_without_another_label(made):
    report = made.remove_classes(["c0"])
    assert report.removed == []
    assert report.relabelled == [k for k, own in enumerate(SETS) if "c0" in own]
    assert made.item(0).labels == ("even", "x")
    report = made.remove_classes(["c1", "even"])
    gone = [k for k, own in enumerate(SETS) if own and set(own) <= {"c0", "c1", "even"}]
    assert report.removed == gone
    assert len(made) == 60 - len(gone)
    made.undo()
    assert len(made) == 60
    made.undo()
    assert list(labels_of(made).values()) == SETS


def test_relabel_and_rename(made):
    assert made.relabel([0, 59], ["b", "a", "b"]).labels == ("a", "b")
    assert made.item(59).labels == ("a", "b")
    assert made.relabel([0], []).relabelled == [0]
    assert made.item(0).labels == ()
    report = made.relabel_classes(["even", "c1"], ["not odd"])
    assert report.label == "not odd"
    assert made.item(1).labels == ("not odd", "x")
    assert made.item(2).labels == ("c2", "not odd", "x")
    assert "even" not in made.labels()
    before = labels_of(made)
    made.compact()
    assert labels_of(made) == before == labels_of(Database(made.path))
    assert verify(made.path) == []
    assert made.update("relearn").changed


def test_an_update_learns_only_what_changed(made):
    made.relabel([3], ["c0", "even"])
    assert made.info()["n_waiting"] == 1
    assert (made.update().n_learned, made.info()["n_waiting"]) == (1, 0)


def test_lists_of_one_are_as_single_labels_to_the_bit(folder):
    one = Database.create(folder / "one", X, Y, **small.PARAMS)
    lists = Database.create(folder / "lists", X, [[int(k)] for k in Y], **small.PARAMS)
    more = small.rows(9, seed=4)
    one.add(*more)
    lists.add(more[0], [[int(k)] for k in more[1]])
    for db in (one, lists):
        db.remove_classes([1])
        db.update()
    assert small.seen(one) == small.seen(lists)
    assert one.evaluate() == lists.evaluate()


@pytest.mark.parametrize("ending", ["parquet", "npz"])
@pytest.mark.parametrize("kind", ["text", "numbers", "both"])
def test_an_export_comes_back(folder, ending, kind):
    change = {"text": str, "numbers": hash, "both": lambda label: 7 if label == "x" else label}[kind]
    lists = [[change(label) for label in own] for own in LISTS]
    first = Database.create(folder / "first", X, lists, **small.PARAMS)
    first.export(folder / f"all.{ending}")
    second = Database.create(folder / "second", folder / f"all.{ending}", **small.PARAMS)
    assert labels_of(second) == labels_of(first)
    assert small.seen(second)[1] == small.seen(first)[1]


def test_merging(made, folder):
    copied = Database(small.copy(made.path, folder / "copy"))
    copied.add(small.rows(2, seed=9)[0], [["x", "new"], ["c0", "even"]])
    both = Database.merge(folder / "both", made.path, copied.path)
    assert list(labels_of(both).values()) == [*SETS, ("new", "x"), ("c0", "even")]
    copied.relabel([0], ["x"])
    with pytest.raises(DatabaseError, match="differ in content, label or columns"):
        Database.merge(folder / "not", made.path, copied.path)


# Answers.


def test_evaluation_counts_a_label_in_common(made):
    queries, _ = small.rows(6, seed=3)
    labels = [["c0", "x"], ["c1"], ["nothing", "c2"], ["even"], ["c1", "c2"], ["c2"]]
    found = made.evaluate(queries, labels, rank="vector")
    right = [
        [bool(set(hit.labels) & set(own)) for hit in answer.hits if hit.labels]
        for answer, own in zip(made.search(queries, k=60, rank="vector"), labels, strict=True)
    ]
    assert found.p_at_1 == pytest.approx(np.mean([row[0] for row in right]))
    assert found.p_at_10 == pytest.approx(np.mean([np.mean(row[:10]) for row in right]))
    precision = [np.mean([np.mean(row[: k + 1]) for k in np.flatnonzero(row)]) for row in right]
    assert found.mAP == pytest.approx(np.mean(precision))
    assert {each.label: each.n_queries for each in found.classes} == {
        "c0": 1, "c1": 2, "c2": 3, "x": 1, "even": 1
    }  # fmt: skip
    assert made.compare(queries, labels).rows[1].p_at_1 > 0
    assert made.evaluate().n_queries > 0


def test_classify_tells_all_likely_labels(made):
    for found in made.classify(X[:5]):
        assert found.label in found.labels
        assert found.probability == max(found.probabilities.values())
        assert all(0 <= p <= 1 for p in found.probabilities.values())


def test_the_doctor_judges_items_with_several_labels(folder):
    rows, y = small.rows(240, seed=2, classes=4)
    lists = [[f"c{k}", "even"] if k % 2 == 0 else [f"c{k}"] for k in y]
    lists[5], lists[8] = ["c0", "even"], ["c1", "c3"]  # of c1, and of c0
    db = Database.create(folder / "db", rows, lists, **{**small.PARAMS, "n_bits": 16})
    found = db.doctor()
    wrong = {each.items[0].id: each for each in found.findings if each.kind == "wrong label"}
    assert {5, 8} <= set(wrong)
    assert "labelled c0, even, looks like" in wrong[5].reason
    assert wrong[5].command("DB").startswith("sihash relabel DB 5 c")


def test_bits_and_samples(made):
    assert set(made.bits().classes) == {"c0", "c1", "c2", "even", "x"}
    assert len(made.sample(20)) == 20
    assert {label for item in made.sample(5) for label in item.labels} >= {"x"}
