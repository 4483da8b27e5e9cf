"""A matrix in row blocks, with everything that belongs to a row beside it.

The solvers never see the whole matrix. They send a function to every block and add up what comes back:
weights go out, sums come home. So the rows may lie in memory, in a memory-mapped file or on another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from sihash._typing import Array
from sihash.svm.settings import BLOCK_ROWS
from sihash.threads import fold_threads, map_threads


class Store(Protocol):
    """Where the wide arrays of the rows (``Phi``, ``X``) lie."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Room for an array, its values not set."""

    def keep(self, array: Array) -> Array:
        """The float32 values of an array that nobody else needs."""

    def release(self, array: Array) -> None:
        """The array is not needed for a while; what it holds stays."""


class Memory:
    """The plain store: arrays in memory."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.empty(shape, dtype)

    def keep(self, array: Array) -> Array:
        return np.ascontiguousarray(array, dtype=np.float32)

    def release(self, array: Array) -> None:
        pass


class FeatureMap(Protocol):
    """What makes Φ of the vectors ``X``."""

    @property
    def n_features_out(self) -> int: ...

    def __call__(self, X: Array, out: Array | None = None) -> Array: ...


class Block:
    """Rows that lie together: arrays by name, the first axis of each being the row.

    The arrays may be longer than the ``n`` rows in use; the spare rows are room for later ones.

    A block with a ``feature_map`` need not have ``Phi``: it is made of ``X`` when all of it is first asked
    for. An update that takes no step, as after a small change, asks for some rows only (`features`).
    """

    def __init__(self, n: int, feature_map: FeatureMap | None = None, /, **arrays: Array) -> None:
        self.n = n
        self.n_shared = 0  # rows that another view of the arrays may have in use
        self.feature_map = feature_map
        self.store: Store = Memory()  # where a Φ that is made goes
        self.arrays: dict[str, Array] = arrays
        self.scratch: dict[str, Array] = {}  # what a running solve keeps here; never saved

    def __getitem__(self, name: str) -> Array:
        if name == "Phi" and not self.has_features:
            self._make_features()
        return self.arrays[name][: self.n]

    @property
    def has_features(self) -> bool:
        return "Phi" in self.arrays

    @property
    def n_features(self) -> int:
        if self.has_features:
            return int(self.arrays["Phi"].shape[1])
        assert self.feature_map is not None
        return self.feature_map.n_features_out

    def features(self, rows: slice | Array) -> Array:
        """Φ of some rows; where there is none, it is made of these alone."""
        if self.has_features:
            return self["Phi"][rows]
        assert self.feature_map is not None
        return self.feature_map(self["X"][rows])

    def _make_features(self) -> None:
        assert self.feature_map is not None
        X = self["X"]
        Phi = self.store.empty((len(self.arrays["X"]), self.n_features), np.float32)
        self.feature_map(X, Phi[: self.n])
        self.arrays["Phi"] = Phi

    @property
    def room(self) -> int:
        """How many rows can be written behind the last; none over rows that the other view still has."""
        return 0 if self.n < self.n_shared else len(self.arrays["Y"]) - self.n

    def copy(self) -> Block:
        """A second view of the same rows: it may shrink, grow or be given new arrays on its own."""
        twin = Block(self.n, self.feature_map, **self.arrays)
        twin.store = self.store
        twin.n_shared = self.n
        return twin

    def append(self, table: dict[str, Array], rows: Array | None = None) -> None:
        """Write rows into the spare room: all of a table, or those with these numbers."""
        n = self.n + len(table["Y"] if rows is None else rows)
        for name, values in table.items():
            if name not in self.arrays:
                continue  # Φ is not there yet
            room = self.arrays[name][self.n : n]
            if rows is not None and values.dtype == room.dtype:
                np.take(values, rows, axis=0, out=room, mode="clip")  # straight there; other modes buffer
            else:
                room[:] = values if rows is None else values[rows]
        self.n = n

    def drop(self, rows: Array) -> None:
        """Take rows out of use: they change places with the last ones and the block ends before them.

        Only these rows move. Nothing is overwritten, so a copy made before still holds every row, though
        in another order.
        """
        n = self.n - len(rows)
        gone = np.zeros(self.n, dtype=bool)
        gone[rows] = True
        holes, movers = np.flatnonzero(gone[:n]), n + np.flatnonzero(~gone[n:])
        for array in self.arrays.values():
            array[holes], array[movers] = array[movers], array[holes]
        self.n = n


def _view(block: Block, store: Store) -> Block:
    return block.copy()


class RowBlocks:
    """The blocks of a matrix, in order, and the store that their wide arrays lie in."""

    def __init__(self, blocks: list[Block], store: Store | None = None) -> None:
        self.blocks = blocks
        self.store: Store = Memory() if store is None else store
        self.scratch: dict[str, Any] = {}  # as in a block, but of all rows

    @classmethod
    def of(cls, Phi: Array, **rows: Array) -> RowBlocks:
        """Cut a matrix and its row arrays into blocks without copying."""
        blocks = []
        for start in range(0, len(Phi), BLOCK_ROWS):
            part = slice(start, min(start + BLOCK_ROWS, len(Phi)))
            arrays = {name: values[part] for name, values in rows.items()}
            blocks.append(Block(part.stop - start, Phi=Phi[part], **arrays))
        return cls(blocks)

    def __iter__(self) -> Iterator[Block]:
        for block in self.blocks:
            yield block
            self._release(block)

    def __len__(self) -> int:
        return sum(block.n for block in self.blocks)

    @property
    def n_features(self) -> int:
        return self.blocks[0].n_features

    @property
    def n_bits(self) -> int:
        return int(self.blocks[0].arrays["Y"].shape[1])

    def copy(self) -> RowBlocks:
        return self.derive(_view)

    def derive(self, function: Callable[..., Block], *args: Any) -> RowBlocks:
        """Rows in blocks ``function(block, store, *args)``, which may share arrays with these."""
        blocks = map_threads(lambda block: function(block, self.store, *args), self.blocks)
        return RowBlocks(blocks, self.store)

    def tidy(self) -> None:
        """Let go of blocks without rows."""
        self.blocks = [block for block in self.blocks if block.n]

    def map(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """``function(block, *args)`` for every block, side by side, in the order of the blocks."""
        return map_threads(lambda block: self._visit(block, function, args), self.blocks)

    def total(self, function: Callable[..., tuple[Array, ...] | None], *args: Any) -> list[Array]:
        """Element-wise float64 sums of the tuples that ``function`` returns, added in one order always.

        A block that returns None has nothing to add; the list is empty if no block has.
        """
        totals: list[Array] = []

        def add(_: Block, part: tuple[Array, ...] | None) -> None:
            if part is None:
                return
            if not totals:
                totals.extend(np.array(first, dtype=np.float64) for first in part)
                return
            for total, values in zip(totals, part, strict=True):
                total += values

        fold_threads(lambda block: self._visit(block, function, args), self._largest_first(), add)
        return totals

    # Rows may be spread over machines, each of which holds its part as `RowBlocks`. These are one part.

    n_parts = 1

    def parts(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """``function(rows, *args)`` for every part."""
        return [function(self, *args)]

    def deal(self, function: Callable[..., Any], items: list[Any], *args: Any) -> list[Any]:
        """``function(rows, item, *args)`` with one of the ``items`` for every part."""
        (item,) = items
        return [function(self, item, *args)]

    def send(self, function: Callable[..., Any], columns: dict[str, Array], *args: Any) -> list[Any]:
        """``function(rows, columns, *args)`` for every part that is to take some of these new rows."""
        return [function(self, columns, *args)]

    def _largest_first(self) -> list[Block]:
        """The order in which blocks are summed up: with short ones at the end, threads end together."""
        return sorted(self.blocks, key=lambda block: -block.n)

    def _visit(self, block: Block, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        result = function(block, *args)
        self._release(block)
        return result

    def _release(self, block: Block) -> None:
        if block.has_features:
            self.store.release(block.arrays["Phi"])

    def column(self, name: str) -> Array:
        """A row array over all blocks, in one piece."""
        return np.concatenate([block[name] for block in self.blocks])

    def set_column(self, name: str, values: Array) -> None:
        """Write what `column` would give."""
        start = 0
        for block in self.blocks:
            block[name][:] = values[start : start + block.n]
            start += block.n
