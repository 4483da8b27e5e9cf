"""What is read from an ONNX file, on made networks of the shapes that people export; hostile files."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sihash.features import extract, extractor

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from sihash.features.onnx_file import open_onnx  # noqa: E402

RNG = np.random.default_rng(0)
PLAIN = {"mean": (0.0,), "std": (1.0,)}


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs.split(), [output], **attributes)


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(path, nodes, constants, outputs, *, image=("n", 3, 8, 8), inputs=(), kind=TensorProto.FLOAT):
    """A network with the input ``image``."""
    tensors = [
        numpy_helper.from_array(np.asarray(v, dtype=getattr(v, "dtype", np.float32)), name)
        for name, v in constants.items()
    ]
    ends = [value(name, shape) for name, shape in outputs.items()]
    graph = helper.make_graph(nodes, "network", [value("image", image, kind), *inputs], ends, tensors)
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("strangers", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return str(path)


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


CONVOLUTIONS = [  # the end of a timm network of num_classes=0, of torchvision's, of EfficientNet
    node("Conv", "image W", "conv"),
    node("Relu", "conv", "maps"),
    node("GlobalAveragePool", "maps", "pooled"),
    node("Flatten", "pooled", "flat"),
]
CONV = {"W": numbers(6, 3, 3, 3)}
NETWORKS = {
    "timm, num_classes=0": (CONVOLUTIONS, CONV, {"flat": ["n", 6]}, "flat"),
    "torchvision, a linear layer with a bias": (
        [*CONVOLUTIONS, node("Gemm", "flat A b", "logits")],
        CONV | {"A": numbers(6, 4), "b": numbers(4)},
        {"logits": ["n", 4]},
        "flat",
    ),
    "TensorFlow, a product and a sum, then softmax": (
        [
            *CONVOLUTIONS,
            node("MatMul", "flat A", "product"),
            node("Add", "product b", "sum"),
            node("Softmax", "sum", "probabilities"),
        ],
        CONV | {"A": numbers(6, 4), "b": numbers(4)},
        {"probabilities": ["n", 4]},
        "flat",
    ),
    "SqueezeNet, a convolution as classifier": (
        [*CONVOLUTIONS, node("Softmax", "flat", "probabilities")],
        CONV,
        {"probabilities": ["n", 6]},
        None,  # what the convolution reads is the image
    ),
    "open_clip, a projection": (
        [*CONVOLUTIONS, node("MatMul", "flat A", "embedding")],
        CONV | {"A": numbers(6, 4)},
        {"embedding": ["n", 4]},
        "embedding",
    ),
    "open_clip, scaled to unit length": (
        [
            *CONVOLUTIONS,
            node("Gemm", "flat A b", "projected"),
            node("ReduceL2", "projected", "length", axes=[1], keepdims=1),
            node("Div", "projected length", "embedding"),
        ],
        CONV | {"A": numbers(6, 4), "b": numbers(4)},
        {"embedding": ["n", 4]},
        "embedding",
    ),
    "transformers, tokens first": (
        [*CONVOLUTIONS, node("Identity", "maps", "tokens")],
        CONV,
        {"tokens": ["n", 6, 6, 6], "flat": ["n", 6]},
        "flat",
    ),
    "a head before the end, as in EfficientNet": (
        [
            *CONVOLUTIONS[:2],
            node("Conv", "maps H", "head"),
            node("ReduceMean", "head", "features", axes=[2, 3], keepdims=0),
        ],
        CONV | {"H": numbers(12, 6, 1, 1)},
        {"features": ["n", 12]},
        "features",
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_last_features_are_found(tmp_path, name):
    nodes, constants, outputs, expected = NETWORKS[name]
    read = open_onnx(save(tmp_path / "net.onnx", nodes, constants, outputs))
    assert read.output == (expected or next(iter(outputs)))
    assert (read.channels_last, read.n_channels, read.sides) == (False, 3, (8, 8))


def test_the_network_of_the_shared_models_needs_no_name():
    path = Path(os.environ.get("SIHASH_DATA", "")) / "../models/efficientnet-lite0-features.onnx"
    if not path.is_file():
        pytest.skip("needs models/efficientnet-lite0-features.onnx beside SIHASH_DATA")
    assert extract([np.zeros((9, 9, 3), np.uint8)], f"onnx:{path}", size=112, **PLAIN).shape == (1, 1280)


def test_layout_is_read_from_the_first_layer(tmp_path):
    free = {"flat": ["n", 6]}
    first = save(tmp_path / "a.onnx", CONVOLUTIONS, CONV, free, image=["n", "c", "h", "w"])
    turned = [node("Transpose", "image", "turned", perm=[0, 3, 1, 2]), *CONVOLUTIONS[1:]]
    turned.insert(1, node("Conv", "turned W", "conv"))
    last = save(tmp_path / "b.onnx", turned, CONV, free, image=["n", "h", "w", "c"])
    assert [(each.channels_last, each.n_channels) for each in map(open_onnx, (first, last))] == [
        (False, 3),
        (True, 3),
    ]
    pictures = RNG.integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    assert extract(pictures, f"onnx:{first}", size=8, **PLAIN) == pytest.approx(
        extract(pictures, f"onnx:{last}", size=8, **PLAIN), abs=1e-5
    )
    flat = [node("Flatten", "image", "flat")]
    unclear = save(tmp_path / "c.onnx", flat, {}, free, image=["n", "a", "b", "c"])
    with pytest.raises(ValueError, match=r'channels .* cannot be seen; say it in .*"layout"'):
        extractor(f"onnx:{unclear}", size=8, **PLAIN)


@pytest.mark.parametrize("image", [("n", 3, 4, 6), ("n", 4, 6, 3)])
def test_height_and_width_are_not_swapped(tmp_path, image):
    """A network that hands out its pixels, and a picture that is not symmetric."""
    nodes = [node("Mul", "image one", "same"), node("Flatten", "same", "pixels")]
    one = {"one": np.ones(1, np.float32)}
    path = save(tmp_path / "net.onnx", nodes, one, {"pixels": ["n", 72]}, image=image)
    picture = np.zeros((4, 6, 3), np.uint8)
    picture[0, 1] = (200, 100, 50)  # the top row, the second from the left
    picture[3, 4] = (0, 255, 0)
    (found,) = extract([picture], f"onnx:{path}", **PLAIN)
    expected = picture if image[3] == 3 else picture.transpose(2, 0, 1)
    assert np.array_equal(np.rint(255 * found).astype(int), expected.ravel())
    larger = Image.fromarray(np.kron(picture, np.ones((5, 5, 1), np.uint8)))
    fitted = extractor(f"onnx:{path}", **PLAIN).prepare(larger)
    assert np.unravel_index(fitted[..., 0].argmax(), (4, 6)) == (0, 1)
    assert np.unravel_index(fitted[..., 1].argmax(), (4, 6)) == (3, 4)


def test_whole_numbers_are_pixels_as_they_are(tmp_path):
    nodes = [
        node("Cast", "image", "cast", to=TensorProto.FLOAT),
        node("Flatten", "cast", "pixels"),
    ]
    path = save(tmp_path / "n.onnx", nodes, {}, {"pixels": ["n", 192]}, kind=TensorProto.UINT8)
    picture = RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    assert np.array_equal(extract([picture], f"onnx:{path}")[0], picture.transpose(2, 0, 1).ravel())
    with pytest.raises(ValueError, match="takes pixels as they are"):
        extractor(f"onnx:{path}", mean=(0.5,))


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        ({}, {}, r"wants its colours cannot be seen; say it in .*net\.onnx\.json"),
        ({}, {"mean": (0.5, 0.5), "std": (1.0,)}, None),
        ({}, {"mean": (0.4, 0.5), "std": (1.0,)}, "Expected mean for 3 channels, got 2 numbers"),
        ({}, PLAIN | {"size": 9}, r"takes images of 8 × 8 pixels \(height × width\), not of 9 × 9"),
        ({"image": ["n", 3, "h", "w"]}, PLAIN, "has no fixed size"),
        ({"image": ["n", 4, 8, 8]}, PLAIN, "images of 4 channels|4 channels; expected 1 or 3"),
        ({"image": ["n", 8]}, PLAIN, "takes four dimensions"),
        ({"inputs": [value("text", ["n", 77])]}, PLAIN, "Export the image part alone"),
    ],
)
def test_what_cannot_be_read_is_asked_in_one_sentence(tmp_path, changes, options, sentence):
    constants = CONV | ({"W": numbers(6, 4, 3, 3)} if 4 in changes.get("image", ()) else {})
    path = save(tmp_path / "net.onnx", CONVOLUTIONS, constants, {"flat": ["n", 6]}, **changes)
    if sentence is None:
        assert extractor(f"onnx:{path}", **options).settings["mean"] == [0.5, 0.5, 0.5]
        return
    with pytest.raises(ValueError, match=sentence) as told:
        extractor(f"onnx:{path}", **options)
    assert "\n" not in str(told.value)


class TestHostileFiles:
    def weights_at(self, path: Path, place: str, **entries: int) -> str:
        """A network whose weights lie elsewhere."""
        save(path, CONVOLUTIONS, CONV, {"flat": ["n", 6]})
        model = onnx.load(path)
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, content in {"location": place, **entries}.items():
            tensor.external_data.add(key=key, value=str(content))
        onnx.save(model, path)
        return f"onnx:{path}"

    @pytest.mark.parametrize("place", ["../secret", "/etc/hostname", "inner/../../secret", "link"])
    def test_weights_outside_the_folder(self, tmp_path, place):
        folder = tmp_path / "net"
        folder.mkdir()
        (tmp_path / "secret").write_bytes(CONV["W"].tobytes())
        (folder / "link").symlink_to(tmp_path / "secret")
        with pytest.raises(ValueError, match="outside its folder; put them beside the network"):
            extractor(self.weights_at(folder / "net.onnx", place), **PLAIN)

    def test_weights_that_are_not_there_or_too_short(self, tmp_path):
        path = self.weights_at(tmp_path / "net.onnx", "net.weights")
        with pytest.raises(FileNotFoundError, match=r"not beside it: net\.weights"):
            extractor(path, **PLAIN)
        (tmp_path / "net.weights").write_bytes(b"few")
        for entries in ({}, {"offset": -4}, {"offset": 1 << 60}, {"length": 1 << 60}, {"offset": "x"}):
            with pytest.raises(ValueError, match=r"net\.onnx.*(cannot be|is not an ONNX file)"):
                extractor(self.weights_at(tmp_path / "net.onnx", "net.weights", **entries), **PLAIN)

    def test_operators_of_strangers(self, tmp_path):
        own = [*CONVOLUTIONS[:3], helper.make_node("Steal", ["pooled"], ["flat"], domain="strangers")]
        path = save(tmp_path / "net.onnx", own, CONV, {"flat": ["n", 6]})
        with pytest.raises(ValueError, match=r"needs the operator Steal of 'strangers'.*; export the"):
            extractor(f"onnx:{path}", **PLAIN)

    def test_operators_of_strangers_inside_a_branch(self, tmp_path):
        steal = helper.make_node("Steal", ["pooled"], ["stolen"], domain="strangers")
        branch = helper.make_graph([steal], "branch", [], [value("stolen", ["n", 6])])
        choose = helper.make_node("If", ["yes"], ["flat"], then_branch=branch, else_branch=branch)
        path = save(tmp_path / "n.onnx", [*CONVOLUTIONS[:3], choose], CONV | {"yes": np.array(True)}, {})
        with pytest.raises(ValueError, match="Steal"):
            open_onnx(path)

    def test_constants_larger_than_any_file(self, tmp_path):
        path = save(tmp_path / "net.onnx", CONVOLUTIONS, CONV, {"flat": ["n", 6]})
        model = onnx.load(path)
        model.graph.initializer[0].dims[:] = [1 << 20, 1 << 20, 3, 3]
        onnx.save(model, path)
        with pytest.raises(ValueError, match=r"has a constant of .* more than a network file can hold"):
            extractor(f"onnx:{path}", **PLAIN)
        filled = [*CONVOLUTIONS, node("ConstantOfShape", "shape", "huge"), node("Add", "flat huge", "sum")]
        path = save(tmp_path / "n.onnx", filled, CONV | {"shape": np.full(2, 1 << 20)}, {"sum": ["n", 6]})
        with pytest.raises(ValueError, match="makes a constant of 1,099,511,627,776 numbers"):
            extractor(f"onnx:{path}", **PLAIN)

    def test_a_changed_byte_is_told_in_one_sentence_or_makes_another_network(self, tmp_path):
        path = Path(save(tmp_path / "net.onnx", CONVOLUTIONS, CONV, {"flat": ["n", 6]}))
        whole = path.read_bytes()
        for place in RNG.integers(0, len(whole), 150):
            path.write_bytes(whole[:place] + bytes([RNG.integers(256)]) + whole[place + 1 :])
            with suppress(ValueError, FileNotFoundError):
                assert open_onnx(str(path)).model
