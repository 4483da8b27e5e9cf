"""Laws of searches and of their measures, on collections that show when they are broken."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
import small

from sihash.database import Database
from sihash.store.errors import DatabaseError

PARAMS = small.PARAMS | {"n_bits": 16, "n_anchors": 20}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """1,700 items; a hundredth of them, spread over all classes, is rare."""
    X, y = small.rows(1700, seed=5, classes=6)
    rare = np.random.default_rng(0).permutation(1700) % 100 == 0
    columns = {"rare": rare.tolist(), "number": list(range(1700))}
    with Database.create(tmp_path_factory.mktemp("many") / "db", X, y, columns=columns, **PARAMS) as db:
        yield db, rare


@pytest.mark.parametrize("k", [1, 10, 17, 40])
@pytest.mark.parametrize("rank", [None, "vector"])
def test_a_filter_leaves_as_many_answers_as_match(many, k, rank):
    """However few match: candidates are chosen among them, not before."""
    db, rare = many
    options = {} if rank is None else {"rank": rank}
    for answer in db.search(small.QUERIES, k=k, where="rare = true", **options):
        assert len(answer.hits) == min(k, rare.sum())
        assert all(rare[hit.id] for hit in answer.hits)


def test_a_filtered_search_for_all_is_the_filter(many):
    db, rare = many
    (answer,) = db.search(small.QUERIES[:1], k=1700, where="rare = true and number < 900")
    assert {hit.id for hit in answer.hits} == set(np.flatnonzero(rare[:900]).tolist())


def test_a_class_filter_finds_all_of_the_class(many):
    db, _ = many
    for label, n in db.info()["classes"].items():
        (answer,) = db.search(small.QUERIES[:1], k=1700, classes=[label])
        assert len(answer.hits) == n
        assert {hit.label for hit in answer.hits} == {label}


def test_nearly_equal_items_each_come_first_for_their_own_vector(tmp_path):
    """They have one code and one sketch, so they are one ring: if it were cut, most would never be found."""
    rng = np.random.default_rng(1)
    centre = rng.standard_normal(small.WIDTH)  # with as many opposite, so that the mean is far from both
    noise = 1e-3 * rng.standard_normal((1800, small.WIDTH))
    X = (np.repeat([centre, -centre], 900, axis=0) + noise).astype(np.float32)
    with Database.create(tmp_path / "db", X, np.repeat([0, 1], 900), **PARAMS) as db:
        answers = db.search(X[:900], k=1)
    assert [answer.hits[0].id for answer in answers] == list(range(900))


@pytest.fixture(scope="module")
def lonely(tmp_path_factory):
    """Two classes of 30 items, and 20 classes of one."""
    X, _ = small.rows(80, seed=8, classes=2)
    y = [*[k % 2 for k in range(60)], *range(100, 120)]
    with Database.create(tmp_path_factory.mktemp("lonely") / "db", X, y, **PARAMS) as db:
        yield db


def test_an_item_is_not_relevant_to_itself(lonely):
    """An item that is alone in its class has nothing to find, and does not ask."""
    evaluation = lonely.evaluate()
    assert {found.label for found in evaluation.classes} <= {0, 1}
    assert sum(found.n_queries for found in evaluation.classes) == evaluation.n_queries
    assert (evaluation.n_queries, evaluation.n_left_out) == (16, 0)


def test_a_comparison_does_not_count_the_query_itself(lonely):
    """Cosine would have P@1 of 1: nothing is nearer to an item than itself."""
    compared = lonely.compare(max_queries=80)
    assert compared.n_left_out == 0
    assert all(row.p_at_1 < 1 for row in compared.rows)


def test_an_evaluation_in_which_nothing_can_be_found_is_refused(tmp_path):
    X, _ = small.rows(40, seed=9)
    with (
        Database.create(tmp_path / "db", X, list(range(40)), **PARAMS) as db,
        pytest.raises(DatabaseError, match="every item is the only one of its class"),
    ):
        db.evaluate()


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_ids_and_labels_keep_their_unicode_form_through_a_file(tmp_path, suffix):
    """Ids come back as they were given; labels are NFC everywhere."""
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    X, y = small.rows(30, seed=2)
    ids = [unicodedata.normalize("NFD" if k % 2 else "NFC", f"Äpfel-ü-{k}") for k in range(30)]
    labels = [unicodedata.normalize("NFD", f"Größe {k}") for k in y]
    with Database.create(tmp_path / "db", X, labels, ids=ids, **PARAMS) as db:
        db.export(tmp_path / f"out{suffix}")
    with Database.create(tmp_path / "again", tmp_path / f"out{suffix}", **PARAMS) as again:
        assert [item.id for item in again.items(limit=100)] == ids
        assert set(again.labels()) == {unicodedata.normalize("NFC", label) for label in labels}


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_numbers_of_any_width_are_read_as_the_numbers_that_they_are(tmp_path, suffix, dtype):
    X, y = small.rows(30, seed=2)
    X = X.astype(np.float16).astype(dtype)
    path = tmp_path / f"rows{suffix}"
    if suffix == ".npy":
        np.save(path, X)
        np.save(tmp_path / "rows_labels.npy", y)
    elif suffix == ".npz":
        np.savez(path, X=X, y=y)
    else:
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        native = X.astype(X.dtype.newbyteorder("="))
        vectors = pa.array(list(native), pa.list_(pa.from_numpy_dtype(native.dtype)))
        parquet.write_table(pa.table({"vector": vectors, "label": y}), path)
    with Database.create(tmp_path / "db", path, **PARAMS) as db:
        db.export(tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_array_equal(out["X"], X.astype(np.float32))
