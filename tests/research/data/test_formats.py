"""The official layouts, from small files written here in those layouts."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile

import numpy as np
import pytest

from sihash.research.data import load

CIFAR = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def tar_gz(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


class TestCifar:
    @pytest.fixture
    def batches(self):
        """Five small batches and one of 1,200 images: a list of labels is pickled in pieces of 1,000."""
        rng = np.random.default_rng(0)
        sizes = {**{f"data_batch_{i}": 20 for i in range(1, 6)}, "test_batch": 1200}
        return {
            name: (rng.integers(0, 256, (n, 3072), dtype=np.uint8), rng.integers(0, 10, n))
            for name, n in sizes.items()
        }

    def check(self, data, batches):
        planes = np.concatenate([batches[f"data_batch_{i}"][0] for i in range(1, 6)])
        assert np.array_equal(data.X_train, planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        assert np.array_equal(
            data.y_train, np.concatenate([batches[f"data_batch_{i}"][1] for i in range(1, 6)])
        )
        assert np.array_equal(data.y_test, batches["test_batch"][1])
        assert data.class_names == CIFAR

    @staticmethod
    def binary(planes, labels):
        return np.column_stack([labels.astype(np.uint8), planes]).tobytes()

    def test_binary_archive(self, tmp_path, batches):
        files = {f"cifar-10-batches-bin/{n}.bin": self.binary(*b) for n, b in batches.items()}
        files["cifar-10-batches-bin/readme.html"] = b"<html>"
        data = load(tar_gz(tmp_path / "archive", files))
        assert data.kind == "CIFAR-10 binary"
        self.check(data, batches)

    @pytest.mark.parametrize("protocol", [2, 3, 4])
    @pytest.mark.parametrize("keys", [str, str.encode])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_python_archive(self, tmp_path, batches, protocol, keys, order):
        files = {"cifar-10-batches-py/batches.meta": b"not read"}
        for name, (planes, labels) in batches.items():
            batch = {
                keys("batch_label"): keys("a batch"),
                keys("labels"): labels.tolist(),
                keys("data"): np.asarray(planes, order=order),
                keys("filenames"): [keys("a.png")] * 3,
            }
            files[f"cifar-10-batches-py/{name}"] = pickle.dumps(batch, protocol)
        data = load(tar_gz(tmp_path / "archive", files))
        assert data.kind == "CIFAR-10 Python"
        self.check(data, batches)

    def test_a_batch_as_python_2_wrote_it(self, tmp_path, batches):
        """The official files: protocol 2 with the 8-bit strings that Python 3 writes no more."""

        def string(text: bytes) -> bytes:
            return (
                b"T" + struct.pack("<i", len(text)) + text
                if len(text) > 255
                else b"U" + bytes([len(text)]) + text
            )

        for name, (planes, labels) in batches.items():
            numbers = b"".join(b"K" + bytes([k]) for k in labels)
            array = (
                b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85" + string(b"b") + b"tR"
                b"(K\x01M"
                + struct.pack("<H", len(labels))
                + b"M\x00\x0c\x86cnumpy\ndtype\n"
                + string(b"u1")
                + b"K\x00K\x01\x87R"
                b"(K\x03"
                + string(b"|")
                + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
                + string(planes.tobytes())
            )
            batch = (
                b"\x80\x02}(" + string(b"data") + array + b"tb" + string(b"labels") + b"](" + numbers + b"e"
            )
            (tmp_path / name).write_bytes(batch + string(b"batch_label") + string(b"one") + b"u.")
        self.check(load(tmp_path), batches)

    def test_code_in_a_batch_is_not_run(self, tmp_path):
        class Evil:
            def __reduce__(self):
                return (open, (str(tmp_path / "owned"), "w"))

        (tmp_path / "data_batch_1").write_bytes(pickle.dumps({"labels": [1], "data": Evil()}))
        with pytest.raises(ValueError, match="no CIFAR-10 batch"):
            load(tmp_path)
        assert not (tmp_path / "owned").exists()

    @pytest.mark.parametrize("data", [b"", b"\x80", bytes(3072), bytes([200]) + bytes(3072)])
    @pytest.mark.parametrize("name", ["data_batch_1", "data_batch_1.bin"])
    def test_damaged_batches_are_named(self, tmp_path, data, name):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match=f"{name} is no CIFAR-10 batch"):
            load(tmp_path)


def idx(array):
    shape = np.array(array.shape, dtype=">u4").tobytes()
    return b"\0\0\x08" + bytes([array.ndim]) + shape + array.astype(np.uint8).tobytes()


class TestIdx:
    @pytest.fixture
    def arrays(self):
        rng = np.random.default_rng(0)
        return {
            "train-images-idx3-ubyte": rng.integers(0, 256, (20, 7, 5)),
            "train-labels-idx1-ubyte": rng.integers(0, 10, 20),
            "t10k-images-idx3-ubyte": rng.integers(0, 256, (9, 7, 5)),
            "t10k-labels-idx1-ubyte": np.arange(9),
        }

    @pytest.mark.parametrize("squeeze", [lambda data: data, gzip.compress])
    def test_layout(self, tmp_path, arrays, squeeze):
        for name, array in arrays.items():
            (tmp_path / name).write_bytes(squeeze(idx(array)))
        data = load(tmp_path)
        X, y, X_test, y_test = arrays.values()
        assert np.array_equal(data.X_train, X)
        assert np.array_equal(data.y_train, y)
        assert np.array_equal(data.X_test, X_test)
        assert np.array_equal(data.y_test, y_test)
        assert load(tmp_path, "pixels").X_train.shape == (20, 35)

    def test_in_an_archive(self, tmp_path, arrays):
        data = load(
            tar_gz(tmp_path / "archive", {f"raw/{n}": gzip.compress(idx(a)) for n, a in arrays.items()})
        )
        assert np.array_equal(data.X_train, arrays["train-images-idx3-ubyte"])

    def test_a_missing_file_is_named(self, tmp_path, arrays):
        arrays.popitem()
        for name, array in arrays.items():
            (tmp_path / name).write_bytes(idx(array))
        with pytest.raises(ValueError, match="lacks the test images or labels"):
            load(tmp_path)

    @pytest.mark.parametrize(
        "change", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: d[:4] + b"\xff" * 4 + d[8:]]
    )
    def test_announced_and_real_size_must_agree(self, tmp_path, arrays, change):
        for name, array in arrays.items():
            (tmp_path / name).write_bytes(idx(array))
        spoilt = tmp_path / "train-images-idx3-ubyte"
        spoilt.write_bytes(change(spoilt.read_bytes()))
        with pytest.raises(ValueError, match=r"announces|would take"):
            load(tmp_path)


class TestNusWide:
    @pytest.fixture
    def layout(self, tmp_path):
        """Twelve concepts; the frequency of concept c falls with c, in both parts."""
        rng = np.random.default_rng(0)
        concepts = [f"c{k:02d}" for k in range(12)]
        parts = {}
        (tmp_path / "TrainTestLabels").mkdir()
        (tmp_path / "Low_Level_Features").mkdir()
        for part, n in (("Train", 120), ("Test", 60)):
            words = rng.integers(0, 9, (n, 500))
            tags = rng.random((n, 12)) < np.linspace(0.3, 0.01, 12)
            lines = "".join(" ".join(map(str, row)) + " \n" for row in words)
            (tmp_path / "Low_Level_Features" / f"BoW_{part}_int.dat").write_text(lines)
            for k, concept in enumerate(concepts):
                text = "".join(f"{int(v)}\n" for v in tags[:, k])
                (tmp_path / "TrainTestLabels" / f"Labels_{concept}_{part}.txt").write_text(text)
            parts[part] = words, tags
        return tmp_path, concepts, parts

    def test_images_with_exactly_one_of_the_ten_most_frequent_tags(self, layout):
        path, concepts, parts = layout
        data = load(path)
        counts = sum(tags.sum(axis=0) for _, tags in parts.values())
        top = sorted(sorted(range(12), key=lambda k: (-counts[k], k))[:10])
        assert data.class_names == [concepts[k] for k in top]
        for part, X, y in (("Train", data.X_train, data.y_train), ("Test", data.X_test, data.y_test)):
            words, tags = parts[part]
            kept = [i for i in range(len(words)) if sum(tags[i, k] for k in top) == 1]
            assert np.array_equal(X, words[kept])
            assert [top[c] for c in y] == [next(k for k in top if tags[i, k]) for i in kept]

    @pytest.mark.parametrize("n_labels", [12, 5])
    def test_all_images_with_all_their_labels(self, layout, n_labels):
        path, concepts, parts = layout
        data = load(path, labels=str(n_labels))
        counts = sum(tags.sum(axis=0) for _, tags in parts.values())
        top = sorted(sorted(range(12), key=lambda k: (-counts[k], k))[:n_labels])
        assert data.class_names == [concepts[k] for k in top]
        for part, X, Y in (("Train", data.X_train, data.y_train), ("Test", data.X_test, data.y_test)):
            words, tags = parts[part]
            assert np.array_equal(X, words)
            assert np.array_equal(Y, tags[:, top])
        assert data.summary["classes"] == {concepts[k]: counts[k] for k in top}

    @pytest.mark.parametrize("labels", ["13", "1", "many"])
    def test_labels_that_there_are_not(self, layout, labels):
        with pytest.raises(ValueError, match="from 2 to the 12 that there are"):
            load(layout[0], labels=labels)

    def test_what_is_missing_is_named(self, layout):
        path = layout[0]
        (path / "TrainTestLabels" / "Labels_c03_Test.txt").unlink()
        with pytest.raises(ValueError, match=r"not the whole of NUS-WIDE.*c03 \(Test\)"):
            load(path)

    @pytest.mark.parametrize("line", ["1 2 3\n", "0 " * 500 + "\n"])
    def test_rows_must_fit(self, layout, line):
        file = layout[0] / "Low_Level_Features" / "BoW_Test_int.dat"
        rows = file.read_text().splitlines(keepends=True)
        file.write_text("".join([line] * len(rows) if len(line) < 20 else [*rows, line]))
        with pytest.raises(ValueError, match=r"has \d+ (rows|numbers)"):
            load(layout[0])


def test_digits_need_nothing():
    data = load("digits")
    assert data.X_train.shape == (1438, 8, 8)
    assert data.X_test.shape == (359, 8, 8)
    assert (data.X_train.min(), data.X_train.max()) == (0, 255)
    assert set(data.y_test) == set(range(10))
