"""Writes an ONNX file: the few messages of its format that a network of convolutions needs.

The format is Protocol Buffers (onnx.proto): a message is a list of fields, each a number, a type and a value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6}  # TensorProto.DataType
_INTEGER, _INTEGERS = 2, 7  # AttributeProto.AttributeType
_IR_VERSION = 8
_OPERATORS = {"": 17, "com.microsoft": 1}  # versions; the second are onnxruntime's additions

Shape = tuple[int | str, ...]  # text names a size that is free


class OnnxGraph:
    """A graph that grows node by node."""

    def __init__(self) -> None:
        self._fields: list[bytes] = []

    def constant(self, name: str, value: Any) -> str:
        array = np.ascontiguousarray(value)
        message = b"".join(_field(1, n) for n in np.shape(value)) + _field(2, _TYPES[array.dtype.name])
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        self._fields.append(_field(5, message + _field(8, name) + _field(9, little.tobytes())))
        return name

    def node(
        self, kind: str, inputs: list[str], output: str, domain: str = "", **attributes: int | list[int]
    ) -> str:
        """A node with one output, whose name is returned."""
        message = b"".join(_field(1, name) for name in inputs) + _field(2, output) + _field(4, kind)
        message += b"".join(_field(5, _attribute(name, value)) for name, value in attributes.items())
        self._fields.append(_field(1, message + _field(7, domain)))
        return output

    def file(self, image: tuple[str, str, Shape], features: tuple[str, str, Shape]) -> bytes:
        """The file; input and output are given as (name, type, shape)."""
        graph = b"".join(self._fields) + _field(2, "network")
        graph += _field(11, _described(*image)) + _field(12, _described(*features))
        operators = b"".join(_field(8, _field(1, domain) + _field(2, n)) for domain, n in _OPERATORS.items())
        return _field(1, _IR_VERSION) + _field(7, graph) + operators


def _attribute(name: str, value: int | list[int]) -> bytes:
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, _INTEGER)
    return _field(1, name) + b"".join(_field(8, n) for n in value) + _field(20, _INTEGERS)


def _described(name: str, kind: str, shape: Shape) -> bytes:
    sizes = b"".join(_field(1, _field(2 if isinstance(n, str) else 1, n)) for n in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, _TYPES[kind]) + _field(2, sizes)))


def _field(number: int, value: int | str | bytes) -> bytes:
    """One field: a whole number, or text, bytes or a message with their length before them."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(n: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)
