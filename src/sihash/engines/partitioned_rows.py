"""Rows in several parts, each of which is an ordinary `RowBlocks` somewhere else.

Functions go to the parts, sums come home. What is sent is the same for any number of rows, but for columns
that are asked for by name.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks

Call = tuple[Any, ...]  # the arguments of a function
FEW_ROWS = 4096  # new rows that are not worth spreading


class RowsLost(Exception):
    """A machine that held rows is gone, and what it had learned of them with it."""


class PartitionedRows(RowBlocks):
    """The interface of `RowBlocks`, by its methods run on every part.

    A subclass says in `_run` how to reach a part. ``sizes`` are the rows of each. Parts without rows are not
    asked for anything, but they are kept up to date, so that they can take rows again.
    """

    def __init__(self, sizes: list[int], n_features: int, n_bits: int) -> None:
        self.sizes = sizes
        self._n_features, self._n_bits = n_features, n_bits

    @abstractmethod
    def _run(self, places: list[int], function: Callable[..., Any], calls: list[Call]) -> list[Any]:
        """``function(rows, *call)`` for the parts at these places, side by side; ``sizes`` are renewed."""

    @abstractmethod
    def derive(self, function: Callable[..., Block], *args: Any) -> PartitionedRows: ...

    @property
    def _filled(self) -> list[int]:
        return [k for k, size in enumerate(self.sizes) if size]

    @property
    def _everywhere(self) -> list[int]:
        return list(range(len(self.sizes)))

    @property
    def n_parts(self) -> int:  # type: ignore[override]
        return len(self._filled)

    def parts(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        return self._run(self._filled, function, [args] * self.n_parts)

    def deal(self, function: Callable[..., Any], items: list[Any], *args: Any) -> list[Any]:
        return self._run(self._filled, function, [(item, *args) for item in items])

    def send(self, function: Callable[..., Any], columns: dict[str, Array], *args: Any) -> list[Any]:
        """A few rows go to the smallest part, many to all, in equal shares."""
        n = len(columns["y"])
        smallest = sorted(self._everywhere, key=lambda k: self.sizes[k])
        places = smallest[:1] if n <= FEW_ROWS else smallest
        shares = np.array_split(np.arange(n), len(places))
        dealt = [{name: values[share] for name, values in columns.items()} for share in shares]
        results = self._run(places, function, [(own, *args) for own in dealt])
        for place, own in zip(places, dealt, strict=True):
            self._took(place, own)
        return results

    def _took(self, place: int, columns: dict[str, Array]) -> None:
        """A part has taken new rows."""

    def __len__(self) -> int:
        return sum(self.sizes)

    @property
    def n_features(self) -> int:
        return self._n_features

    @property
    def n_bits(self) -> int:
        return self._n_bits

    def tidy(self) -> None:
        self._run(self._everywhere, RowBlocks.tidy, [()] * len(self.sizes))  # emptied parts free their rows

    def map(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        return [result for part in self.parts(RowBlocks.map, function, *args) for result in part]

    def total(self, function: Callable[..., tuple[Array, ...] | None], *args: Any) -> list[Array]:
        """Matrices travel in float32, as exact as the products that they are sums of."""
        return _add([part for part in self.parts(_total, function, *args) if part])

    def column(self, name: str) -> Array:
        return np.concatenate(self.parts(RowBlocks.column, name))

    def set_column(self, name: str, values: Array) -> None:
        stops = np.cumsum([self.sizes[k] for k in self._filled])
        self.deal(_set_column, np.split(values, stops[:-1]), name)


def _total(rows: RowBlocks, function: Callable[..., Any], *args: Any) -> list[Array]:
    return [each.astype(np.float32) if each.ndim > 1 else each for each in rows.total(function, *args)]


def _add(parts: list[list[Array]]) -> list[Array]:
    totals = [np.array(first, dtype=np.float64) for first in parts[0]] if parts else []
    for part in parts[1:]:
        for total, values in zip(totals, part, strict=True):
            total += values
    return totals


def _set_column(rows: RowBlocks, values: Array, name: str) -> None:
    rows.set_column(name, values)
