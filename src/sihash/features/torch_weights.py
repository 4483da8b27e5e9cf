"""The tensors of a file that PyTorch saved before version 1.6, read without PyTorch and without pickle.

Such a file is five pickles (a magic number, a version, facts about the machine, the tensors by name, the keys
of their storages), then the numbers of each storage. A pickle is a program; this module runs the few
instructions that such a file needs, on plain dicts, lists, tuples and numbers. The only names that it may
refer to are the four in `_NAMES`, none of which is imported or called. Everything else is refused.
"""

from __future__ import annotations

import io
import math
import pickletools  # only splits the instructions
from dataclasses import dataclass
from typing import Any

import numpy as np

from sihash._typing import Array

_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001
_CONSTANTS = {"EMPTY_TUPLE": (), "NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = ("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE")


@dataclass(frozen=True)
class _Name:
    name: str


@dataclass(frozen=True)
class _Storage:
    """Numbers that come later in the file, under ``key``."""

    dtype: np.dtype[Any]
    key: str
    n: int


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


_DICT, _TENSOR = _Name("collections OrderedDict"), _Name("torch._utils _rebuild_tensor_v2")
_DTYPES: dict[Any, np.dtype[Any]] = {
    _Name("torch FloatStorage"): np.dtype("<f4"),
    _Name("torch LongStorage"): np.dtype("<i8"),
}
_NAMES = {each.name: each for each in (_DICT, _TENSOR, *_DTYPES)}


def read_tensors(data: bytes) -> dict[str, Array]:
    """Tensors by name, as arrays that share the memory of ``data``; ValueError for any other file."""
    try:
        return _read(data)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError) as error:
        raise ValueError(f"This is not a file of tensors of PyTorch before 1.6: {error}.") from None


def _read(data: bytes) -> dict[str, Array]:
    file = io.BytesIO(data)
    if (_pickled(file), _pickled(file)) != (_MAGIC, _VERSION):
        raise ValueError("it does not begin with their mark")
    about, named, keys = _pickled(file), _pickled(file), _pickled(file)
    if not isinstance(about, dict) or about.get("little_endian") is not True:
        raise ValueError("it is not little-endian")
    if not isinstance(named, dict) or not all(isinstance(each, _Tensor) for each in named.values()):
        raise ValueError("it does not hold tensors by name")
    storages = _storages(data, file.tell(), keys, {t.storage.key: t.storage for t in named.values()})
    return {name: _array(tensor, storages) for name, tensor in named.items()}


def _storages(data: bytes, start: int, keys: Any, wanted: dict[str, _Storage]) -> dict[str, Array]:
    """The numbers of each storage: how many there are (8 bytes), then these."""
    found = {}
    for key in keys:
        storage = wanted[key]
        if int.from_bytes(data[start : start + 8], "little") != storage.n:
            raise ValueError(f"storage {key} has another length than its tensors say")
        found[key] = np.frombuffer(data, storage.dtype, storage.n, start + 8)
        start += 8 + storage.n * storage.dtype.itemsize
    return found


def _array(tensor: _Tensor, storages: dict[str, Array]) -> Array:
    numbers = storages[tensor.storage.key]
    if math.prod(tensor.shape) > len(numbers):  # strides of 0 would repeat a number for ever
        raise ValueError("a tensor has more numbers than its storage")
    size = numbers.itemsize
    strides = [size * n for n in tensor.strides]
    # NumPy checks that all of it lies within the storage.
    return np.ndarray(tensor.shape, numbers.dtype, numbers, size * tensor.offset, strides)


def _pickled(file: io.BytesIO) -> Any:
    """Run the instructions of one pickle."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        start = marks.pop()
        values = stack[start:]
        del stack[start:]
        return values

    argument: Any
    for opcode, argument, _ in pickletools.genops(file):
        name = opcode.name
        if name in ("PROTO", "STOP"):
            continue
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _VALUES:
            stack.append(argument)
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name == "MARK":
            marks.append(len(stack))
        elif name == "TUPLE":
            stack.append(tuple(since_mark()))
        elif name in ("TUPLE1", "TUPLE2"):
            n = int(name[-1])
            stack[-n:] = [tuple(stack[-n:])]
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            _set(stack[-1], key, value)
        elif name == "SETITEMS":
            pairs = since_mark()
            for key, value in zip(pairs[::2], pairs[1::2], strict=True):
                _set(stack[-1], key, value)
        elif name == "APPENDS":
            values = since_mark()
            stack[-1].extend(values)
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "GLOBAL":
            if argument not in _NAMES:
                raise ValueError(f"it refers to {argument!r}, which no tensor needs")
            stack.append(_NAMES[argument])
        elif name == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(_made(function, arguments))
        elif name == "BUILD":  # gives the dict of tensors its version, which nobody needs
            stack.pop()
        else:
            raise ValueError(f"it has the instruction {name}, which no tensor needs")
    (value,) = stack
    return value


def _set(target: Any, key: Any, value: Any) -> None:
    if not isinstance(target, dict) or not isinstance(key, str):
        raise ValueError("only dicts are filled here, by names")
    target[key] = value


def _storage(reference: Any) -> _Storage:
    """What stands for a storage: ("storage", kind, key, device, length, None)."""
    word, kind, key, _, n, view = reference
    if word != "storage" or kind not in _DTYPES or not isinstance(key, str) or view is not None:
        raise ValueError("one of its storages is of no known kind")
    return _Storage(_DTYPES[kind], key, _count(n))


def _made(function: Any, arguments: Any) -> Any:
    """What a call would make. Of tensors: (storage, offset, shape, strides, needs gradient, hooks)."""
    if function is _DICT and arguments == ():
        return {}
    if function is not _TENSOR:
        raise ValueError("it makes something other than tensors")
    storage, offset, shape, strides, _, _ = arguments
    if not isinstance(storage, _Storage):
        raise ValueError("a tensor has no storage")
    return _Tensor(storage, _count(offset), tuple(map(_count, shape)), tuple(map(_count, strides)))


def _count(n: Any) -> int:
    if type(n) is not int or not 0 <= n < 1 << 40:
        raise ValueError(f"expected a count, got {n!r:.40}")
    return n
