"""Extraction: order, rejects, batches, options, and real networks through onnxruntime."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest
from PIL import Image

from sihash.features import BadImage, extract, extractor, onnx
from sihash.features.extract import extract_stream


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (300, 8, 8, 3), dtype=np.uint8)


def test_pixels_are_the_pixels(images):
    assert np.array_equal(
        extract(images, "pixels"), images.reshape(300, -1).astype(np.float32) / np.float32(255)
    )
    assert extract(images[..., 0], "pixels").shape == (300, 64)
    assert extract(images, "pixels", grey=True, size=4).shape == (300, 16)


def test_problems_keep_their_number_and_the_rest_its_order(images):
    items = list(images)
    bad = [0, 63, 64, 200, 299]
    for i in bad:
        items[i] = b"no picture" if i % 2 else BadImage("cannot be read")
    X, problems = extract_stream(iter(items), extractor("pixels"))
    assert sorted(problems) == bad
    assert problems[64] == "cannot be read"
    good = np.setdiff1d(np.arange(300), bad)
    assert np.array_equal(X, extract(images[good], "pixels"))


def test_extract_refuses_and_names_the_first(images):
    with pytest.raises(BadImage, match="1 of the images cannot be used; number 1"):
        extract([images[0], b"", images[1]])


def test_progress_reaches_the_end(images):
    seen = []
    extract(images, "pixels", progress=lambda phase, share: seen.append((phase, share)))
    assert seen == sorted(seen)
    assert seen[-1] == ("features", 1)


def test_sizes_that_differ_are_named():
    images = [np.zeros((8, 8, 3), np.uint8), np.zeros((9, 8, 3), np.uint8)]
    with pytest.raises(ValueError, match="not of one size"):
        extract(images, "pixels")
    assert extract(images, "pixels", size=8).shape == (2, 192)


def test_no_images_no_rows():
    assert len(extract([], "gist")) == 0


@pytest.mark.parametrize(
    ("name", "options"), [("sift", {}), ("gist", {"colour": 3}), ("onnx:/nowhere.onnx", {})]
)
def test_unknown_features_and_options(name, options):
    with pytest.raises((ValueError, FileNotFoundError), match=r"Unknown features|Wrong option|No ONNX file"):
        extractor(name, **options)


class TestOnnx:
    """A small classifier: mean over the pixels, a layer of 5, softmax."""

    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")

    @pytest.fixture
    def weights(self):
        return np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)

    def network(self, path, weights, shape):
        from onnx import TensorProto, helper, numpy_helper

        axes = [1, 2] if shape[3] == 3 else [2, 3]
        nodes = [
            helper.make_node("ReduceMean", ["image"], ["mean"], axes=axes, keepdims=0),
            helper.make_node("MatMul", ["mean", "W"], ["logits"]),
            helper.make_node("Softmax", ["logits"], ["probabilities"]),
        ]
        graph = helper.make_graph(
            nodes,
            "classifier",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [shape[0], 5])],
            [numpy_helper.from_array(weights, "W")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        self.onnx.save(model, path)
        return f"onnx:{path}"

    @pytest.mark.parametrize("shape", [["n", 3, 8, 8], ["n", 8, 8, 3], [7, 3, 8, 8]])
    def test_penultimate_and_named_outputs(self, tmp_path, images, weights, shape):
        name = self.network(tmp_path / "net.onnx", weights, shape)
        mean = (images / 255).mean(axis=(1, 2))
        plain = {"mean": (0.0,), "std": (1.0,)}
        assert extract(images, name, **plain) == pytest.approx(mean, abs=1e-5)
        assert extract(images, name, output="logits", **plain) == pytest.approx(mean @ weights, abs=1e-5)
        assert extract(images, name, output="probabilities", **plain).sum(axis=1) == pytest.approx(1)

    def test_normalisation_and_size(self, tmp_path, images, weights):
        name = self.network(tmp_path / "net.onnx", weights, ["n", 3, "h", "w"])
        with pytest.raises(ValueError, match="no fixed size"):
            extract(images, name)
        mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
        expected = ((images / 255).mean(axis=(1, 2)) - mean) / std
        assert extract(images, name, size=8, mean=mean, std=std) == pytest.approx(expected, abs=1e-5)

    def test_refusals_name_what_is_there(self, tmp_path, weights):
        name = self.network(tmp_path / "net.onnx", weights, ["n", 3, 8, 8])
        with pytest.raises(ValueError, match="no tensor named 'nothing'; its outputs are probabilities"):
            extractor(name, output="nothing")
        (tmp_path / "text.onnx").write_text("no network")
        with pytest.raises(ValueError, match="not an ONNX file"):
            extractor(f"onnx:{tmp_path / 'text.onnx'}")

    def test_settings_follow_the_content_of_the_file(self, tmp_path, weights):
        def settings(name, weights):
            network = self.network(tmp_path / name, weights, ["n", 3, 8, 8])
            return extractor(network, mean=(0.0,), std=(1.0,)).settings

        first, second = settings("a.onnx", weights), settings("b.onnx", weights)
        assert first == second != settings("a.onnx", 2 * weights)

    def test_preprocessing_beside_the_network(self, tmp_path, images, weights):
        name = self.network(tmp_path / "net.onnx", weights, ["n", 3, "h", "w"])
        beside = tmp_path / "net.onnx.json"
        beside.write_text('{"size": 8, "mean": 0.498, "deviation": [0.5, 0.6, 0.7], "output": "logits"}')
        expected = ((images / 255).mean(axis=(1, 2)) - 0.498) / (0.5, 0.6, 0.7)
        assert extract(images, name) == pytest.approx(expected @ weights, abs=1e-5)
        assert extract(images, name, output="mean", mean=(0.0,) * 3) == pytest.approx(
            (images / 255).mean(axis=(1, 2)) / (0.5, 0.6, 0.7), abs=1e-5
        )
        for text, reason in {
            "no": "is no JSON",
            '{"sise": 8}': "must be an object with size, mean",
            '{"size": 0}': "size in .* must be a whole number",
            '{"mean": ["a"]}': "mean in .* must be a number",
            '{"layout": "NCHW"}': "'channels first' or 'channels last'",
        }.items():
            beside.write_text(text)
            with pytest.raises(ValueError, match=reason):
                extractor(name)

    def test_layout_that_cannot_be_guessed(self, tmp_path, weights):
        name = self.network(tmp_path / "net.onnx", weights, ["n", 3, 3, 3])
        (tmp_path / "net.onnx.json").write_text('{"layout": "channels last", "mean": 0, "deviation": 1}')
        images = np.random.default_rng(0).integers(0, 256, (2, 3, 3, 3), np.uint8)
        assert extract(images, name) == pytest.approx((images / 255).mean(axis=(1, 2)), abs=1e-5)

    @pytest.mark.parametrize("changed", ["net.onnx", "net.onnx.json", "net.weights"])
    def test_a_database_refuses_features_of_a_changed_file(self, tmp_path, weights, changed):
        from sihash import Database

        def save(weights):
            self.network(tmp_path / "net.onnx", weights, ["n", 3, 8, 8])
            model = self.onnx.load(tmp_path / "net.onnx")
            if changed == "net.weights":
                beside = {"save_as_external_data": True, "location": changed, "size_threshold": 0}
                self.onnx.save(model, tmp_path / "net.onnx", **beside)

        save(weights)
        (tmp_path / "net.onnx.json").write_text('{"mean": 0.5, "deviation": 1}')
        images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), np.uint8)
        images[20:] //= 4
        db = Database.create(
            tmp_path / "db", list(images), [0] * 20 + [1] * 20, n_bits=8, n_anchors=5,
            features=f"onnx:{tmp_path / 'net.onnx'}",
        )  # fmt: skip
        assert db.search([images[0]])[0].hits
        if changed == "net.onnx.json":
            (tmp_path / changed).write_text('{"mean": 0.4, "deviation": 1}')
        elif changed == "net.weights":
            (tmp_path / changed).unlink()
            save(2 * weights)
        else:
            save(2 * weights)
        with pytest.raises(ValueError, match=f"{changed} is not what it was when this database was made"):
            db.search([images[0]])


def test_pillow_images_are_taken(images):
    assert np.array_equal(extract([Image.fromarray(images[0])], "pixels"), extract(images[:1], "pixels"))


@pytest.mark.parametrize("features", ["gist", "pixels"])
@pytest.mark.parametrize("size", [0, -3, 2.5])
def test_sizes_that_are_none(features, size):
    with pytest.raises(ValueError, match="size"):
        extractor(features, size=size)


def test_a_network_is_hashed_once_as_long_as_it_stays_the_same_file(tmp_path, monkeypatch):
    path = tmp_path / "network.onnx"
    path.write_bytes(b"weights")
    read = []
    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *a: read.append(1) or digest(*a))
    first = onnx._digest(path)
    assert onnx._digest(path) == first == hashlib.sha256(b"weights").hexdigest()
    assert len(read) == 1
    path.write_bytes(b"WEIGHTS")
    os.utime(path, ns=(1, 1))
    assert onnx._digest(path) != first
