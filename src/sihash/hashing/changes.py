"""Rows that join or leave a learner, at the cost of those rows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from itertools import compress

import numpy as np

from sihash._typing import Array
from sihash.hashing.codebook import every_split_fits, new_words
from sihash.hashing.learned_words import learned_new_words
from sihash.hashing.learner import Learner
from sihash.kernel import KernelMap
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.constants import BLOCK_ROWS
from sihash.svm.svm_state import RowCounter, add_arrays
from sihash.threads import uninterrupted

SMALLEST_ROOM = 128  # rows for which a new block has room at least


def join(
    learner: Learner,
    X: Array,
    labels: list[Hashable],
    ids: list[Hashable],
    rng: np.random.RandomState,
    learned: bool = False,
) -> None:
    """Add rows: those of a known class start from its most frequent word, a new class from a new word.

    New words are ``learned`` from the features, or just far from the others.
    """
    numbers = _class_numbers(learner, labels)
    known = learner.live
    fresh = np.setdiff1d(numbers, known)
    if len(fresh):
        _welcome_classes(learner, fresh, X, numbers, rng, learned)
    pair_of = {int(k): learner.table.main_pair(int(k)) for k in np.unique(numbers)}
    pairs = np.array([pair_of[int(k)] for k in numbers], dtype=np.int32)
    learner.table.count(pairs)
    keys = np.arange(learner.next_key, learner.next_key + len(X))
    learner.next_key += len(X)
    learner.key_of.update(zip(ids, keys.tolist(), strict=True))
    svms = learner.svms
    columns = {"X": X, "y": numbers, "pair": pairs, "key": keys}
    args = learner.kernel, learner.table.words, svms.row_arrays(), svms.counter()
    for sums, product in svms.rows.send(append, columns, *args):
        svms.count(sums)
        svms.take_in(product)


def _class_numbers(learner: Learner, labels: list[Hashable]) -> Array:
    """Class numbers of labels; a label that is not in use gets a new number."""
    number = {learner.labels[int(k)]: int(k) for k in learner.live}
    for label in labels:
        if label not in number:
            number[label] = len(learner.labels)
            learner.labels.append(label)
    return np.array([number[label] for label in labels], dtype=np.intp)


def _welcome_classes(
    learner: Learner, fresh: Array, X: Array, numbers: Array, rng: np.random.RandomState, learned: bool
) -> None:
    """Words for new classes; the second stage is learned anew (paper, section 2.6, case 3)."""
    table = learner.table
    sizes = np.array([np.count_nonzero(numbers == k) for k in fresh])
    old = table.main_words(learner.live)
    old_sizes = table.sizes(learner.live)
    words = new_words(old, old_sizes, sizes, learner.settings.gamma > 0, rng)
    if learned and not every_split_fits(len(old), old.shape[1]):
        own = np.isin(numbers, fresh)
        words = learned_new_words(
            learner.svms.rows,
            learner.kernel(X[own]),
            numbers[own],
            np.concatenate([learner.live, fresh]),
            np.concatenate([old_sizes, sizes]),
            np.concatenate([old, words]),
            rng,
        )
    for k, word in zip(fresh, words, strict=True):
        table.find(word, int(k))
    learner.live = np.concatenate([learner.live, fresh])
    learner.class_svm = None


def append(
    rows: RowBlocks,
    columns: dict[str, Array],
    kernel: KernelMap,
    words: Array,
    row_arrays: dict[str, type],
    counter: RowCounter,
) -> tuple[list[Array], tuple[Array, int] | None]:
    """Write rows behind the last blocks, then into new ones; returns what they sum up to, and ΦᵀΦ.

    Rows of a class go into as few blocks as there can be.
    """
    Phi = np.empty((len(columns["X"]), kernel.n_features_out), np.float32)
    table = {**columns, "Phi": kernel(columns["X"], Phi), "Y": words[columns["pair"]]}
    order, start = np.argsort(columns["y"], kind="stable"), 0
    first: dict[int, int] = {}  # where the new rows of a block begin
    touched: list[Block] = []
    open_blocks = [block for block in rows.blocks if block.room]
    while start < len(order):
        block = open_blocks.pop() if open_blocks else _new_block(rows, table, len(order) - start)
        first[id(block)] = block.n
        touched.append(block)
        part = order[start : start + block.room]
        block.append(table, part)
        start += len(part)
    new = [block for block in touched if not row_arrays.keys() <= block.arrays.keys()]
    if new:
        add_arrays(RowBlocks(new), row_arrays)

    def enter(block: Block) -> tuple[Array, ...] | None:
        return counter.enter(block, slice(first[id(block)], block.n))

    return RowBlocks(touched, rows.store).total(enter), counter.product(Phi)


def _new_block(rows: RowBlocks, table: dict[str, Array], n: int) -> Block:
    room = min(BLOCK_ROWS, max(SMALLEST_ROOM, 2 * n))

    def make(name: str, values: Array) -> Array:
        empty = rows.store.empty if name in ("X", "Phi") else np.empty
        return empty((room, *values.shape[1:]), dtype=values.dtype)

    block = Block(0, **{name: make(name, values) for name, values in table.items()})
    rows.blocks.append(block)
    return block


def leave_rows(learner: Learner, ids: list[Hashable]) -> None:
    """Take rows out by their ids; a class that loses its last row goes with it."""
    keys = np.array([learner.key_of.pop(name) for name in ids], dtype=np.int64)
    _leave(learner, "key", keys)


def leave_classes(learner: Learner, numbers: Array) -> None:
    """Take whole classes out, and the names of their rows."""
    leaves = np.zeros(len(learner.labels), dtype=bool)
    leaves[numbers] = True
    forget(learner, np.concatenate(learner.svms.rows.map(_leaving, leaves)))
    _leave(learner, "y", numbers)


def forget(learner: Learner, keys: Array) -> None:
    """Drop the names of rows."""
    goes = np.zeros(learner.next_key, dtype=bool)
    goes[keys] = True
    all_keys = np.fromiter(learner.key_of.values(), np.int64, len(learner.key_of))
    for name in list(compress(learner.key_of, goes[all_keys].tolist())):
        del learner.key_of[name]


def _leave(learner: Learner, name: str, values: Array) -> None:
    svms, table = learner.svms, learner.table
    sums = svms.rows.total(drop, svms.counter(), name, values, len(table.counts))
    if sums:
        svms.count(sums[:-1], -1)
        table.count_out(sums[-1])
    _tidy(learner)


def _leaving(block: Block, leaves: Array) -> Array:
    """The keys of the rows whose class ``leaves``."""
    return block["key"][leaves[block["y"]]]


def drop(
    block: Block, counter: RowCounter, name: str, values: Array, n_pairs: int
) -> tuple[Array, ...] | None:
    """Take the rows out whose ``name`` is among ``values``; returns what they summed up to, then pairs."""
    rows = np.flatnonzero(np.isin(block[name], values))
    sums = counter.leave(block, rows)
    if sums is None:
        return None
    pairs = np.bincount(block["pair"][rows], minlength=n_pairs)
    if len(rows) == block.n:
        block.n = 0
    else:
        uninterrupted(partial(block.drop, rows))
    return *sums, pairs


def _tidy(learner: Learner) -> None:
    """Let go of empty blocks and classes without rows."""
    learner.svms.rows.tidy()
    sizes = learner.table.sizes(learner.live)
    if not sizes.all():
        stays = sizes > 0
        learner.live = learner.live[stays]
        if learner.class_svm is not None:  # their weights go (paper, section 2.6, case 1)
            W = learner.class_svm.W[stays]
            learner.class_svm = replace(learner.class_svm, W=W, classes=np.arange(len(W)))
