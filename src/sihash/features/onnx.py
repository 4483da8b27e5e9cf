"""Vectors from any image network in an ONNX file, run by onnxruntime on this machine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from sihash._typing import Array
from sihash.checks import check_count

_MISSING = "ONNX features need onnxruntime and onnx: pip install 'sihash[onnx]'."
_LAYERS = ("Gemm", "MatMul", "Conv")  # what a last layer is made of


@dataclass(frozen=True)
class Onnx:
    """One tensor of the network, flattened, as the vector of an image.

    The image is cropped to its centre square and resized to ``size`` (by default what the network's input
    says), brought to 0…1, and normalised channel by channel: ``(value − mean) / std``. ``output`` names the
    tensor; ``"penultimate"`` is what the last layer reads, the usual descriptor of a classifier.
    """

    file: str
    size: int | None = None
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    output: str = "penultimate"
    _network: _Network = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.file:
            raise ValueError("Expected an ONNX file after the colon, as in onnx:resnet.onnx, got none.")
        if self.size is not None:
            check_count("size", self.size)
        object.__setattr__(self, "_network", _Network(self.file, self.output))
        if self.size is None and self._network.side is None:
            raise ValueError(f"The input of {self.file} has no fixed size; give size=…, such as 224.")

    @property
    def batch(self) -> int:
        return self._network.batch or 16

    @property
    def at_least(self) -> int:
        return self._side

    @property
    def settings(self) -> dict[str, Any]:
        digest = hashlib.sha256(Path(self.file).read_bytes()).hexdigest()
        return {
            "features": "onnx",
            "model": digest,
            "size": self._side,
            "mean": list(self.mean),
            "std": list(self.std),
            "output": self._network.output,
        }

    @property
    def _side(self) -> int:
        side = self.size or self._network.side
        assert side is not None
        return side

    def prepare(self, image: Image.Image) -> Array:
        mode = "L" if self._network.n_channels == 1 else "RGB"
        fitted = ImageOps.fit(image.convert(mode), (self._side, self._side), Image.Resampling.BILINEAR)
        return np.asarray(fitted).reshape(self._side, self._side, -1)

    def describe(self, batch: Array) -> Array:
        n_channels = batch.shape[-1]
        X = batch.astype(np.float32) / np.float32(255)
        X -= np.asarray(self.mean[:n_channels], dtype=np.float32)
        X /= np.asarray(self.std[:n_channels], dtype=np.float32)
        return self._network(X)


class _Network:
    """An onnxruntime session with what has to be known of its input."""

    def __init__(self, file: str, output: str) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise ImportError(_MISSING) from None
        if not Path(file).is_file():
            raise FileNotFoundError(f"No ONNX file at {file}.")
        model, self.output = _with_output(file, output)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # batches run side by side already
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises its own family of errors, none of them public
            raise ValueError(f"{file} cannot be opened as an ONNX network: {error}") from None
        self._input = self._session.get_inputs()[0]
        shape = self._input.shape
        if len(shape) != 4:
            raise ValueError(
                f"{file} takes an input of shape {shape}; an image network takes four dimensions."
            )
        self._channels_last = shape[3] in (1, 3) and shape[1] not in (1, 3)
        self.n_channels = shape[3] if self._channels_last else shape[1]
        sides = shape[1:3] if self._channels_last else shape[2:4]
        self.side: int | None = sides[0] if isinstance(sides[0], int) else None
        self.batch: int | None = shape[0] if isinstance(shape[0], int) else None

    def __call__(self, X: Array) -> Array:
        """Images n × side × side × channels to vectors n × n_features."""
        n = len(X)
        if self.batch and n < self.batch:  # the batch is part of such a network: fill it up
            X = np.concatenate([X, np.zeros((self.batch - n, *X.shape[1:]), dtype=X.dtype)])
        if not self._channels_last:
            X = np.ascontiguousarray(X.transpose(0, 3, 1, 2))
        dtype = np.float16 if self._input.type == "tensor(float16)" else np.float32
        (values,) = self._session.run([self.output], {self._input.name: X.astype(dtype, copy=False)})
        return np.asarray(values[:n], dtype=np.float32).reshape(n, -1)


def _with_output(file: str, output: str) -> tuple[bytes, str]:
    """The network with the wanted tensor among its outputs, and the tensor's name."""
    try:
        import onnx
    except ImportError:
        raise ImportError(_MISSING) from None
    try:
        model = onnx.load(file)
    except Exception as error:  # protobuf's errors differ from version to version
        raise ValueError(f"{file} is not an ONNX file: {error}") from None
    if output == "penultimate":
        output = _penultimate(model.graph, file)
    tensors = {name for node in model.graph.node for name in node.output}
    if output not in tensors:
        raise ValueError(
            f"{file} has no tensor named {output!r}; its outputs are "
            f"{', '.join(o.name for o in model.graph.output)}."
        )
    if output not in {o.name for o in model.graph.output}:
        model.graph.output.append(onnx.ValueInfoProto(name=output))
    return model.SerializeToString(), output


def _penultimate(graph: Any, file: str) -> str:
    """The tensor that the last layer reads: back from the first output, past softmax and the like."""
    maker = {name: node for node in graph.node for name in node.output}
    name = graph.output[0].name
    while name in maker:
        node = maker[name]
        if node.op_type in _LAYERS and node.input[0] in maker:
            return str(node.input[0])
        name = node.input[0]
    raise ValueError(f"Found no last layer in {file}; name the tensor to use: output=….")
