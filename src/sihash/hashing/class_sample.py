"""Some rows of every class, wherever the rows lie."""

from __future__ import annotations

import numpy as np

from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks


def strides(rows: RowBlocks, n_numbers: int, n_rows: int, per_class: int) -> Array:
    """Every how many-th row of each class makes about ``n_rows`` in all, and ``per_class`` where it can."""
    sizes = class_sizes(rows, n_numbers)
    n_classes = max(1, int(np.count_nonzero(sizes)))
    return np.maximum(1, sizes // max(per_class, n_rows // n_classes))


def rows_at(y: Array, every: Array) -> Array:
    """Numbers of every ``every[k]``-th row of class k, class after class."""
    order = np.argsort(y, kind="stable")
    y = y[order]
    rank = np.arange(len(y)) - np.searchsorted(y, y)
    return order[rank % every[y] == 0]


def class_sizes(rows: RowBlocks, n_numbers: int) -> Array:
    """Rows of every class, by its number."""
    return np.add.reduce(rows.map(_count_classes, n_numbers))


def _count_classes(block: Block, n_numbers: int) -> Array:
    return np.bincount(block["y"], minlength=n_numbers)


def joined(parts: list[tuple[Array, ...]]) -> tuple[Array, ...]:
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))
