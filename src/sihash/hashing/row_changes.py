"""Rows that join or leave what a hasher learns from, at the cost of those rows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from itertools import compress, filterfalse

import numpy as np

from sihash._typing import Array
from sihash.hashing.class_sample import joined
from sihash.hashing.codebook import every_split_fits, new_words, random_codebook
from sihash.hashing.learned_words import learn_new_words
from sihash.hashing.row_labels import RowLabels
from sihash.hashing.training_sample import class_rates, in_sample
from sihash.hashing.training_state import NewRows, TrainingState, starting_pairs
from sihash.kernel import KernelMap
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.constants import BLOCK_ROWS
from sihash.svm.svm_state import RowCounter, add_arrays
from sihash.threads import uninterrupted

SMALLEST_ROOM = 128  # rows for which a new block has room at least


def arrivals(training: TrainingState, X: Array, sets: Array, ids: list[Hashable]) -> NewRows:
    """Number rows that come; of a large collection only some are to be learned from, and only labelled ones.

    ``sets`` are their label sets, −1 for rows without a label. A collection that grows past its budget also
    lets rows of the sample go (`training_sample`).
    """
    labelled = sets >= 0
    numbers = training.sets.home[sets]
    keys = np.arange(training.next_key, training.next_key + len(X))
    training.next_key += len(X)
    sizes = training.class_sizes() + np.bincount(numbers[labelled], minlength=len(training.labels))
    rates = class_rates(sizes, training.settings.training_rows)
    n_before = len(training.rates)
    rates[:n_before] = np.minimum(rates[:n_before], training.rates)  # rows left out are not at hand again
    lowered = rates[:n_before] < training.rates
    training.rates = rates
    if lowered[training.live].any():
        _let_go(training)
    chosen = labelled.copy()
    chosen[labelled] = in_sample(keys[labelled], numbers[labelled], rates, training.home_sizes() > 0)
    taken = np.flatnonzero(chosen)
    for k in np.flatnonzero(~chosen):
        training.outside[ids[k]] = int(sets[k])
    training.key_of.update(zip([ids[k] for k in taken], keys[taken].tolist(), strict=True))
    return NewRows(X if chosen.all() else X[taken], sets[taken], numbers[taken], keys[taken])


def _let_go(training: TrainingState) -> None:
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


def join(training: TrainingState, new: NewRows, rng: np.random.RandomState) -> None:
    """Add rows: those of a known label set start from its most frequent word, a new class from a new word.

    Learned words then move to what the features can tell apart.
    """
    known = training.live
    fresh = np.setdiff1d(training.sets.apart(np.unique(new.sets))[1], known)
    if len(fresh):
        _welcome_classes(training, fresh, new, rng)
    pairs = starting_pairs(training.table, training.sets, new.sets)
    training.table.count(pairs)
    svms = training.svms
    columns = {"X": new.X, "y": new.y, "pair": pairs, "key": new.keys}
    args = training.kernel, training.table.words, svms.row_arrays(), svms.counter()
    for sums, product in svms.rows.send(append, columns, *args):
        svms.count(sums)
        svms.take_in(product)
    _tidy(training)
    learned = training.settings.words == "learned"
    if learned and len(fresh) and not every_split_fits(len(known), training.settings.n_bits):
        learn_new_words(training, fresh, rng)


def set_numbers(training: TrainingState, labels: RowLabels) -> Array:
    """The label sets of rows, −1 for those without a label; a label that is not in use gets a new number."""
    number = {training.labels[int(k)]: int(k) for k in training.live}
    flat = labels.flat.tolist()
    for label in flat:
        if label not in number:
            number[label] = len(training.labels)
            training.labels.append(label)
    numbers = np.array([number[label] for label in flat], dtype=np.intp)
    sizes = training.label_sizes() + np.bincount(numbers, minlength=len(training.labels))
    return training.sets.of_rows(numbers, labels.counts, sizes)


def _welcome_classes(training: TrainingState, fresh: Array, new: NewRows, rng: np.random.RandomState) -> None:
    """Words for new classes; the second stage is learned again (paper, section 2.6, case 3)."""
    sizes = training.sets.hold(new.sets, fresh).sum(axis=0)
    old_sizes = training.label_sizes()[training.live]
    known, settings = training.class_words(training.live), training.settings
    if settings.words == "random":
        words = random_codebook(settings.n_bits, sizes, settings.gamma > 0, rng, known, old_sizes)
    else:
        words = new_words(known, old_sizes, sizes, settings.gamma > 0, rng)
    training.table.find_each(words, training.sets.of_classes(fresh))
    training.live = np.concatenate([training.live, fresh])
    training.class_svm = None


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


def returning(
    training: TrainingState, gone: list[Hashable], X: Array, ids: list[Hashable]
) -> dict[Hashable, int]:
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


def keep_anchors(training: TrainingState, keys_before: dict[Hashable, int]) -> None:
    """Anchors that are means of rows which came back under new keys, only with other labels, stay so."""
    kernel, key_of = training.kernel, training.key_of
    new_key = {key: key_of[name] for name, key in keys_before.items() if name in key_of}
    if new_key and kernel.made_of is not None:
        rows, anchors = kernel.made_of
        rows = np.array([new_key.get(key, key) for key in rows.tolist()], dtype=rows.dtype)
        training.kernel = replace(kernel, made_of=np.stack([rows, anchors]))


def leave_rows(training: TrainingState, ids: list[Hashable]) -> None:
    """Take rows out by their ids; a class that loses its last row goes with it."""
    outside = list(filter(training.outside.__contains__, ids))
    keys = list(map(training.key_of.pop, filterfalse(training.outside.__contains__, ids)))
    for name in outside:
        del training.outside[name]
    _leave(training, "key", np.array(keys, dtype=np.int64), len(keys))


def leave_classes(training: TrainingState, numbers: Array) -> tuple[Array, Array, dict[Hashable, int]]:
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
    awaited = training.sets.apart(np.unique(sets))[1]
    _leave(training, "pair", np.flatnonzero(leaves), len(keys), awaited)
    return X, sets, {names[key]: key for key in keys[again].tolist()}


def _forget(training: TrainingState, keys: Array) -> dict[int, Hashable]:
    """Drop the names of rows; returns them by their keys."""
    goes = np.zeros(training.next_key, dtype=bool)
    goes[keys] = True
    all_keys = np.fromiter(training.key_of.values(), np.int64, len(training.key_of))
    names = list(compress(training.key_of, goes[all_keys].tolist()))
    return dict(zip(map(training.key_of.pop, names), names, strict=True))


def _leave(training: TrainingState, name: str, values: Array, n: int, awaited: Array | None = None) -> None:
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
    _tidy(training, awaited)
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


def _tidy(training: TrainingState, awaited: Array | None = None) -> None:
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
