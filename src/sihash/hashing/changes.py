"""Rows that join or leave a learner, at the cost of those rows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import partial

import numpy as np

from sihash._typing import Array
from sihash.hashing.codebook import new_words
from sihash.hashing.learner import Learner
from sihash.svm.blocks import BLOCK_ROWS, Block, Store
from sihash.threads import uninterrupted

SMALLEST_ROOM = 128  # rows for which a new block has room at least


def join(
    learner: Learner, X: Array, labels: list[Hashable], ids: list[Hashable], rng: np.random.RandomState
) -> None:
    """Add rows: those of a known class start from its most frequent word, a new class from a new word."""
    numbers = _class_numbers(learner, labels)
    known = learner.live
    fresh = np.setdiff1d(numbers, known)
    if len(fresh):
        _welcome_classes(learner, fresh, numbers, rng)
    pair_of = {int(k): learner.table.main_pair(int(k)) for k in np.unique(numbers)}
    pairs = np.array([pair_of[int(k)] for k in numbers], dtype=np.int32)
    learner.table.count(pairs)
    keys = np.arange(learner.next_key, learner.next_key + len(X))
    learner.next_key += len(X)
    learner.key_of.update(zip(ids, keys.tolist(), strict=True))
    Phi = learner.kernel(X)
    for number in np.unique(numbers):
        own = np.flatnonzero(numbers == number)
        rows = {"X": X[own], "Phi": Phi[own], "Y": learner.table.words[pairs[own]]}
        rows |= {"pair": pairs[own], "y": numbers[own], "key": keys[own]}
        _append(learner, rows, int(number) % learner.settings.n_groups)


def _class_numbers(learner: Learner, labels: list[Hashable]) -> Array:
    """Class numbers of labels; a label that is not in use gets a new number."""
    number = {learner.labels[int(k)]: int(k) for k in learner.live}
    for label in labels:
        if label not in number:
            number[label] = len(learner.labels)
            learner.labels.append(label)
    return np.array([number[label] for label in labels], dtype=np.intp)


def _welcome_classes(learner: Learner, fresh: Array, numbers: Array, rng: np.random.RandomState) -> None:
    """Words for new classes; the second stage is learned anew (paper, section 2.6, case 3)."""
    table = learner.table
    sizes = np.array([np.count_nonzero(numbers == k) for k in fresh])
    old = table.main_words(learner.live)
    words = new_words(old, table.sizes(learner.live), sizes, learner.settings.gamma > 0, rng)
    for k, word in zip(fresh, words, strict=True):
        table.find(word, int(k))
    learner.live = np.concatenate([learner.live, fresh])
    learner.class_svm = None


def _append(learner: Learner, rows: dict[str, Array], group: int) -> None:
    """Write rows behind the last block of their group, then into new blocks, and count them in."""
    machines = learner.machines
    open_blocks = [block for block in machines.rows if block.group == group and block.room]
    start, n = 0, len(rows["Phi"])
    while start < n:
        if open_blocks:
            block = open_blocks.pop()
        else:
            block = _new_block(machines.rows.store, rows, group, n - start)
            machines.furnish(block)
            machines.rows.blocks.append(block)
        stop = min(start + block.room, n)
        first = block.n
        block.append({name: values[start:stop] for name, values in rows.items()})
        machines.enter(block, slice(first, block.n))
        start = stop


def _new_block(store: Store, rows: dict[str, Array], group: int, n: int) -> Block:
    room = min(BLOCK_ROWS, max(SMALLEST_ROOM, 2 * n))

    def make(name: str, values: Array) -> Array:
        empty = store.empty if name in ("X", "Phi") else np.empty
        return empty((room, *values.shape[1:]), dtype=values.dtype)

    return Block(0, group, **{name: make(name, values) for name, values in rows.items()})


def leave_rows(learner: Learner, ids: list[Hashable]) -> None:
    """Take rows out by their ids; a class that loses its last row goes with it."""
    keys = np.array([learner.key_of.pop(name) for name in ids], dtype=np.int64)
    machines = learner.machines
    for block in machines.rows:
        rows = np.flatnonzero(np.isin(block["key"], keys))
        if len(rows):
            machines.leave(block, rows)
            learner.table.count(block["pair"][rows], -1)
            uninterrupted(partial(block.drop, rows))
    _tidy(learner)


def leave_classes(learner: Learner, numbers: Array) -> None:
    """Take whole classes out: blocks that hold nothing else go as they are, their rows untouched."""
    machines = learner.machines
    gone: list[Array] = []
    for block in machines.rows:
        rows = np.flatnonzero(np.isin(block["y"], numbers))
        if len(rows):
            machines.leave(block, rows)
            learner.table.count(block["pair"][rows], -1)
            gone.append(block["key"][rows])
            if len(rows) == block.n:
                block.n = 0
            else:
                uninterrupted(partial(block.drop, rows))
    lost = set(np.concatenate(gone).tolist())
    learner.key_of = {name: key for name, key in learner.key_of.items() if key not in lost}
    _tidy(learner)


def _tidy(learner: Learner) -> None:
    """Let go of empty blocks, empty groups and classes without rows."""
    rows = learner.machines.rows
    rows.blocks = [block for block in rows if block.n]
    used = {block.group for block in rows}
    learner.machines.bundle.empty_groups(set(range(learner.machines.bundle.n_groups)) - used)
    sizes = learner.table.sizes(learner.live)
    if not sizes.all():
        stays = sizes > 0
        learner.live = learner.live[stays]
        if learner.class_svm is not None:  # their weights go (paper, section 2.6, case 1)
            W = learner.class_svm.W[stays]
            learner.class_svm = replace(learner.class_svm, W=W, classes=np.arange(len(W)))
