"""What comes in: each item once, nothing that cannot be read, and no more in memory than needed."""

from __future__ import annotations

import io

import numpy as np
import pytest
import small
from PIL import Image

from sihash.database import Database, DatabaseError, NoSuchItem
from sihash.database.intake import Nothing, intake_of
from sihash.database.sources import Features, ImageSource, open_source

IMAGE_PARAMS = {"n_bits": 8, "n_anchors": 5, "kernel_width": 1.0, "index": "exact"}


def pictures(n, seed=0):
    rng = np.random.RandomState(seed)
    return [rng.randint(0, 255, (30, 30, 3)).astype(np.uint8) for _ in range(n)]


def png(array):
    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("at_a_time", [1, 4, 100])
def test_equal_files_that_cannot_be_read_are_all_rejected(folder, monkeypatch, at_a_time):
    monkeypatch.setattr(small.extraction, "_CHUNK_IMAGES", at_a_time)
    good = [png(picture) for picture in pictures(12)]
    images = [*good[:6], b"nonsense", b"nonsense", *good[6:], b"nonsense", good[0], good[11]]
    db = Database.create(folder / "db", images, [k % 2 for k in range(len(images))], **IMAGE_PARAMS)
    expected = ["image 6", "image 7", "image 14"]
    assert [reject.name for reject in db.created_.rejected] == expected
    assert db.created_.skipped == ["image 15", "image 16"]
    assert len(db) == 12
    report = db.add(images, 1)
    assert [reject.name for reject in report.rejected] == expected
    assert (report.added, len(report.skipped)) == ([], 14)


def test_files_in_memory_at_a_time_are_bounded_by_their_bytes(monkeypatch):
    """An archive may hold files that are a thousand times their compressed size."""
    monkeypatch.setattr(small.extraction, "_CHUNK_BYTES", 1000)
    alive = []

    class Content(bytes):
        def __new__(cls, data):
            alive.append(len(data))
            return super().__new__(cls, data)

        def __del__(self):
            alive.remove(len(self))

    most = 0

    def images():
        nonlocal most
        for k in range(200):
            most = max(most, sum(alive))
            yield Content(bytes([k]) * (200 + k))

    source = ImageSource(images(), None, [f"{k}" for k in range(200)], [None] * 200)
    source.features = Features("pixels", {"size": 4})
    intake = intake_of(source, Nothing())
    assert list(source.blocks(intake)) == []
    assert len(intake.rejects) == 200
    assert most < 4000


# Text.


@pytest.mark.parametrize("source", ["labels", "names"])
def test_half_a_character_is_refused(db, source):
    X, _ = small.rows(2, seed=1)
    given = {"labels": ["a", "b"], "names": ["a", "b"]} | {source: ["\ud800", "b"]}
    with pytest.raises(DatabaseError, match="got '\\\\ud800', which holds half a character"):
        db.add(X, given["labels"], names=given["names"])
    assert len(db) == 60


def test_labels_that_look_the_same_are_the_same(folder):
    X, _ = small.rows(60, seed=0)
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    with Database.create(folder / "db", X, [composed, decomposed, "tea"] * 20, **small.PARAMS) as db:
        assert db.info()["classes"] == {composed: 40, "tea": 20}
        assert db.search(X[:1], classes=[decomposed], k=50) == db.search(X[:1], classes=[composed], k=50)
        assert db.add(small.rows(1, seed=1)[0], decomposed).added == [60]
        assert db.labels() == [composed, "tea"]
        assert len(db.remove_classes([decomposed]).removed) == 41
        with pytest.raises(NoSuchItem, match="No class is named 'coffee'"):
            db.remove_classes(["coffee"])


def test_class_names_of_a_file_that_look_the_same_are_the_same(folder):
    X, _ = small.rows(4, seed=0)
    np.savez(folder / "all.npz", X=X, y=[0, 1, 2, 0], class_names=["caf\u00e9", "cafe\u0301", "tea"])
    labels = open_source(folder / "all.npz").labels
    assert labels == [("caf\u00e9",), ("caf\u00e9",), ("tea",), ("caf\u00e9",)]


def test_paths_that_are_no_text_are_spelt_out(folder):
    path = folder / "\udcff.png"
    path.write_bytes(png(pictures(1)[0]))
    for source in (open_source([path]), open_source(path)):
        source.names[0].encode()
        assert source.names[0].endswith("\\xff.png")


# Numbers.


@pytest.mark.parametrize("in_memory", [True, False])
def test_vectors_without_numbers_are_refused(folder, in_memory):
    X = np.empty((5, 0), np.float32)
    np.save(folder / "x.npy", X)
    source = X if in_memory else folder / "x.npy"
    with pytest.raises(DatabaseError, match="at least one number, got a matrix without columns"):
        Database.create(folder / "db", source, [0, 1, 0, 1, 0], **small.PARAMS)


@pytest.mark.parametrize("ending", ["parquet", "npz"])
def test_labels_beyond_64_bits_come_back_from_an_export(db, folder, ending):
    db.add(small.rows(1, seed=1)[0], [10**30])
    db.export(folder / f"all.{ending}")
    source = open_source(folder / f"all.{ending}")
    assert source.labels == [item.labels for item in db.items(limit=100)]
    assert source.labels[-1] == (10**30,)
