"""Rows that join or leave what a hasher learns from, at the cost of those rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import compress, count, filterfalse, islice
from typing import TYPE_CHECKING

import numpy as np

from sihash._typing import Array
from sihash.hashing.class_sample import joined
from sihash.hashing.training_sample import in_sample
from sihash.kernel import KernelMap
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.settings import BLOCK_ROWS
from sihash.svm.svm_state import RowCounter, add_arrays
from sihash.threads import uninterrupted

if TYPE_CHECKING:
    from sihash.hashing.training import Training

SMALLEST_ROOM = 128  # rows for which a new block has room at least


# Names.


def new_ids(
    ids: Iterable[Hashable] | None, n: int, first: int, *taken: Mapping[Hashable, int]
) -> list[Hashable]:
    """Ids of ``n`` rows that join those in ``taken``; without ``ids`` numbers from ``first`` on."""
    if ids is None:
        return list(islice(_without(count(first), taken), n))
    names = list(ids)
    if len(names) != n:
        raise ValueError(f"Expected one id per row, got {len(names)} ids for {n} rows.")
    if any(name != name for name in names):
        raise ValueError(
            "NaN cannot be an id, because it does not equal itself; give each row a number or text."
        )
    for mapping in taken:
        known = list(filter(mapping.__contains__, names))
        if known:
            raise ValueError(
                f"The id {known[0]!r} is taken by an earlier row; remove it first, or give another id."
            )
    if len(set(names)) < n:
        raise ValueError("An id is given to more than one row; ids must be unique.")
    return names


def check_known(names: list[Hashable], *known: Mapping[Hashable, int]) -> None:
    """Refuse ids to remove that are not there, or given twice."""
    missing = list(_without(names, known))
    if missing or len(set(names)) < len(names):
        problem = f"no row has the id {missing[0]!r}" if missing else "an id is given twice"
        raise KeyError(f"Cannot remove {len(names)} rows: {problem}; ids_ lists the ids there are.")


def _without(names: Iterable[Hashable], known: Iterable[Mapping[Hashable, int]]) -> Iterator[Hashable]:
    """Those that are in none of the mappings: one after the other, a `ChainMap` takes 20 times as long."""
    for ids in known:
        names = filterfalse(ids.__contains__, names)
    return iter(names)


# Rows that come.


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
    table = {**columns, "Y": words[columns["pair"]]}
    order, start = np.argsort(columns["y"], kind="stable"), 0
    first: dict[int, int] = {}  # where the new rows of a block begin
    touched: list[Block] = []
    open_blocks = [block for block in rows.blocks if block.room]
    while start < len(order):
        block = open_blocks.pop() if open_blocks else _new_block(rows, kernel, table, len(order) - start)
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

    def product(block: Block) -> tuple[Array, int] | None:
        own = slice(first[id(block)], block.n)
        if block.has_features:
            kernel(block["X"][own], block["Phi"][own])
        elif not own.start:
            block["Phi"]  # made at once; blocks that wait for theirs go on waiting
        return counter.product(block.features(own))

    own_rows = RowBlocks(touched, rows.store)
    products = [each for each in own_rows.map(product) if each is not None]
    added = (sum(each for each, _ in products), sum(n for _, n in products)) if products else None
    return own_rows.total(enter), added


def _new_block(rows: RowBlocks, kernel: KernelMap, table: dict[str, Array], n: int) -> Block:
    room = min(BLOCK_ROWS, max(SMALLEST_ROOM, 2 * n))

    def make(name: str, values: Array) -> Array:
        empty = rows.store.empty if name == "X" else np.empty
        return empty((room, *values.shape[1:]), dtype=values.dtype)

    block = Block(0, kernel, **{name: make(name, values) for name, values in table.items()})
    block.store = rows.store
    rows.blocks.append(block)
    return block


def returning(training: Training, gone: list[Hashable], X: Array, ids: list[Hashable]) -> dict[Hashable, int]:
    """Rows that leave and come back with the vector that they had, only with other labels: their keys."""
    leaves = training.key_of.keys() & gone
    place_of = {training.key_of[name]: k for k, name in enumerate(ids[: len(X)]) if name in leaves}
    if not place_of:
        return {}
    keys, vectors = joined(training.svms.rows.map(_vectors, np.array(list(place_of))))
    places = [place_of[key] for key in keys.tolist()]
    same = (vectors == X[places].astype(np.float32)).all(axis=1)
    found = zip(places, keys.tolist(), same.tolist(), strict=True)
    return {ids[place]: key for place, key, is_same in found if is_same}


def _vectors(block: Block, keys: Array) -> tuple[Array, Array]:
    rows = np.flatnonzero(np.isin(block["key"], keys))
    return block["key"][rows], block["X"][rows]


def keep_anchors(training: Training, keys_before: dict[Hashable, int]) -> None:
    """Anchors that are means of rows which came back under new keys, only with other labels, stay so."""
    kernel, key_of = training.kernel, training.key_of
    new_key = {key: key_of[name] for name, key in keys_before.items() if name in key_of}
    if new_key and kernel.made_of is not None:
        rows, anchors = kernel.made_of
        rows = np.array([new_key.get(key, key) for key in rows.tolist()], dtype=rows.dtype)
        training.kernel = replace(kernel, made_of=np.stack([rows, anchors]))


# Rows and classes that go.


def thin_out(training: Training) -> None:
    """Take rows out of the sample whose class has a lower rate than when they came."""
    keys, numbers, pairs = joined(training.svms.rows.map(_keys_and_classes))
    stays = in_sample(keys, numbers, training.rates)
    sets = training.table.sets[pairs[~stays]]
    set_of = dict(zip(keys[~stays].tolist(), sets.tolist(), strict=True))
    for name in [name for name, key in training.key_of.items() if key in set_of]:
        training.outside[name] = set_of[training.key_of.pop(name)]
    _leave(training, "key", keys[~stays], int(np.count_nonzero(~stays)))


def _keys_and_classes(block: Block) -> tuple[Array, Array, Array]:
    return block["key"].copy(), block["y"].copy(), block["pair"].copy()


def leave_rows(training: Training, ids: list[Hashable]) -> None:
    """Take rows out by their ids; a class that loses its last row goes with it."""
    outside = list(filter(training.outside.__contains__, ids))
    keys = list(map(training.key_of.pop, filterfalse(training.outside.__contains__, ids)))
    for name in outside:
        del training.outside[name]
    _leave(training, "key", np.array(keys, dtype=np.int64), len(keys))


def leave_classes(training: Training, numbers: Array) -> tuple[Array, Array, dict[Hashable, int]]:
    """Take classes out, with the rows that have no other label; the others lose that label.

    Rows to learn from that lose one leave, and have to come again: their vectors, label sets, and keys by id.
    """
    sizes = training.label_sizes()
    left: dict[int, int] = {}  # what is left of each set that loses a label; −1: nothing
    gone = set(numbers.tolist())
    for s, classes in enumerate(list(training.sets.members)):
        if not gone.isdisjoint(classes):
            others = [k for k in classes if k not in gone]
            left[s] = training.sets.find(others, sizes) if others else -1
    training.outside = {name: left.get(s, s) for name, s in training.outside.items() if left.get(s, 0) >= 0}
    leaves = np.isin(training.table.sets, np.array(list(left), dtype=np.intp))
    come_again = leaves & ~np.isin(training.table.sets, [s for s, other in left.items() if other < 0])
    X, keys, pairs = joined(training.svms.rows.map(_leaving, leaves, come_again))
    again = come_again[pairs]
    sets = np.array([left[s] for s in training.table.sets[pairs[again]].tolist()], dtype=np.intp)
    names = _forget(training, keys)
    awaited = training.sets.explode(np.unique(sets))[1]
    _leave(training, "pair", np.flatnonzero(leaves), len(keys), awaited)
    return X, sets, {names[key]: key for key in keys[again].tolist()}


def _forget(training: Training, keys: Array) -> dict[int, Hashable]:
    """Drop the names of rows; returns them by their keys."""
    goes = np.zeros(training.next_key, dtype=bool)
    goes[keys] = True
    all_keys = np.fromiter(training.key_of.values(), np.int64, len(training.key_of))
    names = list(compress(training.key_of, goes[all_keys].tolist()))
    return dict(zip(map(training.key_of.pop, names), names, strict=True))


def _leave(training: Training, name: str, values: Array, n: int, awaited: Array | None = None) -> None:
    """Take ``n`` rows out, whose ``name`` is among ``values``; classes that are ``awaited`` keep their words.

    If few stay, what they sum up to is cheaper to find than what the others did.
    """
    svms, table = training.svms, training.table
    few_stay = 2 * n > len(svms.rows)
    counter = None if few_stay else svms.counter()
    sums = svms.rows.total(drop, counter, name, values, len(table.counts))
    if sums:
        table.count_out(sums[-1])
        svms.count(sums[:-1], -1)
    tidy(training, awaited)
    if few_stay and len(svms.rows):
        svms.recount()


def _leaving(block: Block, leaves: Array, come_again: Array) -> tuple[Array, Array, Array]:
    """Keys and pairs of the rows whose pair ``leaves``, and the vectors of those that ``come_again``."""
    rows = np.flatnonzero(leaves[block["pair"]])
    return block["X"][come_again[block["pair"]]], block["key"][rows], block["pair"][rows]


def drop(
    block: Block, counter: RowCounter | None, name: str, values: Array, n_pairs: int
) -> tuple[Array, ...] | None:
    """Take the rows out whose ``name`` is among ``values``; returns what they summed up to, then pairs."""
    rows = np.flatnonzero(np.isin(block[name], values))
    if not len(rows):
        return None
    sums = None if counter is None else counter.leave(block, rows)
    pairs = np.bincount(block["pair"][rows], minlength=n_pairs)
    if len(rows) == block.n:
        block.n = 0
    else:
        uninterrupted(partial(block.drop, rows))
    return *(sums or ()), pairs


def tidy(training: Training, awaited: Array | None = None) -> None:
    """Let go of empty blocks and classes without rows, but for those ``awaited``."""
    training.svms.rows.tidy()
    stays = training.label_sizes()[training.live] > 0
    if awaited is not None:
        stays |= np.isin(training.live, awaited)
    if not stays.all():
        training.live = training.live[stays]
        if training.class_svm is not None:  # their weights go (paper, section 2.6, case 1)
            W = training.class_svm.W[stays]
            training.class_svm = replace(training.class_svm, W=W, classes=np.arange(len(W)))
