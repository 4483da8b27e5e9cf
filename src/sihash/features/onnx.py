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
from sihash.features.onnx_file import open_onnx

LAYOUTS = {"channels first": False, "channels last": True}
_IMAGENET = '{"mean": [0.485, 0.456, 0.406], "deviation": [0.229, 0.224, 0.225]}'


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

    The image is cropped in its middle and resized to ``size``, brought to 0…1, and normalised channel by
    channel: ``(value − mean) / std``. What is not given comes from the file beside the network
    (`Preprocessing`), else from the network (`sihash.features.onnx_file`); what is in neither is asked for.
    A network that takes whole numbers gets the pixels as they are.
    """

    file: str
    size: int | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    output: str | None = None
    _network: Network = field(init=False, repr=False, compare=False)
    _files: tuple[Path, ...] = field(init=False, repr=False, compare=False)  # beside the network
    _sides: tuple[int, int] = field(init=False, repr=False, compare=False)  # height and width
    _n_channels: int = field(init=False, repr=False, compare=False)
    _takes_bytes: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.file:
            raise ValueError("Expected an ONNX file after the colon, as in onnx:resnet.onnx, got none.")
        if self.size is not None:
            check_count("size", self.size)
        said, beside = Preprocessing.beside(self.file), preprocessing_file(self.file)
        read = open_onnx(self.file, self.output or said.output)
        size = self.size or said.size
        sides = (size, size) if size else read.sides
        if sides is None:
            raise ValueError(
                f"The input of {self.file} has no fixed size; say it in {beside}, as in "
                '{"size": 224}, or give size=….'
            )
        if read.sides is not None and sides != read.sides:
            raise ValueError(
                f"{self.file} takes images of {read.sides[0]} × {read.sides[1]} pixels (height × width), not "
                f"of {sides[0]} × {sides[1]}; leave the size out."
            )
        channels_last = LAYOUTS[said.layout] if said.layout else read.channels_last
        if channels_last is None:
            raise ValueError(
                f"Where the channels of the input of {self.file} are cannot be seen; say it in {beside}, as "
                'in {"layout": "channels first"}.'
            )
        mean, std = self.mean or said.mean, self.std or said.deviation
        if read.takes_bytes:
            if mean or std:
                raise ValueError(f"{self.file} takes pixels as they are; leave mean and deviation out.")
            mean, std = (0.0,), (1.0,)
        if mean is None or std is None:
            raise ValueError(
                f"How {self.file} wants its colours cannot be seen; say it in {beside}, as in "
                f"{_IMAGENET} (ImageNet's), or give mean=… and std=…; 0 and 1 leave them in 0…1."
            )
        found = {
            "size": size or (sides[0] if sides[0] == sides[1] else None),
            "mean": _for_channels("mean", mean, read.n_channels),
            "std": _for_channels("std", std, read.n_channels),
            "_network": Network(read.model, read.output, self.file, channels_last),
            "_files": (beside, *read.weight_files),
            "_sides": sides,
            "_n_channels": read.n_channels,
            "_takes_bytes": read.takes_bytes,
            "output": read.output,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def batch(self) -> int:
        return self._network.batch or 16

    @property
    def at_least(self) -> int:
        return max(self._sides)

    @property
    def settings(self) -> dict[str, Any]:
        settings = {
            "features": "onnx",
            "model": _digest(Path(self.file)),
            "size": self.size or list(self._sides),
            "mean": list(self.mean or ()),
            "std": list(self.std or ()),
            "output": self.output,
        }
        beside = [path for path in self._files if path.is_file()]
        return settings | ({"files": {path.name: _digest(path) for path in beside}} if beside else {})

    def prepare(self, image: Image.Image) -> Array:
        height, width = self._sides
        mode = "L" if self._n_channels == 1 else "RGB"
        fitted = ImageOps.fit(image.convert(mode), (width, height), Image.Resampling.BILINEAR)
        return np.asarray(fitted).reshape(height, width, -1)

    def describe(self, batch: Array) -> Array:
        if self._takes_bytes:
            return self._network(batch)
        X = batch.astype(np.float32) / np.float32(255)
        X -= np.asarray(self.mean, dtype=np.float32)
        X /= np.asarray(self.std, dtype=np.float32)
        return self._network(X)


def _for_channels(name: str, values: tuple[float, ...], n_channels: int) -> tuple[float, ...]:
    """One value for each channel."""
    if len(values) == 1 or len(set(values)) == 1:
        return tuple(values[:1]) * n_channels
    if len(values) != n_channels:
        raise ValueError(f"Expected {name} for {n_channels} channels, got {len(values)} numbers.")
    return tuple(values)


def _digest(path: Path) -> str:
    """SHA-256 of a file, read once by a process as long as it stays the same file."""
    now = path.stat()
    return _digest_of(path, (now.st_ino, now.st_size, now.st_mtime_ns))


@lru_cache(maxsize=64)
def _digest_of(path: Path, state: tuple[int, int, int]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
