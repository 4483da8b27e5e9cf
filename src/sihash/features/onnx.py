"""Vectors from any image network in an ONNX file, run by onnxruntime on this machine."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from sihash._typing import Array
from sihash.checks import check_count
from sihash.features.network import Network

_MISSING = "Networks in ONNX files need onnxruntime and onnx: pip install 'sihash[onnx]'."
_LAYERS = ("Gemm", "MatMul", "Conv")  # what a last layer is made of


LAYOUTS = {"channels first": False, "channels last": True}


@dataclass(frozen=True)
class Preprocessing:
    """What a network expects of its input, as the file beside it says; None where it says nothing."""

    size: int | None = None
    mean: tuple[float, ...] | None = None
    deviation: tuple[float, ...] | None = None
    layout: str | None = None
    output: str | None = None

    @classmethod
    def beside(cls, file: str) -> Preprocessing:
        """From ``FILE.json``, if it is there; `network.onnx` has `network.onnx.json`."""
        path = preprocessing_file(file)
        if not path.is_file():
            return cls()
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is no JSON: {error}.") from None
        known = ("size", "mean", "deviation", "layout", "output")
        if not isinstance(found, dict) or set(found) - set(known):
            raise ValueError(f"{path} must be an object with {', '.join(known)}, or some of them.")
        size, layout, output = (found.get(name) for name in ("size", "layout", "output"))
        if size is not None:
            check_count(f"size in {path}", size)
        if layout is not None and layout not in LAYOUTS:
            raise ValueError(f"layout in {path} must be {' or '.join(map(repr, LAYOUTS))}, got {layout!r}.")
        if output is not None and not isinstance(output, str):
            raise ValueError(f"output in {path} must be the name of a tensor, got {output!r}.")
        mean, deviation = (_channels(found, name, path) for name in ("mean", "deviation"))
        return cls(size, mean, deviation, layout, output)


def preprocessing_file(file: str) -> Path:
    return Path(f"{file}.json")


def _channels(found: dict[str, Any], name: str, path: Path) -> tuple[float, ...] | None:
    """One number for all channels, or one for each."""
    value: Any = found.get(name)
    if value is None:
        return None
    values = value if isinstance(value, list) else [value] * 3
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values) or not values:
        raise ValueError(f"{name} in {path} must be a number, or a list of one for each channel.")
    return tuple(float(v) for v in values)


@dataclass(frozen=True)
class Onnx:
    """One tensor of the network, flattened, as the vector of an image.

    The image is cropped to its centre square and resized to ``size``, brought to 0…1, and normalised channel
    by channel: ``(value − mean) / std``. What is not given comes from the file beside the network
    (`Preprocessing`); otherwise the size is what the network's input says, the mean 0 and the deviation 1.
    ``output`` names the tensor; ``"penultimate"``, the default, is what the last layer reads, the usual
    descriptor of a classifier.
    """

    file: str
    size: int | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    output: str | None = None
    _network: Network = field(init=False, repr=False, compare=False)
    _weight_files: tuple[Path, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.file:
            raise ValueError("Expected an ONNX file after the colon, as in onnx:resnet.onnx, got none.")
        if self.size is not None:
            check_count("size", self.size)
        said = Preprocessing.beside(self.file)
        model, output, weight_files = _with_output(self.file, self.output or said.output or "penultimate")
        network = Network(model, output, self.file, LAYOUTS[said.layout] if said.layout else None)
        object.__setattr__(self, "_weight_files", tuple(weight_files))
        object.__setattr__(self, "_network", network)
        object.__setattr__(self, "size", self.size or said.size or network.side)
        object.__setattr__(self, "mean", tuple(self.mean or said.mean or (0.0, 0.0, 0.0)))
        object.__setattr__(self, "std", tuple(self.std or said.deviation or (1.0, 1.0, 1.0)))
        if self.size is None:
            raise ValueError(
                f"The input of {self.file} has no fixed size; say it in {preprocessing_file(self.file)}, as "
                'in {"size": 224}, or give size=….'
            )

    @property
    def batch(self) -> int:
        return self._network.batch or 16

    @property
    def at_least(self) -> int:
        return self._side

    @property
    def settings(self) -> dict[str, Any]:
        assert self.mean is not None
        assert self.std is not None
        settings = {
            "features": "onnx",
            "model": _digest(Path(self.file)),
            "size": self._side,
            "mean": list(self.mean),
            "std": list(self.std),
            "output": self._network.output,
        }
        beside = [path for path in (preprocessing_file(self.file), *self._weight_files) if path.is_file()]
        return settings | ({"files": {path.name: _digest(path) for path in beside}} if beside else {})

    @property
    def _side(self) -> int:
        assert self.size is not None
        return self.size

    def prepare(self, image: Image.Image) -> Array:
        mode = "L" if self._network.n_channels == 1 else "RGB"
        fitted = ImageOps.fit(image.convert(mode), (self._side, self._side), Image.Resampling.BILINEAR)
        return np.asarray(fitted).reshape(self._side, self._side, -1)

    def describe(self, batch: Array) -> Array:
        n_channels = batch.shape[-1]
        X = batch.astype(np.float32) / np.float32(255)
        assert self.mean is not None
        assert self.std is not None
        X -= np.asarray(self.mean[:n_channels], dtype=np.float32)
        X /= np.asarray(self.std[:n_channels], dtype=np.float32)
        return self._network(X)


def _digest(path: Path) -> str:
    """SHA-256 of a file, read once by a process as long as it stays the same file."""
    now = path.stat()
    return _digest_of(path, (now.st_ino, now.st_size, now.st_mtime_ns))


@lru_cache(maxsize=64)
def _digest_of(path: Path, state: tuple[int, int, int]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _weight_files(graph: Any, folder: Path) -> list[Path]:
    """Files beside the network that hold weights: large networks are stored like that."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    constants = [a.t for node in graph.node for a in node.attribute if a.HasField("t")]
    places = [
        ExternalDataInfo(tensor).location
        for tensor in (*graph.initializer, *constants)
        if uses_external_data(tensor)
    ]
    return [folder / place for place in sorted(set(places))]


def _with_output(file: str, output: str) -> tuple[bytes, str, list[Path]]:
    """The network with the wanted tensor among its outputs, the tensor's name, and files of weights."""
    try:
        import onnx
    except ImportError:
        raise ImportError(_MISSING) from None
    if not Path(file).is_file():
        raise FileNotFoundError(f"No ONNX file at {file}.")
    try:
        weight_files = _weight_files(onnx.load(file, load_external_data=False).graph, Path(file).parent)
        model = onnx.load(file)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{file} needs a file of weights that is not beside it: {error}.") from None
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
    return model.SerializeToString(), output, weight_files


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
