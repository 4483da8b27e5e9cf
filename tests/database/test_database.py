"""What the database promises, on collections small enough to be checked by hand or by brute force."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest
import small
from PIL import Image

from sihash import SIH, codes
from sihash.database import CorruptFile, Database, DatabaseBusy, DatabaseError, NoSuchItem, verify
from sihash.database.inspection import inspecting
from sihash.database.snapshot import Reader
from sihash.store import files, segments
from sihash.store.catalogue import FORMAT, Catalogue
from sihash.store.locks import locked
from sihash.store.writer import new_folder


def brute_force(db, query, query_code, k, labels=None):
    """Ids of the k nearest living items by distance, then cosine, from the listing and the vectors alone."""
    code = np.frombuffer(query_code, np.uint8)[None]
    found = []
    for item in db.items(limit=10_000):
        if labels is None or item.label in labels:
            mean, z = db._read(lambda s, i=item.id: (s.sketcher.mean, s.vectors(np.array([i]))[0]))
            a, b = query - mean, z - mean
            distance = int(codes.hamming(code, np.frombuffer(item.code, np.uint8)[None])[0, 0])
            found.append((distance, -(a @ b) / np.linalg.norm(a) / np.linalg.norm(b), item.id))
    return [number for _, _, number in sorted(found)[:k]]


# Creating.


def test_created_items_are_listed_in_order(db):
    X, y = small.rows(60, seed=0)
    items = db.items(limit=100)
    assert [item.id for item in items] == list(range(60))
    assert [item.label for item in items] == y.tolist()
    assert [item.sha256 for item in items] == [hashlib.sha256(row.tobytes()).hexdigest() for row in X]
    assert {item.version for item in items} == {1}


def test_codes_are_those_of_the_hasher_alone(db, folder):
    X, y = small.rows(60, seed=0)
    params = {k: v for k, v in small.PARAMS.items() if k != "index"}
    expected = SIH(**params, random_state=0).fit(X, y).transform(X)
    assert [item.code for item in db.items(limit=100)] == [code.tobytes() for code in expected]


def test_creation_refuses_a_place_that_is_taken(db, folder):
    (folder / "full").mkdir()
    (folder / "full" / "letter.txt").write_text("mine")
    for place in (db.path, folder / "full"):
        with pytest.raises(DatabaseError, match="already"):
            small.make(place)
    assert (folder / "full" / "letter.txt").read_text() == "mine"


def test_creation_needs_two_classes_and_can_be_tried_again(folder):
    X, y = small.rows(10, seed=0)
    with pytest.raises(DatabaseError, match="two classes"):
        Database.create(folder / "db", X, [1] * 10, **small.PARAMS)
    assert not (folder / "db").exists()
    (folder / "db").mkdir()
    with pytest.raises(DatabaseError, match="two classes"):
        Database.create(folder / "db", X, [1] * 10, **small.PARAMS)
    with pytest.raises(DatabaseError, match="never finished"):  # the folder was not ours
        Database(folder / "db")
    assert len(Database.create(folder / "db", X, y, **small.PARAMS)) == 10


def test_a_creation_that_another_one_overtook_takes_nothing_away(folder):
    def overtaken():
        with new_folder(folder / "db"):
            small.make(folder / "db").close()
            raise DatabaseBusy("for the test")

    with pytest.raises(DatabaseBusy):
        overtaken()
    assert len(Database(folder / "db")) == 60


def test_an_unknown_index_is_refused_before_anything_is_written(folder):
    with pytest.raises(ValueError, match="index"):
        Database.create(folder / "db", *small.rows(10, seed=0), **{**small.PARAMS, "index": "magic"})
    assert not (folder / "db").exists()


def test_a_server_that_does_not_answer_is_refused_before_anything_is_written(folder):
    index = "milvus+http://127.0.0.1:1/x"
    with pytest.raises(DatabaseError, match=r"127\.0\.0\.1:1"):
        Database.create(folder / "db", *small.rows(10, seed=0), **{**small.PARAMS, "index": index})
    assert not (folder / "db").exists()


def test_no_database(folder):
    with pytest.raises(DatabaseError, match="no database"):
        Database(folder / "nowhere")


def test_a_large_collection_is_learned_from_a_sample(folder):
    X, y = small.rows(600, seed=0)
    db = Database.create(folder / "db", X, y, training_rows=120, **small.PARAMS)
    n = db.versions()[0].n_training
    assert 80 <= n <= 130
    assert len(db) == 600
    assert db.info()["n_waiting"] == 0
    db.add(*small.rows(60, seed=5))
    report = db.update()
    assert 0 < report.n_learned < 40  # of the new ones as large a share as of the others
    db.add(*small.rows(8, seed=6, classes=4))
    assert db.update().n_learned >= 1  # the fourth class
    assert 80 <= db.versions()[-1].n_training <= 130


def test_an_update_of_a_large_collection_reads_only_what_it_learns_from(folder, monkeypatch):
    monkeypatch.setattr("sihash.store.segments.BYTES", 20 * 4 * small.WIDTH)  # segments of 20 vectors
    X, y = small.rows(600, seed=0)
    db = Database.create(folder / "db", X, y, training_rows=50, **small.PARAMS)
    db.add(*small.rows(60, seed=5))
    read = set()
    check = files.MappedArray._check

    def noted(array, blocks):
        read.add(array._file.path)
        check(array, blocks)

    monkeypatch.setattr(files.MappedArray, "_check", noted)
    assert db.update().changed
    old = {path for path in read if ".vectors" in path and int(path.split("/")[1][:6]) <= 30}
    assert not old
    (sample,) = (path for path in read if ".sample" in path)
    (folder / "db" / sample).unlink()  # a copy, which is made again
    db.add(*small.rows(30, seed=6))
    assert db.update().changed
    assert db.verify() == []


# Searching.


def test_files_of_a_search_are_not_all_held_at_once(tmp_path, monkeypatch):
    """However many are named: as many as make up a chunk."""
    rng = np.random.default_rng(0)
    paths = []
    for k in range(40):
        paths.append(tmp_path / f"{k}.png")
        Image.fromarray(rng.integers(0, 256, (300, 300, 3), dtype=np.uint8)).save(paths[-1])
    db = Database.create(tmp_path / "db", paths[:9], [0, 1, 2] * 3, **small.PARAMS)
    size = paths[0].stat().st_size
    monkeypatch.setattr(small.extraction, "_CHUNK_BYTES", 4 * size)
    db.search(paths[:1])
    tracemalloc.start()
    try:
        answers = db.search(paths, k=1, rank="vector")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    db.close()
    assert [answer.hits[0].name for answer in answers[:9]] == [str(file) for file in paths[:9]]
    assert peak < 20 * size


def test_search_agrees_with_brute_force(folder):
    X, y = small.rows(60, seed=0)
    db = Database.create(folder / "db", X, y, **small.PARAMS)
    db.remove([3, 17])
    for query, answer in zip(
        small.QUERIES, db.search(small.QUERIES, k=7, rank="hamming", rescore=True), strict=True
    ):
        assert [hit.id for hit in answer.hits] == brute_force(db, query, answer.query_code, 7)
    found = db.search(small.QUERIES, k=7, rank="hamming", rescore=True, classes=[0, 2])
    for query, answer in zip(small.QUERIES, found, strict=True):
        assert [hit.id for hit in answer.hits] == brute_force(db, query, answer.query_code, 7, {0, 2})


def test_radius_holds_all_within_it_and_nothing_else(db):
    answer = db.search(small.QUERIES[:1], radius=3, rank="hamming")[0]
    query = np.frombuffer(answer.query_code, np.uint8)[None]
    near = [
        item.id
        for item in db.items(limit=100)
        if codes.hamming(query, np.frombuffer(item.code, np.uint8)[None])[0, 0] <= 3
    ]
    assert sorted(hit.id for hit in answer.hits) == near


def test_an_item_is_left_out_of_its_own_answer(db):
    for answer, number in zip(db.search_ids([0, 5, 59], k=59), [0, 5, 59], strict=True):
        assert sorted(hit.id for hit in answer.hits) == [i for i in range(60) if i != number]


def test_queries_of_the_wrong_kind(db):
    for wrong in (np.zeros((1, 9), np.float32), np.array([[np.nan] * 8], np.float32)):
        with pytest.raises(DatabaseError):
            db.search(wrong)
    with pytest.raises(DatabaseError, match="vectors"):
        db.search(["picture.png"])
    with pytest.raises(NoSuchItem):
        db.search(small.QUERIES, classes=["cat"])
    with pytest.raises(NoSuchItem):
        db.search_ids([60])


def test_classify_gives_probabilities_of_all_classes(db):
    X, y = small.rows(12, seed=4)
    answers = db.classify(X)
    assert np.mean([answer.label == label for answer, label in zip(answers, y.tolist(), strict=True)]) > 0.8
    for answer in answers:
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        assert answer.probability == max(answer.probabilities.values())


# Adding and removing.


def test_added_items_are_found_at_once(db):
    X, y = small.rows(5, seed=1)
    report = db.add(X, y, names=[f"new {k}" for k in range(5)])
    assert report.added == [60, 61, 62, 63, 64]
    assert db.item(62).name == "new 2"
    assert [hit.id for hit in db.search(X[3], k=1)[0].hits] == [63]


@pytest.mark.parametrize("form", ["array", "npy", "npz", "parquet", "csv"])
def test_without_ids_every_row_is_an_item_and_its_id_is_its_number(folder, form):
    """Also rows that equal earlier ones, with the same label, another, or none; also past a rejected one."""
    X, y = small.rows(60, seed=0)
    X[[10, 20, 30]], X[15] = X[5], np.nan
    labels = ["abc"[k] for k in y]
    labels[5], labels[10], labels[20], labels[30] = "a", "a", "b", None
    kept = np.delete(np.arange(60), 15)
    path = folder / f"rows.{form}"
    frame = pd.DataFrame({"vector": list(X), "label": labels})
    if form == "csv":
        frame = frame.drop(index=15)
        kept = np.arange(59)
        X, labels = np.delete(X, 15, axis=0), np.delete(np.array(labels, dtype=object), 15).tolist()
        frame["vector"] = [json.dumps(row.tolist()) for row in X]
        frame.to_csv(path, index=False)
    elif form == "parquet":
        frame.to_parquet(path)
    elif form == "npz":
        np.savez(path, X=X, y=np.array(["" if label is None else label for label in labels]))
    elif form == "npy":
        np.save(path, X)
    given = labels if form in ("array", "npy") else None
    with Database.create(folder / "db", X if form == "array" else path, given, **small.PARAMS) as db:
        assert db.created_.added == kept.tolist()
        assert [item.id for item in db.items(limit=100)] == kept.tolist()
        assert [item.label for item in db.items(limit=100)] == [labels[k] for k in kept]
        assert set(db.info()["classes"]) == {"a", "b", "c"}
        other, last = [k - (form == "csv") for k in (20, 30)]
        assert db.created_.repeated == [10, other, last]
        assert [(c.name, c.label, c.kept) for c in db.created_.conflicts] == [(f"row {other}", "b", ("a",))]
        assert {hit.id for hit in db.search(X[5], k=4)[0].hits} == {5, 10, other, last}
        # What comes later goes on from there; what comes twice is there twice, and the report says so.
        report = db.add(X[:3] if form != "npy" else path, None if form != "npy" else labels)
        n = 3 if form != "npy" else 60
        assert report.added == [60 - (form == "csv") + k for k in range(n) if k != 15]
        assert report.repeated == report.added
        assert db.undo().undone == "add"
        conflicts = [f for f in db.doctor().findings if f.kind == "conflict"]
        assert {5, other} in [{item.id for item in f.items} for f in conflicts]
        db.update()
        assert verify(db.path) == []


def test_unlabelled_items_are_searchable_and_not_learned_from(db):
    X, _ = small.rows(4, seed=1)
    db.add(X)
    assert {hit.id for hit in db.search(X, k=64)[0].hits} >= {60, 61, 62, 63}
    assert db.info()["n_unlabelled"] == 4
    assert not db.update().changed


def test_rows_that_are_no_numbers_are_rejected_by_name(db):
    X, y = small.rows(4, seed=1)
    X[1, 0] = np.nan
    X[3, 3] = np.inf
    report = db.add(X, y)
    assert [r.name for r in report.rejected] == ["row 1", "row 3"]
    assert report.added == [60, 62]
    assert db.add(small.rows(1, seed=2)[0]).added == [64]


def test_adding_what_does_not_fit(db):
    for wrong in (np.zeros((2, 9), np.float32), [np.zeros((4, 4, 3), np.uint8)]):
        with pytest.raises(DatabaseError):
            db.add(wrong)
    with pytest.raises(DatabaseError, match="labels"):
        db.add(*small.rows(4, seed=1)[:1], [1, 2])
    with pytest.raises(DatabaseError, match="Labels"):
        db.add(small.rows(1, seed=1)[0], [2.5])
    assert len(db) == 60


def test_removed_items_are_gone_from_everything(db):
    db.remove([0, 7])
    assert len(db) == 58
    assert not {0, 7} & {hit.id for hit in db.search(small.QUERIES[:1], k=60)[0].hits}
    for gone in (db.item, lambda i: db.remove([i]), lambda i: db.search_ids([i])):
        with pytest.raises(NoSuchItem):
            gone(7)
    db.remove_classes([1])
    assert {item.label for item in db.items(limit=100)} == {0, 2}
    with pytest.raises(NoSuchItem, match="'nobody'"):
        db.remove_classes("nobody")  # one label, not six letters


def test_removed_content_may_come_back_under_a_new_id(db):
    X, y = small.rows(60, seed=0)
    db.remove([4])
    assert db.add(X[4:5], y[4:5]).added == [60]


# Updating and undoing.


def test_an_update_learns_what_came_and_forgets_what_went(db):
    db.add(*small.rows(12, seed=1, classes=4))
    db.remove([0, 1])
    assert db.info()["n_waiting"] == 14
    report = db.update(compare=True)
    assert (report.version, report.n_learned, report.n_forgotten) == (2, 12, 2)
    assert set(report.compared) == {"passive", "incremental", "scratch"}
    assert {answer.version for answer in db.search(small.QUERIES)} == {2}
    assert 3 in db.classify(small.QUERIES[:1])[0].probabilities
    assert db.versions()[-1].compared == report.compared
    assert not db.update().changed


def test_hash_functions_after_an_update_are_those_of_the_same_update_in_memory(db):
    X, y = small.rows(60, seed=0)
    more, labels = small.rows(10, seed=1)
    params = {k: v for k, v in small.PARAMS.items() if k != "index"}
    hasher = SIH(**params, random_state=0).fit(X, y)
    hasher.update(more, labels, range(60, 70), remove=[5])
    db.add(more, labels)
    db.remove([5])
    before = [item.code for item in db.items(limit=100)]
    report = db.update()
    assert (report.n_reencoded, report.n_bits_trained <= 16) == (10, True)
    expected = [code.tobytes() for code in hasher.transform(np.delete(np.concatenate([X, more]), 5, axis=0))]
    codes = [item.code for item in db.items(limit=100)]
    assert codes[:59] == before[:59]  # codes stay
    assert codes[59:] == expected[59:]  # but for those of items that the old functions had not seen
    report = db.update(reencode=True)
    assert (report.changed, report.n_reencoded) == (False, 59)
    assert [item.code for item in db.items(limit=100)] == expected
    assert db.update(reencode=True).n_reencoded == 0


def test_an_update_from_scratch_equals_a_new_database(db, folder):
    X, y = small.rows(60, seed=0)
    db.remove(range(30, 60))
    assert db.update("relearn").version == 2
    other = Database.create(folder / "other", X[:30], y[:30], **small.PARAMS)
    assert [item.code for item in db.items()] == [item.code for item in other.items()]


def test_an_update_that_cannot_be(db):
    db.remove_classes([0, 1])
    with pytest.raises(DatabaseError, match="class"):
        db.update()
    with pytest.raises(DatabaseError, match="strategy"):
        db.update("wishful")
    assert db.version == 1
    assert len(db) == 20


def test_undo_takes_back_one_operation_after_the_other(db):
    states = [small.seen(db)]
    for change in (
        lambda: db.add(*small.rows(6, seed=1, classes=4)),
        lambda: db.remove([2, 61]),
        db.update,
        lambda: db.remove_classes([0]),
        lambda: db.update("relearn"),
    ):
        change()
        states.append(small.seen(db))
    kinds = []
    while states[:-1]:
        states.pop()
        kinds.append(db.undo().undone)
        assert small.seen(db) == states[-1]
    assert kinds == ["update", "remove", "update", "remove", "add"]
    with pytest.raises(DatabaseError, match="nothing to undo"):
        db.undo()
    assert db.add(*small.rows(1, seed=9)).added == [66]  # ids are never given twice
    assert db.update().version == 4  # nor are versions


def test_items_added_during_an_update_are_in_the_new_version(db):
    extra, labels = small.rows(5, seed=7)

    def progress(phase, done):
        if phase == "learning" and done == 1.0:
            Database(db.path).add(extra, labels)
            Database(db.path).remove([1])

    db.add(*small.rows(9, seed=1))
    db.update(progress=progress)
    assert len(db) == 73
    assert db.version == 2
    hasher = db._read(lambda snapshot: snapshot.hasher)
    for k, item in enumerate(db.items(offset=68)):
        assert item.code == hasher.transform(extra[k : k + 1]).tobytes()
    assert db.info()["n_waiting"] == 6
    assert db.verify() == []


# Compacting.


def test_compaction_changes_nothing_that_can_be_seen(db):
    for seed in range(1, 5):
        db.add(*small.rows(3, seed=seed))
    db.remove([0, 60, 61, 62])
    db.update()
    before, size = small.seen(db), db.info()["bytes"]
    other = Database(db.path)
    assert small.seen(other) == before
    report = db.compact()
    assert (report.n_dropped, report.segments_before, report.segments_after) == (4, 2, 1)
    assert small.seen(db) == small.seen(other) == small.seen(Database(db.path)) == before
    assert db.info()["bytes"] < size
    assert db.verify() == []
    with pytest.raises(DatabaseError, match="nothing to undo"):
        db.undo()
    db.add(*small.rows(3, seed=8))
    db.undo()
    assert small.seen(db) == before
    assert db.update("relearn").version == 3


def test_an_update_after_a_compaction_can_still_forget(db, template, folder):
    """What a model was learned from is needed to take it out of the model, though nobody can find it."""
    other = Database(small.copy(template, folder / "other"))
    for each in (db, other):
        each.remove([0, 5, 7])
    assert db.compact().n_dropped == 0
    assert (len(db), db.verify()) == (57, [])
    with pytest.raises(NoSuchItem):
        db.item(5)
    for each in (db, other):
        assert each.update().n_forgotten == 3
    assert small.seen(db) == small.seen(other)
    assert db.compact().n_dropped == 3
    assert small.seen(Database(db.path)) == small.seen(other)


def test_a_collection_that_becomes_empty(db):
    db.remove(range(60))
    assert db.search(small.QUERIES)[0].hits == []
    for _ in range(2):
        assert db.compact().n_dropped == 0  # all of them were learned from
        assert (len(db), db.items(), db.verify()) == (0, [], [])
    X, y = small.rows(60, seed=0)
    assert db.add(X[:6], y[:6]).added == [60, 61, 62, 63, 64, 65]
    assert len(db.search(small.QUERIES)[0].hits) == 6
    assert db.update("relearn").version == 2
    assert small.seen(Database(db.path)) == small.seen(db)


def test_a_closed_database_says_so(db):
    db.close()
    with pytest.raises(DatabaseError, match="closed"):
        db.search(small.QUERIES)


def test_a_reader_survives_a_compaction_in_the_middle_of_its_work(db):
    reader = Database(db.path)
    calls = []

    def work(snapshot):
        calls.append(snapshot.operation)
        if len(calls) == 1:
            db.add(*small.rows(1, seed=1))
            db.compact()  # takes the file away that the next line wants
        return snapshot.vectors(np.array([59]))

    assert (reader._read(work) == small.rows(60, seed=0)[0][59]).all()
    assert calls == [1, 3]


def test_so_does_one_that_looks_at_all_items(db):
    reader, looked = Database(db.path), []

    def work(snapshot):
        if not looked:
            db.remove(range(5))
            db.update()
            db.compact()  # takes items and version 1 away
        looked.append(snapshot.operation)
        return inspecting.describe(reader.path, reader._reader.catalogue, snapshot)["n_items"]

    assert reader._read(work) == 55
    assert looked == [1, 4]


def test_a_path_may_begin_at_home(db, monkeypatch):
    monkeypatch.setenv("HOME", str(db.path.parent))
    with Database(f"~/{db.path.name}") as opened:
        assert len(opened) == 60


# Images.


@pytest.fixture
def pictures(folder):
    """Class folders with a broken file, a link, and a text that is no picture."""
    rng = np.random.RandomState(0)
    for k, name in enumerate(("cat", "dog")):
        (folder / "pictures" / name).mkdir(parents=True)
        for number in range(6):
            noise = rng.randint(0, 60, (40, 36, 3)) + 120 * k * (np.arange(36)[:, None] % 6 > 2)
            path = folder / "pictures" / name / f"{number}.png"
            Image.fromarray(noise.astype(np.uint8)).save(path)
    (folder / "pictures" / "cat" / "broken.jpg").write_bytes(b"\xff\xd8\xff nothing")
    return folder / "pictures"


IMAGE_PARAMS = {"n_bits": 8, "n_anchors": 5, "kernel_width": 1.0, "index": "exact"}


@pytest.mark.parametrize("n", [1, 2, 3, 7, 60, 1000])
def test_a_sample_is_from_as_many_classes_as_possible(db, n):
    db.add(*small.rows(2, seed=5, classes=1))
    db.add(np.full((1, 8), 9.0, np.float32), ["rare"])
    sample = db.sample(n)
    everything = {item.id: item for item in db.items(limit=1000)}
    assert len(sample) == len({item.id for item in sample}) == min(n, len(everything))
    assert all(everything[item.id] == item for item in sample)
    taken = {label: sum(item.label == label for item in sample) for label in db.labels()}
    sizes = db.info()["classes"]
    most = max(taken.values())
    assert all(taken[label] >= min(most - 1, sizes[label]) for label in taken)  # they take turns
    assert db.sample(n) == sample
    assert n > 7 or any(db.sample(n, seed=seed) != sample for seed in range(1, 6))
    assert {item.label for item in db.sample(n, classes=[1])} == {1}


def test_a_folder_of_images(pictures, folder):
    before = {p: p.read_bytes() for p in pictures.rglob("*") if p.is_file()}
    db = Database.create(folder / "db", pictures, **IMAGE_PARAMS)
    assert [(r.name) for r in db.created_.rejected] == ["cat/broken.jpg"]
    assert db.info()["classes"] == {"cat": 6, "dog": 6}
    item = db.item("cat/0.png")
    assert (item.name, item.path) == ("cat/0.png", str(pictures / "cat" / "0.png"))
    assert item.sha256 == hashlib.sha256((pictures / "cat" / "0.png").read_bytes()).hexdigest()
    path = pictures / "dog" / "3.png"
    as_path, as_bytes, as_image, as_array = db.search(
        [path, path.read_bytes(), Image.open(path), np.asarray(Image.open(path))], k=3
    )
    assert as_path.hits == as_bytes.hits == as_image.hits == as_array.hits
    assert db.search(str(path), k=3)[0].hits == as_path.hits
    assert db.classify(path)[0].label in ("cat", "dog")
    assert db.thumbnail("cat/0.png")[:3] == b"\xff\xd8\xff"
    assert db.search(path, k=2)[0]._repr_html_().count("<img") == 2
    assert len(db.add(pictures).skipped) == 12
    assert {p: p.read_bytes() for p in pictures.rglob("*") if p.is_file()} == before
    with pytest.raises(DatabaseError, match="cannot be searched"):
        db.search(pictures / "cat" / "broken.jpg")
    with pytest.raises(DatabaseError, match="images"):
        db.add(np.zeros((1, 512), np.float32))


def test_an_archive_is_the_same_as_its_folder(pictures, folder):
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        for path in sorted(pictures.rglob("*.png")):
            archive.write(path, path.relative_to(pictures))
    from_zip = Database.create(folder / "a", folder / "all.zip", thumbnails=False, **IMAGE_PARAMS)
    from_folder = Database.create(folder / "b", pictures, **IMAGE_PARAMS)
    assert [i.code for i in from_zip.items()] == [i.code for i in from_folder.items()]
    assert from_zip.thumbnail(0) is None
    assert "<img" not in from_zip.search(pictures / "cat" / "1.png", k=2)[0]._repr_html_()


@pytest.mark.parametrize("fills", [3, 1000])
def test_images_in_several_blocks(pictures, folder, monkeypatch, fills):
    """A picture of an earlier block is recognised, progress grows; segments of one block, or of several."""
    monkeypatch.setattr(small.extraction, "_CHUNK_IMAGES", 4)
    monkeypatch.setattr(segments, "rows_of", lambda width: fills)
    db = Database.create(folder / "db", pictures, **IMAGE_PARAMS)
    rng = np.random.RandomState(5)
    new = [rng.randint(0, 255, (30, 30, 3)).astype(np.uint8) for _ in range(9)]
    told = []
    report = db.add(
        [*new, new[0], new[8]], ["dog"] * 11, progress=lambda phase, done: told.append((phase, done))
    )
    assert (report.added, report.skipped) == (list(range(12, 21)), ["image 9", "image 10"])
    reading = [done for phase, done in told if phase.startswith("reading")]
    assert reading == sorted(reading)
    assert len(set(reading)) == 3
    assert reading[-1] == 1.0
    paths = [f"{label}/{k}.png" for label in ("cat", "dog") for k in range(6)]
    found = [item.id for item in Database(folder / "db").items(limit=100)]
    assert found == [*paths, *range(12, 21)]
    assert verify(folder / "db") == []


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_labels_from_a_table(pictures, folder, kind):
    (flat := folder / "flat").mkdir()
    wanted = {}
    for path in pictures.rglob("*.png"):
        name = f"{path.parent.name}-{path.name}"
        (flat / name).write_bytes(path.read_bytes())
        wanted[name] = path.parent.name
    del wanted["cat-0.png"]
    table = folder / f"labels.{kind}"
    if kind == "csv":
        table.write_text("file,label\n" + "".join(f"{n},{label}\n" for n, label in wanted.items()))
    else:
        table.write_text("".join(json.dumps({"file": n, "label": v}) + "\n" for n, v in wanted.items()))
    db = Database.create(folder / "db", flat, table, **IMAGE_PARAMS)
    assert {item.name: item.label for item in db.items() if item.label} == wanted
    assert db.item("cat-0.png").label is None


def test_images_from_memory(pictures, folder):
    db = Database.create(folder / "db", pictures, **IMAGE_PARAMS)
    new = Image.fromarray(np.random.RandomState(5).randint(0, 255, (30, 30, 3)).astype(np.uint8))
    report = db.add(
        [new, b"nonsense", pictures / "cat" / "0.png"], ["dog", "dog", "cat"], names=["a", "b", "c"]
    )
    assert (report.added, [r.name for r in report.rejected], report.skipped) == ([12], ["b"], ["c"])
    assert db.item(12).name == "a"


# Vector files, export.


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_an_export_can_be_made_into_a_database_again(db, folder, ending):
    db.add(*small.rows(6, seed=1))
    db.remove([5])
    target = folder / f"out.{ending}"
    db.export(target)
    other = Database.create(folder / "other", target, **small.PARAMS)
    assert [(i.label, i.sha256) for i in other.items()] == [(i.label, i.sha256) for i in db.items()]
    with pytest.raises(DatabaseError, match="parquet"):
        db.export(folder / "out.txt")


def test_an_npy_file_is_read_with_the_labels_beside_it(folder):
    X, y = small.rows(30, seed=0)
    np.save(folder / "X.npy", X)
    np.save(folder / "X_labels.npy", y)
    db = Database.create(folder / "db", folder / "X.npy", **small.PARAMS)
    assert [item.label for item in db.items()] == y.tolist()


# Looking.


def test_bits(db):
    bits = db.bits()
    every = np.array([np.frombuffer(item.code, np.uint8) for item in db.items()])
    assert bits.balance == pytest.approx((codes.unpack(every, 8) > 0).mean(axis=0))
    assert bits.margins.shape == (3, 8)
    assert bits.classes == [0, 1, 2]


def test_queries_that_cannot_be_used_are_told(db):
    X, y = small.rows(20, seed=3)
    X[4] = np.nan
    with pytest.warns(UserWarning, match=r"1 queries cannot be used and are left out, for example row 4"):
        assert db.evaluate(X, y).n_queries == 19
    with (
        pytest.warns(UserWarning, match="2 queries"),
        pytest.raises(DatabaseError, match="no queries: nothing could be read"),
    ):
        db.evaluate(np.full((2, 8), np.nan, np.float32), [0, 1])


def test_listing_by_pages_and_classes(db):
    assert [i.id for i in db.items(offset=58, limit=5)] == [58, 59]
    assert [i.label for i in db.items(classes=[1], limit=3)] == [1, 1, 1]
    assert db.labels() == [0, 1, 2]


# Others at work.


def test_a_second_writer_without_patience_is_told_who_is_first(db):
    db = Database(db.path, patience=0.0)
    with locked(db.path / "writer.lock", "is writing to it"):
        for change in (lambda: db.add(*small.rows(1, seed=1)), lambda: db.remove([1]), db.undo, db.compact):
            with pytest.raises(DatabaseBusy, match=str(os.getpid())):
                change()
    with locked(db.path / "update.lock", "is updating it"):
        for change in (db.update, db.compact):
            with pytest.raises(DatabaseBusy, match=str(os.getpid())):
                change()
        db.add(*small.rows(1, seed=1))
    assert len(db) == 61


@pytest.mark.parametrize("reencode", [False, True])
def test_an_update_waits_for_an_addition_to_end(db, reencode):
    """What it has learned is not lost because somebody writes at the moment of the switch."""
    db.add(*small.rows(4, seed=1))
    began = threading.Event()

    def write():
        with locked(db.path / "writer.lock", "is writing to it"):
            began.set()
            time.sleep(0.5)

    writer = threading.Thread(target=write)

    def meanwhile(phase, done):
        if done == 0.0 and phase == ("encoding" if reencode else "comparing") and not began.is_set():
            writer.start()
            began.wait()

    if reencode:
        db.update()
    report = db.update(reencode=reencode, progress=meanwhile)
    writer.join()
    assert began.is_set()
    assert report.n_reencoded > 0
    assert db.version == 2
    assert db.verify() == []


def test_an_update_waits_for_a_writer_that_sweeps(db):
    """Which holds the lock of updates for that moment, and is no update."""
    db.add(*small.rows(4, seed=1))
    began = threading.Event()

    def sweep():
        with locked(db.path / "update.lock", "is updating it"):
            began.set()
            time.sleep(0.2)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    began.wait()
    assert db.update().version == 2
    sweeper.join()


def test_a_commit_between_two_looks_of_a_reader_is_no_damage(db, monkeypatch):
    """A service asks which operations are new; another one is committed while it reads them."""
    rows, waiting = Catalogue.rows, [1]

    def slow(self, table, *condition):
        found = rows(self, table, *condition)
        if table == "operations" and self is reader._catalogue and waiting:
            waiting.clear()
            db.remove([1])
        return found

    reader = Reader(db.path, prepare=lambda snapshot: snapshot.ranker)
    with reader.current():
        pass
    db.remove([0])
    monkeypatch.setattr(Catalogue, "rows", slow)
    with reader.current() as snapshot:
        assert snapshot.n_items == 58
    assert not waiting


def test_readers_follow_writers(db):
    reader = Database(db.path)
    for change in (
        lambda: db.add(*small.rows(3, seed=1, classes=4)),
        lambda: db.remove([60]),
        db.update,
        db.undo,
        db.compact,
        lambda: db.add(*small.rows(3, seed=2)),
        db.undo,
    ):
        change()
        assert small.seen(reader) == small.seen(db)


def test_what_a_service_opens_is_loaded_before_the_first_search(db, monkeypatch):
    served = Database(db.path, background=True)
    monkeypatch.setattr("sihash.database.snapshot.Snapshot", None)  # it makes no more of them
    assert [len(answer.hits) for answer in served.search_ids([0, 1], k=3)] == [3, 3]


def test_damage_is_told_by_the_first_search_not_when_a_service_opens(db):
    for path in (db.path / "segments").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    served = Database(db.path, background=True)
    with pytest.raises(CorruptFile):
        served.search(small.QUERIES)


def test_a_writer_never_works_with_the_version_before(db):
    """Searches may go on with it while the new one is loaded beside them; an addition must not."""
    served = Database(db.path, background=True)
    served.search(small.QUERIES)
    db.add(*small.rows(9, seed=1))
    served.search(small.QUERIES)
    db.update()
    X, y = small.rows(3, seed=2)
    served.add(X, y)
    hasher = Database(db.path)._read(lambda snapshot: snapshot.hasher)
    assert db.version == served.version == 2
    assert [item.code for item in db.items(offset=69)] == [code.tobytes() for code in hasher.transform(X)]


def test_threads_share_one_database(db):
    stop, problems = threading.Event(), []

    def search():
        while not stop.is_set():
            try:
                for answer in db.search(small.QUERIES, k=5):
                    assert len(answer.hits) == 5
            except Exception as error:
                problems.append(error)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for seed in range(1, 6):
        db.add(*small.rows(3, seed=seed))
        db.remove([seed])
        db.update()
    stop.set()
    for thread in threads:
        thread.join()
    assert not problems


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_opens_its_own_connection(db):
    expected = small.seen(db)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if small.seen(db) == expected else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    db.add(*small.rows(1, seed=1))
    assert len(db) == 61


def test_stray_files_stop_nothing_and_are_swept(db):
    ours = [
        db.path / "segments" / "000002.vectors-0123abcd.npy",
        db.path / "models" / "000002.hash-0123abcd.safetensors",
        db.path / "models" / ".000002.hash-0123abcd.safetensors.89abcdef",
    ]
    theirs = db.path / "segments" / "notes.txt"
    for path in (*ours, theirs):
        path.write_bytes(b"junk")
    assert len(Database(db.path)) == 60
    assert db.verify() == []
    db.remove([1])
    assert not any(path.exists() for path in ours)
    assert theirs.exists()


@pytest.mark.parametrize(("made", "told"), [(FORMAT + 1, "newer"), (FORMAT - 1, "older")])
def test_another_format_is_refused(db, made, told):
    catalogue = Catalogue(db.path, write=True)
    catalogue.begin()
    catalogue.delete("meta", "key = 'format'")
    catalogue.insert("meta", [("format", str(made))])
    catalogue.commit("undo", 1, {}, None)
    catalogue.close()
    with pytest.raises(DatabaseError, match=told):
        Database(db.path)


def use_all(root):
    database = Database(root)
    small.seen(database)
    database.search_ids([1])
    database.info()
    database.evaluate()


@pytest.mark.parametrize("what", ["segments", "models", "catalogue.sqlite"])
def test_missing_and_truncated_files_are_named(template, folder, what):
    for number, damage in enumerate(("missing", "half", "empty")):
        root = small.copy(template, folder / f"{number}")
        paths = [root / what] if what.endswith("sqlite") else sorted((root / what).iterdir())
        for path in paths:
            if ".training-state-" in path.name:
                continue
            data = path.read_bytes()
            if damage == "missing":
                path.unlink()
            else:
                path.write_bytes(data[: len(data) // 2 if damage == "half" else 0])
            with pytest.raises(DatabaseError) as error:
                use_all(root)
            assert path.name in str(error.value) or (damage, what) == ("missing", "catalogue.sqlite")
            assert isinstance(error.value, CorruptFile) or what == "catalogue.sqlite"
            path.write_bytes(data)


def test_words_of_few_first_classes_are_told_of(folder):
    X, y = small.rows(120, seed=3, classes=6)
    db = Database.create(folder / "few", X[y < 2], y[y < 2], **small.PARAMS)
    db.add(X[y >= 2], y[y >= 2])
    told = db.update().warnings
    assert any("--relearn" in sentence and "first 2 classes" in sentence for sentence in told)
    db.remove_classes([5])
    assert not any("first" in sentence for sentence in db.update().warnings)
