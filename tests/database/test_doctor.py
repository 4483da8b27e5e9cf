"""Labels that are wrong or in conflict are found, most certain first; a clean collection has none."""

from __future__ import annotations

import io
import re
import shlex

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from sihash.database import Database, DatabaseError
from sihash.database.inspection import unseen
from sihash.database.inspection.findings import FINDING_KINDS

N_CLASSES, PER_CLASS, WIDTH = 8, 40, 24
PARAMS = {"n_bits": 16, "n_anchors": 60, "index": "exact"}


def blobs(spread=0.35, seed=0):
    """Vectors of classes that nobody could confuse, and their labels."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(N_CLASSES, WIDTH))
    y = np.repeat(np.arange(N_CLASSES), PER_CLASS)
    return (centres[y] + spread * rng.normal(size=(len(y), WIDTH))).astype(np.float32), y


def made(folder, X, y, **options):
    return Database.create(folder / "db", X, list(y), **{**PARAMS, **options})


def of_kind(diagnosis, kind):
    return [finding for finding in diagnosis.findings if finding.kind == kind]


def test_a_clean_collection_has_no_findings(folder):
    diagnosis = made(folder, *blobs()).doctor()
    assert diagnosis.findings == []
    assert diagnosis.found == dict.fromkeys(FINDING_KINDS, 0)
    assert "320 of 320 labels were judged" in diagnosis.note


def test_flipped_labels_are_found_with_what_they_should_be(folder):
    X, y = blobs()
    flipped = [3, 77, 130, 200, 251, 319]
    given = y.copy()
    given[flipped] = (y[flipped] + 3) % N_CLASSES
    found = made(folder, X, given).doctor()
    wrong = of_kind(found, "wrong label")
    assert sorted(finding.items[0].id for finding in wrong) == flipped
    assert all(finding.label == y[finding.items[0].id] for finding in wrong)
    certainties = [finding.certainty for finding in wrong]
    assert certainties == sorted(certainties, reverse=True)
    assert certainties[-1] > 0.98
    first = wrong[0]
    number, own, right = first.items[0].id, first.items[0].label, first.label
    assert first.command("my db") == f"sihash relabel 'my db' {number} {right}"
    assert f"labelled {own}, looks like {right}: of its 10 nearest labelled items 10 are" in first.reason


def test_what_mends_them_leaves_nothing_to_find(folder):
    X, y = blobs()
    given = y.copy()
    given[::50] = (y[::50] + 1) % N_CLASSES
    db = made(folder, X, given)
    for finding in of_kind(db.doctor(), "wrong label"):
        db.relabel([finding.items[0].id], finding.label)
    assert [item.label for item in db.items(limit=1000)] == y.tolist()
    assert db.doctor().findings == []


def test_flipped_labels_of_real_data(folder):
    """Two of a hundred labels flipped: of as many at the top of the list, four of five are among them."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(7)
    flipped = rng.choice(len(X), round(0.02 * len(X)), replace=False)
    given = y.copy()
    given[flipped] = (y[flipped] + rng.integers(1, 10, len(flipped))) % 10
    db = Database.create(folder / "db", X, given, n_anchors=200)
    first = of_kind(db.doctor(limit=len(flipped)), "wrong label")
    assert len(set(flipped) & {finding.items[0].id for finding in first}) >= 0.8 * len(flipped)


def test_the_hash_functions_that_judge_have_not_seen_the_label(folder):
    """Of labels that mean nothing they know no more than chance."""
    X, y = blobs()
    X = np.random.default_rng(1).normal(size=X.shape).astype(np.float32)
    judged = made(folder, X, y, n_anchors=200)._read(unseen.examine)
    assert judged.has[np.arange(len(X)), judged.proba.argmax(axis=1)].mean() < 0.19


def test_same_vectors_with_different_labels_are_a_conflict(folder):
    """The database skips equal content, so these come from files that differ and look the same."""
    X, y = blobs()
    pictures = np.clip(128 + 40 * X, 0, 255).astype(np.uint8).reshape(len(X), 4, 6)
    files = [_file(picture, "PNG") for picture in pictures]
    files += [_file(pictures[5], "BMP"), _file(pictures[9], "BMP")]
    labels = [str(label) for label in y] + ["7", str(y[9])]
    db = Database.create(folder / "db", files, labels, features="pixels", **PARAMS)
    found = db.doctor()
    (conflict,) = of_kind(found, "conflict")
    assert [item.id for item in conflict.items] == [320, 5]
    assert conflict.reason == "items 5 and 320 have the same vector and different labels, 0 and 7"
    assert conflict.command("DB") == "sihash relabel DB 320 0"
    assert conflict.label == "0"
    (pair,) = of_kind(found, "near-duplicate")
    assert [item.id for item in pair.items] == [321, 9]
    assert pair.command("DB") == "sihash remove DB --id=321"
    assert db.thumbnail(pair.items[0].id)


def _file(picture, kind):
    file = io.BytesIO()
    Image.fromarray(picture).save(file, kind)
    return file.getvalue()


def test_of_two_that_are_the_same_the_doubted_one_is_to_change(folder):
    X, y = blobs()
    given = [*y.tolist(), int(y[50])]
    given[50] = (y[50] + 1) % N_CLASSES
    twin = X[50:51] * np.float32(1 + 1e-6)
    (pair,) = of_kind(made(folder, np.vstack([X, twin]), given).doctor(), "conflict")
    assert [item.id for item in pair.items] == [50, 320]
    assert (pair.label, pair.command("DB")) == (y[50], f"sihash relabel DB 50 {y[50]}")


def test_near_duplicates_are_pairs_that_stand_out(folder):
    X, y = blobs()
    twins = X[[4, 50]] + 0.003 * np.random.default_rng(3).normal(size=(2, WIDTH)).astype(np.float32)
    found = made(folder, np.vstack([X, twins]), [*y, y[4], (y[50] + 1) % N_CLASSES]).doctor()
    pairs = of_kind(found, "near-duplicate")
    assert sorted(sorted(item.id for item in pair.items) for pair in pairs) == [[4, 320], [50, 321]]
    commands = {pair.items[0].id: pair.command("DB") for pair in pairs}
    assert commands == {320: "sihash remove DB --id=320", 321: "sihash relabel DB 321 1"}
    assert of_kind(found, "conflict") == []


def test_classes_that_cannot_be_told_apart(folder):
    X, y = blobs()
    labels = np.array([f"class {label}" for label in y], dtype=object)
    half = np.random.RandomState(3).permutation(np.flatnonzero(y == 2))[: np.sum(y == 2) // 2]
    labels[half] = "two"  # half of a class under another name
    db = made(folder, X, labels)
    (confused,) = of_kind(db.doctor(), "confused classes")
    assert {item.label for item in confused.items} == {"class 2", "two"}
    assert "cannot be told apart" in confused.reason
    words = shlex.split(confused.command("DB"))
    assert words[:3] == ["sihash", "relabel", "DB"]
    assert {words[3].removeprefix("--class="), words[4]} == {"class 2", "two"}
    db.relabel_classes([words[3].removeprefix("--class=")], words[4])
    assert of_kind(db.doctor(), "confused classes") == []


def test_classes_too_small_to_learn(folder):
    X, y = blobs()
    rows = np.flatnonzero((y != 6) | (np.arange(len(y)) % PER_CLASS < 3))
    found = made(folder, X[rows], y[rows]).doctor()
    (small_class,) = of_kind(found, "small class")
    assert small_class.reason.startswith("6 has 3 items, too few to learn it from")
    assert small_class.command("DB") == "sihash remove DB --class=6"
    assert of_kind(found, "wrong label") == []  # a small class is told once, not once an item


def test_no_class_is_large_enough(folder):
    X, y = blobs()
    found = made(folder, X[::20], y[::20]).doctor()
    assert found.found["small class"] == N_CLASSES
    assert found.note.startswith("No label was judged: that takes two classes of 5 items each.")


def test_the_list_is_cut_and_says_how_many_there_are(folder):
    X, y = blobs()
    given = y.copy()
    given[::40] = (y[::40] + 1) % N_CLASSES
    db = made(folder, X, given)
    whole, cut = (of_kind(db.doctor(limit=limit), "wrong label") for limit in (100, 3))
    assert [f.items[0].id for f in cut] == [f.items[0].id for f in whole[:3]]
    assert db.doctor(limit=3).found["wrong label"] == len(whole) == 8
    with pytest.raises(DatabaseError, match="limit"):
        db.doctor(limit=0)


def test_large_collections_are_examined_by_samples(folder, monkeypatch):
    X, y = blobs()
    given = y.copy()
    given[[8, 90]] = (y[[8, 90]] + 1) % N_CLASSES
    db = made(folder, X, given)
    monkeypatch.setattr(unseen, "MOST_ASKED", 60)
    monkeypatch.setattr(unseen, "N_WEIGHED", 50)
    monkeypatch.setattr(unseen, "MOST_LEARNED", 160)
    found = db.doctor()
    assert "Neighbours were compared for 60 of 320 items" in found.note
    assert {finding.items[0].id for finding in of_kind(found, "wrong label")} == {8, 90}
    monkeypatch.setattr(unseen, "MOST_EXAMINED", 100)
    assert "100 of 320 labels were judged" in db.doctor().note


def test_an_empty_collection(folder):
    db = made(folder, *blobs())
    db.remove_classes(range(N_CLASSES))
    assert db.doctor().findings == []


def test_unlabelled_items_are_not_judged_and_may_be_duplicates(folder):
    X, y = blobs()
    labels = [None if k % 4 == 0 else int(label) for k, label in enumerate(y)]
    twin = X[:1] + np.float32(1e-4)
    found = made(folder, np.vstack([X, twin]), [*labels, 3]).doctor()
    assert "241 of 241 labels were judged" in found.note
    (pair,) = of_kind(found, "near-duplicate")
    assert [item.label for item in pair.items] == [3, None]


def test_labels_that_begin_with_a_hyphen(folder):
    X, y = blobs()
    labels = [f"-{label}" for label in y]
    labels[7] = "-5"
    (wrong,) = of_kind(made(folder, X, labels).doctor(), "wrong label")
    assert wrong.command("DB") == "sihash relabel DB -- 7 -0"


def test_suggestions_contradict_nothing(folder):
    """Overlapping classes, many wrong labels: each suggestion is the class that most of the nearest have."""
    X, y = blobs(spread=1.1)
    given = y.copy()
    given[::10] = (y[::10] + 1) % N_CLASSES
    with made(folder, X, given) as db:
        wrong = [each for each in db.doctor(limit=1000).findings if each.kind == "wrong label"]
    assert wrong
    for each in wrong:
        [item], [suggested] = each.items, each.labels
        assert suggested not in item.labels
        assert f"looks like {suggested}: of its" in each.reason
        assert each.reason.count("probability") == 1
        assert each.command("DB") == f"sihash relabel DB {item.id} {suggested}"
        n_other, n_own = re.search(r"items (\d+) are labelled \d, (\d+|none) \d;", each.reason).groups()
        assert int(n_other) >= (0 if n_own == "none" else int(n_own))
