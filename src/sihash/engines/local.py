"""Rows on this machine, in memory or on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from sihash._typing import Array
from sihash.kernel import KernelMap
from sihash.svm.blocks import Block, Memory, RowBlocks, Store
from sihash.svm.settings import BLOCK_ROWS
from sihash.svm.svm_state import SVMs
from sihash.threads import map_threads

Result = TypeVar("Result")
RowColumns = dict[str, Array]
"""Row arrays by name: ``X``, class numbers ``y``, numbers ``pair`` of their code words, ``key``."""


class Engine(Protocol):
    """Lays rows out in blocks, wherever they are to lie."""

    def take(self, X: Any) -> Any:
        """Training rows as this engine lays them out."""

    def lay_out(
        self, kernel: KernelMap, columns: RowColumns, words: Array, sizes: list[int] | None = None
    ) -> RowBlocks:
        """Rows in blocks, class after class: those of a class that goes lie together.

        With ``sizes``, rows in the order of blocks that were there before: their vectors may be taken over
        as they lie, and their Φ is made when it is needed.
        """

    def attempt(self, work: Callable[[], Result]) -> Result:
        """``work()``, which changes nothing that exists, and once more where a machine was lost meanwhile."""

    def draft(self, svms: SVMs) -> SVMs:
        """A copy of the SVMs over these rows, to be changed."""

    def settle(self, rows: RowBlocks, kernel: KernelMap, words: Array) -> None:
        """The rows are as they are to be, with codes from ``words``; where they can be lost, take note."""


class LocalEngine:
    """Lays rows out in blocks whose wide arrays, ``X`` and ``Phi``, lie in ``store``."""

    def __init__(self, store: Store | None = None) -> None:
        self.store: Store = Memory() if store is None else store

    def take(self, X: Any) -> Any:
        return X

    def attempt(self, work: Callable[[], Result]) -> Result:
        return work()

    def draft(self, svms: SVMs) -> SVMs:
        return svms.copy()

    def settle(self, rows: RowBlocks, kernel: KernelMap, words: Array) -> None:
        pass

    def lay_out(
        self, kernel: KernelMap, columns: RowColumns, words: Array, sizes: list[int] | None = None
    ) -> RowBlocks:
        stops = np.cumsum([0, *(sizes or [])])
        again = map(slice, stops[:-1], stops[1:])
        runs: list[Any] = class_runs(columns["y"]) if sizes is None else list(again)

        def build(rows: Array | slice) -> Block:
            own = {name: values[rows] for name, values in columns.items()}
            if sizes is not None:  # the vectors may stay where they are
                own |= {name: values.copy() for name, values in own.items() if name != "X"}
            block = self._block(kernel, own, words)
            if sizes is None:
                block["Phi"]
                self.store.release(block.arrays["Phi"])
            return block

        return RowBlocks(map_threads(build, runs), self.store)

    def _block(self, kernel: KernelMap, columns: RowColumns, words: Array) -> Block:
        """A block of these rows: their vectors in the store, as later their features, the rest in memory."""
        X = self.store.keep(columns["X"])
        self.store.release(X)
        block = Block(len(X), kernel, **{**columns, "X": X, "Y": words[columns["pair"]]})
        block.store = self.store
        return block


def class_runs(y: Array) -> list[Array]:
    """Row numbers for each block: big classes alone in blocks of even size, small ones together."""
    order = np.argsort(y, kind="stable")
    classes = np.split(order, np.flatnonzero(np.diff(y[order])) + 1)
    runs: list[Array] = []
    small: list[Array] = []
    for rows in classes:
        if len(rows) >= BLOCK_ROWS // 4:
            runs.extend(np.array_split(rows, -(-len(rows) // BLOCK_ROWS)))
        else:
            small.append(rows)
    if small:
        rest = np.concatenate(small)
        runs.extend(np.array_split(rest, -(-len(rest) // BLOCK_ROWS)))
    return runs
