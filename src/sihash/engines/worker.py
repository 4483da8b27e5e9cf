"""What a Dask worker holds: its part of the rows, as ordinary blocks."""

from __future__ import annotations

import ctypes
import dataclasses
import sys
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import copy_context
from typing import Any
from weakref import finalize

import numpy as np

from sihash._typing import Array
from sihash.engines.local import LocalEngine, RowColumns
from sihash.kernel import KernelMap
from sihash.svm.blocks import RowBlocks
from sihash.threads import team

# As in glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 16 * 2**20  # more than any temporary array of a block

inbox: dict[str, Array] = {}  # vectors that Dask has brought to this process, until a part takes them


@dataclasses.dataclass(frozen=True)
class Failure:
    """An exception of the function itself, told apart from a worker that is gone."""

    error: Exception


@dataclasses.dataclass(frozen=True)
class NotHere:
    """The worker is there, but not these rows: it was started again."""


class Part:
    """An actor that holds rows by number and lets functions loose on them, with a team of threads."""

    def __init__(self, n_threads: int) -> None:
        keep_freed_memory()
        self._rows: dict[int, RowBlocks] = {}
        self._context, stack = copy_context(), ExitStack()
        self._context.run(stack.enter_context, team(n_threads))
        finalize(self, self._context.run, stack.close)

    def build(self, number: int, function: Callable[..., RowBlocks], args: tuple[Any, ...]) -> Any:
        """Hold the rows that ``function(*args)`` makes; returns how many."""
        try:
            self._rows[number] = self._context.run(function, *args)
            return len(self._rows[number])
        except Exception as error:
            return Failure(error)

    def run(
        self,
        number: int,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        derived: int | None,
        forget: list[int],
    ) -> Any:
        """``function(rows, *args)``, and how many rows there are then.

        A result that is to stay here, as rows, is given the number ``derived``.
        """
        for old in forget:
            self._rows.pop(old, None)
        if number not in self._rows:
            return NotHere()
        rows = self._rows[number]
        try:
            result = self._context.run(function, rows, *aligned_copy(args))
        except Exception as error:
            return Failure(error)
        if derived is not None:
            self._rows[derived], result = result, None
        return result, len(rows)

    def n_held(self) -> int:
        return len(self._rows)


def keep_freed_memory() -> None:
    """Let glibc hold on to freed memory up to `KEPT_BYTES`, where there is one.

    Dask starts its workers so that they give every temporary array back to the system at once; taking it
    again, page by page, made a step of the solver a third slower.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for parameter in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            mallopt(parameter, KEPT_BYTES)


def aligned_copy(value: Any) -> Any:
    """A copy of all arrays in arguments: those from the network are misaligned, products with them slow."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, tuple | list):
        return type(value)(map(aligned_copy, value))
    if isinstance(value, dict):
        return {key: aligned_copy(each) for key, each in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: aligned_copy(getattr(value, name)) for name in fields})
    return value


def deliver(X: Array, rows: Array | None, token: str) -> None:
    """Leave rows of a block for the part in this process."""
    inbox[token] = X if rows is None else X[rows]


def lay_out_part(pieces: list[RowColumns], kernel: KernelMap, words: Array) -> RowBlocks:
    """Rows of several pieces in blocks. The vectors ``X`` of a piece may be the token of a delivery."""
    columns = _joined(pieces)
    if not len(columns["y"]):
        return RowBlocks([])
    return LocalEngine().lay_out(kernel, columns, words)


def lay_out_part_again(
    pieces: list[RowColumns], kernel: KernelMap, sizes: list[int], words: Array
) -> RowBlocks:
    columns = _joined(pieces)
    columns["X"] = np.require(columns["X"], requirements=["A", "O", "W"])  # the rows take it over
    return LocalEngine().lay_out(kernel, columns, words, sizes)


def _joined(pieces: list[RowColumns]) -> RowColumns:
    filled = [{**piece, "X": _vectors(piece)} for piece in pieces]
    if len(filled) == 1:
        return filled[0]
    return {name: np.concatenate([piece[name] for piece in filled]) for name in filled[0]}


def _vectors(piece: dict[str, Any]) -> Array:
    X = piece["X"]
    return X if isinstance(X, np.ndarray) else inbox.pop(X)
