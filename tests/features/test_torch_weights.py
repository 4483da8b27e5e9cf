"""The reader of PyTorch's old files: what it reads, and that hostile files make nothing but an error."""

from __future__ import annotations

import collections
import io
import pickle
import struct
from typing import ClassVar

import numpy as np
import pytest

from sihash.features.torch_weights import read_tensors

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001
ABOUT = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}


class FloatStorage:
    """Stands for the class of torch that a file refers to, when the tests write one."""


FloatStorage.__module__ = "torch"


def _rebuild_tensor_v2(*arguments):
    raise AssertionError("the reader calls nothing")


_rebuild_tensor_v2.__module__ = "torch._utils"


class Reference:
    """A storage, written as a persistent id."""

    def __init__(self, key: str, n: int, kind=FloatStorage) -> None:
        self.id = ("storage", kind, key, "cpu", n, None)


class Tensor:
    def __init__(self, *arguments) -> None:
        self.arguments = arguments

    def __reduce__(self):
        return _rebuild_tensor_v2, self.arguments


class Pickler(pickle._Pickler):  # the slow one can be told to write names that do not exist
    def persistent_id(self, value):
        return value.id if isinstance(value, Reference) else None

    def save_global(self, value, name=None):
        name = name or value.__qualname__
        self.write(b"c" + f"{value.__module__}\n{name}\n".encode())
        self.memoize(value)

    dispatch: ClassVar = {
        **pickle._Pickler.dispatch,
        type: save_global,
        type(_rebuild_tensor_v2): save_global,
    }


def pickled(value) -> bytes:
    out = io.BytesIO()
    Pickler(out, 2).dump(value)
    return out.getvalue()


def tensor(key: str, shape, strides, *, offset: int = 0, n: int | None = None) -> Tensor:
    n = int(np.prod(shape)) if n is None else n
    return Tensor(Reference(key, n), offset, shape, strides, False, collections.OrderedDict())


def saved(tensors, storages: dict[str, np.ndarray], *, about=ABOUT, magic=MAGIC) -> bytes:
    """A file as `torch.save` wrote it."""
    head = b"".join(pickled(part) for part in (magic, VERSION, about))
    body = b"".join(struct.pack("<q", len(own)) + own.astype("<f4").tobytes() for own in storages.values())
    return head + pickled(tensors) + pickled(list(storages)) + body


def small() -> bytes:
    numbers = np.arange(6)
    tensors = collections.OrderedDict(
        a=tensor("1", (2, 3), (3, 1)),
        b=tensor("2", (3, 2), (1, 3)),
        last=tensor("2", (2,), (3,), offset=2, n=6),
    )
    return saved(tensors, {"1": numbers, "2": 10 * numbers})


def test_tensors_with_their_shapes_strides_and_offsets():
    found = read_tensors(small())
    assert found["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["b"].tolist() == [[0, 30], [10, 40], [20, 50]]
    assert found["last"].tolist() == [20, 50]
    assert all(array.dtype == np.float32 and not array.flags.writeable for array in found.values())


def test_every_file_cut_short_is_refused():
    whole = small()
    for n in range(len(whole)):
        with pytest.raises(ValueError, match="not a file of tensors"):
            read_tensors(whole[:n])


def test_a_changed_byte_makes_an_error_or_other_tensors_and_nothing_else():
    whole = small()
    rng = np.random.default_rng(0)
    for k in range(len(whole)):
        for value in {0, 255, whole[k] ^ 1, *rng.integers(0, 256, 6).tolist()}:
            try:
                found = read_tensors(whole[:k] + bytes([value]) + whole[k + 1 :])
            except ValueError:
                continue
            assert all(isinstance(array, np.ndarray) and array.dtype.kind in "fi" for array in found.values())


class Attack:
    """Calls a function when it is unpickled."""

    def __init__(self, function, *arguments) -> None:
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def mark(path: str) -> None:
    open(path, "w").close()


@pytest.mark.parametrize("place", ["magic", "about", "tensors", "tensor"])
def test_nothing_of_a_hostile_file_runs(tmp_path, place):
    attack = Attack(mark, str(tmp_path / "ran"))
    tensors = {"a": attack} if place == "tensor" else attack if place == "tensors" else {}
    data = saved(
        tensors, {}, about=attack if place == "about" else ABOUT, magic=attack if place == "magic" else MAGIC
    )
    with pytest.raises(ValueError, match=r"refers to .*mark"):
        read_tensors(data)
    assert not list(tmp_path.iterdir())


def head() -> bytes:
    return b"".join(pickled(part) for part in (MAGIC, VERSION, ABOUT))


@pytest.mark.parametrize(
    "program",
    [
        b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",  # os.system("true")
        b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.",
        b"\x80\x02ctorch\nFloatStorage\n)R.",  # a name that is known, but not to be called
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.",
        b"(X\x04\x00\x00\x00trueios\nsystem\n.",  # INST
        b"\x80\x02ccollections\nOrderedDict\n)\x81.",  # NEWOBJ
        b"\x80\x02\x82\x01.",  # EXT1
        b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00\x93.",  # STACK_GLOBAL
        b"\x80\x02]q\x00h\x00a.",  # a list in itself
        b"\x80\x02}(]K\x01u.",  # a list as a key
        b"\x80\x02X\xff\xff\xff\xff.",  # four gigabytes of text
        b"\x80\x02\x8a\xff" + b"\xff" * 10 + b".",
        b"\x80\x020.",  # POP of nothing
        b"\x80\x02t.",  # a tuple without its mark
        b"\x80\x02\x85.",
        b"\x80\x02h\x07.",  # out of an empty memo
        b"\x80\x02K\x01K\x02.",  # two values
        b"\x80\x02.",
        b"I" + b"9" * 10_000 + b"\n.",
    ],
)
def test_programs_that_are_no_tensors(program):
    with pytest.raises(ValueError, match="not a file of tensors"):
        read_tensors(head() + program)


def test_nested_tuples_are_not_unfolded():
    """Each twice in the next: 2^200 parts, if somebody were to count or to compare them."""
    doubled = b"".join(b"q%ch%c\x86" % (k, k) for k in range(200))
    for program in (b"\x80\x02)" + doubled + b".", b"\x80\x02})" + doubled + b"K\x01s."):
        with pytest.raises(ValueError, match="not a file of tensors"):
            read_tensors(head() + program)


@pytest.mark.parametrize(
    "bad",
    [
        tensor("1", (2, 3), (3, 1), n=5),  # longer than its storage
        tensor("1", (2, 3), (4, 1)),
        tensor("1", (2, 3), (3, 1), offset=1),
        tensor("1", (1 << 39, 1 << 39), (0, 0), n=6),
        tensor("1", (1 << 39,), (0,), n=6),
        tensor("1", (-1,), (1,), n=6),
        tensor("1", (2,), (-1,), offset=3, n=6),
        tensor("1", (6,), (1,), n=1 << 50),
        tensor("2", (6,), (1,)),  # a storage that is not there
        tensor("1", (1,) * 100, (1,) * 100),
        tensor("1", (2.0,), (1,), n=6),
        "text",
    ],
)
def test_tensors_that_do_not_fit_their_storage(bad):
    with pytest.raises(ValueError, match="not a file of tensors"):
        read_tensors(saved({"a": bad}, {"1": np.arange(6)}))


def test_a_file_of_another_machine():
    with pytest.raises(ValueError, match="not little-endian"):
        read_tensors(saved({}, {}, about={**ABOUT, "little_endian": False}))
