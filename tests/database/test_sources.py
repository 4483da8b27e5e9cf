"""What comes in: each item once, nothing that cannot be read, and no more in memory than needed."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small
from PIL import Image

from sihash import SIH
from sihash.database import Database, DatabaseError, NoSuchItem
from sihash.database.describing import Features
from sihash.database.intake import Nothing, intake_of
from sihash.database.sources import ImageSource, open_source

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


def in_type(kind):
    """Rows of numbers that are the same in every type."""
    X, y = small.rows(60, seed=0)
    return (np.round(8 * X) + 100).astype(kind), y


KINDS = ["<f2", ">f2", ">f4", "<f8", ">f8", np.longdouble, "<i8", ">i4", ">u2"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["array", "list", "rows", "npy", "npz", "parquet"])
def test_numbers_of_every_type_are_the_numbers_that_they_are(folder, kind, form):
    """Not their bits in the order of another type: half precision, big-endian, 80 bits, whole numbers."""
    X, y = in_type(kind)
    source = {"array": X, "list": X.tolist(), "rows": list(X)}.get(form, folder / f"x.{form}")
    if form == "npy":
        np.save(source, X)
    elif form == "npz":
        np.savez(source, X=X)
    elif form == "parquet":
        native = X.astype(X.dtype.newbyteorder("=")) if kind is not np.longdouble else X.astype(float)
        pq.write_table(pa.table({"vector": pa.array(list(native))}), source)
    expected = X.astype(np.float32)
    with Database.create(folder / "db", source, y, **small.PARAMS) as db:
        stored = db._read(lambda snapshot: np.array(snapshot.vectors(snapshot.places.live_ids())))
        np.testing.assert_array_equal(stored, expected)
        query = X if form == "array" else X.tolist()
        assert db.search(query[:3]) == db.search(expected[:3])
        db.export(folder / "out.npz")
        np.testing.assert_array_equal(np.load(folder / "out.npz")["X"], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_hasher_takes_numbers_of_every_type(kind):
    X, y = in_type(kind)
    hasher, expected = (SIH(n_bits=8, n_anchors=10, random_state=0) for _ in range(2))
    hasher.fit(X, y)
    expected.fit(X.astype(np.float32), y)
    np.testing.assert_array_equal(hasher.transform(X), expected.transform(X.astype(np.float32)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.ones((1, 8), dtype=complex), "must hold real numbers, got complex numbers"),
        (np.array([["1"] * 8]), "must hold real numbers, got text"),
        ([["1"] * 8], "must hold real numbers, got text"),
        ([[None] * 8], "must hold real numbers, got an array of type object"),
        (np.ma.array(np.ones((1, 8)), mask=[[1] + 7 * [0]]), "has . masked cells; leave their rows out"),
        (np.full((1, 8), np.datetime64("2026-01-01")), "got dates or durations"),
    ],
)
def test_what_is_no_number_is_refused_not_converted(db, wrong, message):
    X, y = small.rows(60, seed=0)
    for work in (db.add, db.search, db.classify):
        with pytest.raises(DatabaseError, match=message):
            work(wrong)
    hasher = SIH(n_bits=8, n_anchors=10, random_state=0).fit(X, y)
    if not isinstance(wrong, list):  # lists are what scikit-learn makes of them
        for work in (hasher.transform, hasher.predict):
            with pytest.raises(ValueError, match=message):
                work(wrong)
        with pytest.raises(ValueError, match=message):
            SIH().fit(np.ma.concatenate([wrong, wrong]), [0, 1])
    assert len(db) == 60


def test_a_mask_that_hides_nothing_is_no_obstacle(db):
    X, _ = small.rows(2, seed=1)
    assert db.add(np.ma.array(X)).added == [60, 61]
    assert db.search(np.ma.array(X)) == db.search(X)


def test_one_image_is_one_image(folder):
    one, two, *others = pictures(12)
    with Database.create(folder / "db", [one, two, *others], [0, 1] * 6, **IMAGE_PARAMS) as db:
        for image in (
            pictures(1, seed=1)[0],
            png(pictures(1, seed=2)[0]),
            Image.fromarray(pictures(1, 3)[0]),
        ):
            assert len(db.add(image).added) == 1
        with pytest.raises(DatabaseError, match="holds images"):
            db.add([[1.0, 2.0]])


@pytest.mark.parametrize("cell", [1e3, 1e5, 1e9, 1e20, -3.4e38])
def test_one_wild_cell_ruins_nothing(folder, cell):
    """It is rejected by name, or counts as one far row: searches and predictions are as without it."""
    X, y = small.rows(200, seed=0)
    Q, expected = small.rows(100, seed=1)
    X[17, 3] = cell
    with Database.create(folder / "db", X, y, **{**small.PARAMS, "n_anchors": 40}) as db:
        found = [answer.hits[0].label for answer in db.search(Q, k=1)]
        assert np.mean(np.array(found) == expected) > 0.95
        rejected = [reject.name for reject in db.created_.rejected]
        assert rejected == (["row 17"] if abs(cell) > 1e8 else [])
        if rejected:
            assert (
                "times as far from the others as is usual (the limit is 1e+07)"
                in db.created_.rejected[0].reason
            )
            assert f"column 3 holds {cell:.4g}" in db.created_.rejected[0].reason
        new = Q.copy()
        new[7, 3] = cell
        assert [reject.name for reject in db.add(new).rejected] == (["row 7"] if rejected else [])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        hasher = SIH(n_bits=8, n_anchors=40, random_state=0).fit(X, y)
    assert (hasher.predict(Q) == expected).mean() > 0.95
    assert ["Row 17 is a vector" in str(each.message) for each in told] == [True] * len(rejected)


@pytest.mark.parametrize(
    "rows",
    [
        lambda rng: np.exp(3 * rng.standard_normal((5000, 4))),
        lambda rng: rng.standard_cauchy((5000, 8)),
        lambda rng: rng.zipf(2.0, (5000, 8)),
        lambda rng: np.where(rng.random((5000, 1)) < 0.9, 0, rng.standard_normal((5000, 8))),
        lambda rng: 1e8 + rng.standard_normal((5000, 8)),
        lambda rng: 1e-20 * rng.standard_normal((5000, 8)),
        lambda rng: np.array([[1.0], [1.0], [1.0], [1.0], [2e6]]),
        lambda rng: np.eye(50)[rng.integers(50, size=5000)],
    ],
)
def test_no_honest_row_is_refused(rows):
    X = rows(np.random.default_rng(0)).astype(np.float32)
    source = open_source(X)
    intake = intake_of(source, Nothing())
    assert sum(len(block.vectors) for block in source.blocks(intake)) == len(X)


@pytest.mark.parametrize("ending", ["parquet", "npz"])
def test_labels_beyond_64_bits_come_back_from_an_export(db, folder, ending):
    db.add(small.rows(1, seed=1)[0], [10**30])
    db.export(folder / f"all.{ending}")
    source = open_source(folder / f"all.{ending}")
    assert source.labels == [item.labels for item in db.items(limit=100)]
    assert source.labels[-1] == (10**30,)
