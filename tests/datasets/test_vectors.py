"""Vector files: what was stored comes back; what would run code, overflow memory or mislead is refused."""

from __future__ import annotations

import struct
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from sihash.datasets import load


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)


@pytest.fixture
def y():
    return np.array(["cat", "dog", "dog"] * 4)


class TestNpz:
    def test_one_part(self, tmp_path, X, y):
        np.savez(tmp_path / "a", X=X, y=y)
        data = load(tmp_path / "a.npz")
        assert np.array_equal(data.X_train, X)
        assert np.array_equal(data.y_train, y)
        assert data.class_names == ["cat", "dog"]
        assert data.summary["classes"] == {"cat": 4, "dog": 8}
        assert len(data.X_test) == 0

    def test_two_parts_and_class_names(self, tmp_path, X):
        np.savez_compressed(
            tmp_path / "a", X_train=X, y_train=[0] * 12, X_test=X[:3], y_test=[1] * 3, class_names=["a", "b"]
        )
        data = load(tmp_path / "a.npz")
        assert np.array_equal(data.X_test, X[:3])
        assert data.summary["classes"] == {"a": 12, "b": 3}

    def test_without_labels(self, tmp_path, X):
        np.savez(tmp_path / "a", X=X)
        assert load(tmp_path / "a.npz").y_train is None

    def test_several_labels(self, tmp_path, X):
        tags = np.random.default_rng(0).integers(0, 2, (12, 3))
        np.savez(tmp_path / "a", X=X, y=tags)
        data = load(tmp_path / "a.npz")
        assert np.array_equal(data.y_train, tags)
        assert list(data.summary["classes"].values()) == tags.sum(axis=0).tolist()

    def test_images_get_features(self, tmp_path):
        images = np.random.default_rng(0).integers(0, 256, (4, 9, 9, 3), dtype=np.uint8)
        np.savez(tmp_path / "a", X=images, y=[1, 2, 3, 4])
        assert load(tmp_path / "a.npz", "gist").X_train.shape == (4, 512)
        assert np.array_equal(load(tmp_path / "a.npz").X_train, images)

    def test_vectors_have_no_features(self, tmp_path, X):
        np.savez(tmp_path / "a", X=X)
        with pytest.raises(ValueError, match="holds vectors already"):
            load(tmp_path / "a.npz", "gist")
        assert load(tmp_path / "a.npz", "none").X_train.shape == X.shape

    def test_integers_become_floats_and_doubles_stay(self, tmp_path, X):
        np.savez(tmp_path / "a", X=np.arange(6).reshape(3, 2))
        np.savez(tmp_path / "b", X=X.astype(np.float64))
        assert load(tmp_path / "a.npz").X_train.dtype == np.float32
        assert load(tmp_path / "b.npz").X_train.dtype == np.float64

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"Z": np.ones(3)}, "holds Z; expected an array X"),
            ({"X": np.ones(3)}, "must be a matrix of numbers"),
            ({"X": np.array([["a"]])}, "must be a matrix of numbers"),
            ({"X": np.ones((3, 2)), "y": [1, 2]}, "3 rows in X but labels of shape"),
            ({"X": np.array([[1, None]])}, "Python objects, which are never loaded"),
        ],
    )
    def test_refusals(self, tmp_path, arrays, message):
        np.savez(tmp_path / "a", **arrays)
        with pytest.raises(ValueError, match=message):
            load(tmp_path / "a.npz")

    def test_a_header_that_announces_too_much_is_refused_before_allocation(self, tmp_path):
        header = (
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 1000), }".ljust(117) + b"\n"
        )
        npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("X.npy", npy)
        (tmp_path / "a.npy").write_bytes(npy)
        for name in ("a.npz", "a.npy"):
            with pytest.raises(ValueError, match="announces"):
                load(tmp_path / name)

    def test_more_than_memory_is_refused(self, tmp_path, X, monkeypatch):
        np.savez_compressed(tmp_path / "a", X=np.zeros((100_000, 50)))
        monkeypatch.setattr("os.sysconf", lambda name: 1 << 12)
        with pytest.raises(ValueError, match="more than half of this machine's memory"):
            load(tmp_path / "a.npz")


class TestNpy:
    def test_labels_beside_or_given(self, tmp_path, X, y):
        np.save(tmp_path / "v.npy", X)
        assert load(tmp_path / "v.npy").y_train is None
        (tmp_path / "words.txt").write_text("\n".join(y))
        assert np.array_equal(load(tmp_path / "v.npy", labels=tmp_path / "words.txt").y_train, y)
        np.save(tmp_path / "v_labels.npy", np.arange(12))
        assert np.array_equal(load(tmp_path / "v.npy").y_train, np.arange(12))

    def test_changed_labels_are_not_served_from_the_cache(self, tmp_path):
        np.save(tmp_path / "v.npy", np.random.default_rng(0).integers(0, 256, (3, 8, 8), dtype=np.uint8))
        for labels in ([1, 2, 3], [3, 2, 1]):
            np.save(tmp_path / "v_labels.npy", labels)
            assert load(tmp_path / "v.npy", "gist").y_train.tolist() == labels

    def test_labels_of_a_kind_that_has_its_own(self, tmp_path, X):
        np.savez(tmp_path / "a.npz", X=X)
        with pytest.raises(ValueError, match="labels= is for"):
            load(tmp_path / "a.npz", labels="y.txt")

    def test_numbers_in_text_are_numbers(self, tmp_path, X):
        np.save(tmp_path / "v.npy", X)
        (tmp_path / "v_labels.txt").write_text("\n".join(map(str, range(12))))
        assert load(tmp_path / "v.npy").y_train.dtype == np.int64

    def test_wrong_number_of_labels(self, tmp_path, X):
        np.save(tmp_path / "v.npy", X)
        (tmp_path / "v_labels.txt").write_text("a\nb\n")
        with pytest.raises(ValueError, match="12 rows in X but labels of shape"):
            load(tmp_path / "v.npy")


class TestTables:
    pa = pytest.importorskip("pyarrow")

    def write(self, path, kind, **columns):
        from pyarrow import feather, parquet

        table = self.pa.table(columns)
        parquet.write_table(table, path) if kind == "parquet" else feather.write_feather(table, path)

    @pytest.mark.parametrize("kind", ["parquet", "arrow"])
    @pytest.mark.parametrize("fixed", [True, False])
    def test_vectors_and_labels(self, tmp_path, X, y, kind, fixed):
        vectors = self.pa.array(list(X), self.pa.list_(self.pa.float32(), 5 if fixed else -1))
        self.write(tmp_path / "t", kind, id=list(range(12)), embedding=vectors, label=y.tolist())
        data = load(tmp_path / "t")
        assert np.array_equal(data.X_train, X)
        assert np.array_equal(data.y_train, y)
        assert np.array_equal(load(tmp_path / "t", labels="id").y_train, np.arange(12))

    @pytest.mark.parametrize(
        ("columns", "labels", "message"),
        [
            ({"a": [1.0], "b": ["x"]}, None, "0 columns of number lists"),
            ({"a": [[1.0]], "b": [[1.0]]}, None, "2 columns of number lists"),
            ({"a": [[1.0, 2.0], [1.0]]}, None, "not all of one length"),
            ({"a": [[1.0, 2.0], None]}, None, "1 rows without a vector"),
            ({"a": [[1.0], [2.0]], "y": ["a", None]}, None, "Some rows have no label"),
            ({"a": [[1.0]]}, "z", "no column 'z'; it has a"),
        ],
    )
    def test_refusals(self, tmp_path, columns, labels, message):
        self.write(tmp_path / "t", "parquet", **columns)
        with pytest.raises(ValueError, match=message):
            load(tmp_path / "t", labels=labels)

    def test_a_damaged_file(self, tmp_path, X):
        self.write(tmp_path / "t", "parquet", X=list(X))
        whole = (tmp_path / "t").read_bytes()
        (tmp_path / "t").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match="cannot be read"):
            load(tmp_path / "t")


def test_damaged_files_of_every_kind_end_in_one_sentence(tmp_path, X):
    """Flip bytes anywhere: the data comes back in its shape, or a ValueError says that it cannot."""
    pyarrow, feather, parquet = (pytest.importorskip(f"pyarrow{m}") for m in ("", ".feather", ".parquet"))
    np.savez_compressed(tmp_path / "a.npz", X=X)
    np.save(tmp_path / "a.npy", X)
    feather.write_feather(pyarrow.table({"X": list(X)}), tmp_path / "a.arrow", compression="uncompressed")
    parquet.write_table(pyarrow.table({"X": list(X)}), tmp_path / "a.parquet")
    rng = np.random.default_rng(0)
    for name in ("a.npz", "a.npy", "a.arrow", "a.parquet"):
        whole = np.frombuffer((tmp_path / name).read_bytes(), dtype=np.uint8)
        for _ in range(150):
            data = whole.copy()
            data[rng.integers(0, len(data), 3)] = rng.integers(0, 256, 3)
            (tmp_path / "x").write_bytes(data.tobytes())
            with suppress(ValueError):
                assert load(tmp_path / "x").X_train.ndim >= 2


@pytest.mark.parametrize("content", [b"", b"words", b"\x89PNG\r\n\x1a\n"])
def test_a_file_of_no_known_kind(tmp_path, content):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ValueError, match="none of the kinds that can be loaded"):
        load(tmp_path / "x.npz")


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is nothing at"):
        load(tmp_path / "x.npz")


def test_rows_of_a_table_are_read_as_they_are_asked_for(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from sihash.datasets import arrow, loading

    monkeypatch.setattr(arrow, "BATCH_ROWS", 7)
    X = np.random.RandomState(0).normal(size=(50, 3)).astype(np.float32)
    table = pyarrow.table({"vector": X.tolist(), "label": [f"c{k % 2}" for k in range(50)]})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=11)
    collection = loading.read(tmp_path / "t.parquet", mapped=True)
    rows = collection.X
    assert collection.holds_vectors
    assert rows.shape == (50, 3)
    assert collection.y.tolist() == [f"c{k % 2}" for k in range(50)]
    for start, stop in ((0, 5), (5, 30), (30, 50), (2, 9), (40, 41)):
        np.testing.assert_allclose(rows[start:stop], X[start:stop], rtol=1e-6)


def test_a_damaged_table_that_is_read_block_by_block_is_named(tmp_path):
    """As creating a database reads it; the page that is damaged is met after the file was opened."""
    pyarrow, parquet = (pytest.importorskip(f"pyarrow{m}") for m in ("", ".parquet"))
    from sihash.datasets import loading

    X = np.random.RandomState(0).normal(size=(50, 3)).astype(np.float32)
    parquet.write_table(pyarrow.table({"vector": list(X)}), tmp_path / "t.parquet")
    whole, told = (tmp_path / "t.parquet").read_bytes(), []
    for place in range(4, 300):
        spoilt = bytearray(whole)
        spoilt[place] ^= 0xFF
        (tmp_path / "x.parquet").write_bytes(spoilt)
        try:
            rows = loading.read(tmp_path / "x.parquet", mapped=True).X
            rows[0 : len(rows)]
        except ValueError as error:
            told.append((type(error), "x.parquet" in str(error)))
    assert len(told) > 20
    assert set(told) == {(ValueError, True)}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"id": ["{", "1", "2"], "json": ["id"]}, r"id in .*a.npz is marked as JSON and holds '\{'"),
        ({"id": ["[" * 100_000, "1", "2"], "json": ["id"]}, r"is marked as JSON and holds '\[\["),
        ({"id": [1, 2, 3], "json": ["id"]}, "is marked as JSON and holds '1'"),
        ({"y": [0, 1, 1], "y.missing": [True]}, "a mark in y.missing for each value of y"),
    ],
)
def test_exports_that_were_tampered_with(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", X=np.ones((3, 2)), **arrays)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "a.npz")


def test_a_parquet_export_that_was_tampered_with(tmp_path):
    pyarrow, parquet = (pytest.importorskip(f"pyarrow{m}") for m in ("", ".parquet"))
    table = pyarrow.table({"vector": [[1.0, 2.0]] * 2, "id": ["{", "1"]})
    parquet.write_table(table.replace_schema_metadata({"sihash json": "id"}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"id in .*a.parquet is marked as JSON and holds '\{'"):
        load(tmp_path / "a.parquet")
