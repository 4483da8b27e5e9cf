"""Learning the codes with all SVMs fixed: discrete cyclic coordinate descent, the cut of eq. 3.

For a bit ``j`` the loss of row ``i`` is ``L(z) = λ Cᵇ max_k(…) + Cˣ max(0, 1 − z s_ij)``. Only ``δ = L(−1)
− L(+1)`` matters: rows with small δ take −1. The multi-class half of δ depends on the row's word and label
set alone (`CodeTable`), the binary half on its score ``s_ij``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.hashing.code_table import CodeTable
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.svm_state import RowCounter, SVMs

MAX_SWEEPS = 20
DIGIT = 16  # bits per round of `kth_smallest`: four rounds, each of which sends 65,536 counts

# Label sets taken apart: a place in them, a row of the multi-class SVM, and its share, one per label.
Owners = Callable[[Array], tuple[Array, Array, Array]]


def descend(
    svms: SVMs,
    table: CodeTable,
    class_coef: Array,
    owners: Owners,
    lam_C_b: float,
    gamma: float,
    least_gain: float = 0.0,
) -> Array:
    """Sweep over the bits until the codes settle; returns how many rows flipped, a number per bit.

    A sweep that lowers eq. 1 by no more than ``least_gain`` is the last, and the first counts for nothing
    then: that is not worth training the SVMs again.

    The blocks of ``svms`` hold ``Y`` (the codes) and ``pair`` (the row's number in ``table``); both are
    renewed, and the SVMs count the changed rows again. ``class_coef`` is (n_classes, n_bits + 1), and
    ``owners`` says which rows of it label sets own.
    """
    moved, flips = table.copy(), np.zeros(svms.m, dtype=np.int64)
    losses = PairLosses(moved, class_coef, owners, lam_C_b)
    if _settled(svms, losses, gamma):
        return flips
    rows, counter = svms.rows, svms.counter()
    rows.parts(_open, counter)
    is_worth_it = False
    for _ in range(MAX_SWEEPS):
        if sum(_update_bit(rows, j, losses, svms.C, gamma) for j in range(svms.m)) <= least_gain:
            break
        is_worth_it = True
    if not is_worth_it:
        rows.parts(_forget)
        return flips
    table.become(moved)
    svms.before_sign_flip()
    for own_flips, sums in rows.parts(_write_back, counter, table.words):
        flips += own_flips
        svms.count(sums)
    return flips


class PairLosses:
    """The multi-class half of eq. 2, for every pair of the table: shared out among the labels of its set."""

    def __init__(self, table: CodeTable, class_coef: Array, owners: Owners, scale: float) -> None:
        self.table, self.coef, self.owners, self.scale = table, class_coef, owners, scale
        self._live = np.empty(0, dtype=np.intp)  # the pairs with rows that the losses are those of

    def differences(self, j: int) -> Array:
        """``λCᵇ (max_k at z = −1 − max_k at z = +1)``, bit ``j`` of every pair; 0 for pairs without rows."""
        live = self.table.live()
        if not np.array_equal(live, self._live):
            which, self._own, self._share = self.owners(self.table.sets[live])
            self._live, self._pairs = live, live[which]
            scores = self.table.words[self._pairs].astype(np.float64) @ self.coef[:, :-1].T + self.coef[:, -1]
            self._losses = scores - scores[np.arange(len(which)), self._own][:, None]
            self._losses += np.arange(len(self.coef)) != self._own[:, None]
        words, own = self.table.words[self._pairs], self._own
        slopes = self.coef[:, j] - self.coef[own, j][:, None]  # w_kj − w_yj, pairs × classes
        rest = self._losses - words[:, j, None] * slopes
        out = np.zeros(len(self.table.counts))
        differences = (rest - slopes).max(axis=1) - (rest + slopes).max(axis=1)
        np.add.at(out, self._pairs, self.scale * self._share * differences)
        return out


def _settled(svms: SVMs, losses: PairLosses, gamma: float) -> bool:
    """Whether the multi-class half alone keeps every bit of every pair where it is.

    Kernel features lie in [0, 1], so ``|s| ≤ ‖w‖₁`` bounds the binary half of δ. With the paper's λ this
    decides without a look at any row.
    """
    table = losses.table
    live = table.live()
    reach = svms.C * (1 + np.abs(svms.W).sum(axis=1)) + 2 * gamma
    return all(np.all(losses.differences(j)[live] * table.words[live, j] > reach[j]) for j in range(svms.m))


def _update_bit(rows: RowBlocks, j: int, losses: PairLosses, C_x: float, gamma: float) -> float:
    """Solve eq. 3 for bit ``j`` exactly; the parts renew their pairs. Returns the gain."""
    table = losses.table
    surplus = abs(int(table.surplus()[j]))
    rows.parts(_set_deltas, j, losses.differences(j), table.words[:, j], C_x)
    flipped = rows.deal(_flip, cut(rows, gamma))
    renamed = np.arange(len(table.counts))
    counts = np.zeros(len(renamed), dtype=np.int64)
    gain = 0.0
    for pairs, own_counts, own_gain in flipped:
        counts[pairs] += own_counts
        gain += own_gain
    for p in np.flatnonzero(counts):
        word = table.words[p].copy()
        word[j] = -word[j]
        renamed[p] = table.find(word, int(table.sets[p]))
        table.move(int(p), int(renamed[p]), int(counts[p]))
    if counts.any():
        rows.parts(_rename, renamed)
    return gain + gamma * (surplus - abs(int(table.surplus()[j])))


@dataclass(frozen=True)
class Cut:
    """Which rows of a part take −1: all with δ below ``edge``, and so many with δ equal to it.

    First ``n_stay`` of those that have −1 already, then ``n_turn`` of the others, in the order of the rows.
    """

    edge: float
    n_stay: int
    n_turn: int


def cut(rows: RowBlocks, gamma: float) -> list[Cut]:
    """The signs that minimise ``γ |Σ b| + Σ_{b_i = −1} δ_i``, as a `Cut` for every part.

    Eq. 3 without the sort: the objective is convex in the number of −1, so all δ below +2γ take −1 if they
    are fewer than half, all below −2γ if those are more than half; otherwise the lower half does. On ties a
    bit stays. The scratch of a part holds ``delta`` and whether the present sign is −1, ``stays``.
    """
    n, half = len(rows), len(rows) // 2
    few, many = (_n_minus(rows, edge) for edge in (2 * gamma, -2 * gamma))
    if few <= half:
        return [Cut(2 * gamma, n, 0)] * rows.n_parts
    if many >= n - half:
        return [Cut(-2 * gamma, n, 0)] * rows.n_parts
    count = half
    if n % 2:  # the middle row of an odd number changes nothing in balance: its own loss decides
        middle, around = _edge(rows, half + 1)
        stays = half + 1 - around[:, 0].sum() <= around[:, 1].sum()
        count += int(middle < 0 or (middle == 0 and stays))
    return _lowest(rows, count)


def _n_minus(rows: RowBlocks, edge: float) -> int:
    """How many rows take −1 if all below ``edge`` do, and those on it that have it already."""
    return int(np.sum(rows.parts(_around, edge), axis=0)[:2].sum())


def _lowest(rows: RowBlocks, count: int) -> list[Cut]:
    """The ``count`` smallest; among equals those that stay first, then the earlier."""
    if count == 0:
        return [Cut(-np.inf, 0, 0)] * rows.n_parts
    edge, around = _edge(rows, count)
    wanted = count - around[:, 0].sum()
    n_stay = _fill(around[:, 1], wanted)
    n_turn = _fill(around[:, 2], wanted - n_stay.sum())
    return [Cut(edge, int(stay), int(turn)) for stay, turn in zip(n_stay, n_turn, strict=True)]


def _edge(rows: RowBlocks, count: int) -> tuple[float, Array]:
    """The ``count``-th smallest δ, and what `_around` says of it for every part."""
    edge = kth_smallest(rows, "delta", count)
    return edge, np.array(rows.parts(_around, edge))


def _fill(room: Array, count: int) -> Array:
    """``count`` things put into places with so much room, the first first."""
    before = np.cumsum(room) - room
    return np.clip(count - before, 0, room)


# What the parts do. Scratch: S (scores, bits × rows), pair and that of before, delta, stays, flipped.


def _open(rows: RowBlocks, counter: RowCounter) -> None:
    before = rows.column("pair")
    S = np.concatenate([counter.scores(block) for block in rows]).T.copy()
    rows.scratch = {"S": S, "before": before, "pair": before.copy()}


def _set_deltas(rows: RowBlocks, j: int, differences: Array, signs: Array, C_x: float) -> None:
    pair, scores = rows.scratch["pair"], rows.scratch["S"][j]
    delta = differences[pair]
    delta += C_x * (np.maximum(0, 1 + scores) - np.maximum(0, 1 - scores))
    rows.scratch |= {"delta": delta, "stays": signs[pair] < 0}


def _around(rows: RowBlocks, edge: float) -> tuple[int, int, int]:
    """How many δ lie below ``edge``, and how many equal it: of the rows that stay, of the others."""
    delta, stays = rows.scratch["delta"], rows.scratch["stays"]
    equal = delta == edge
    n_stay = int(np.count_nonzero(equal & stays))
    return int(np.count_nonzero(delta < edge)), n_stay, int(np.count_nonzero(equal)) - n_stay


def _flip(rows: RowBlocks, cut: Cut) -> tuple[Array, Array, float]:
    """Find the rows that flip; returns their distinct pairs, how many have each, and the gain."""
    delta, stays = rows.scratch["delta"], rows.scratch["stays"]
    minus = delta < cut.edge
    equal = np.flatnonzero(delta == cut.edge)
    minus[equal[stays[equal]][: cut.n_stay]] = True
    minus[equal[~stays[equal]][: cut.n_turn]] = True
    flipped = rows.scratch["flipped"] = np.flatnonzero(minus != stays)
    gain = float(np.sum(np.where(stays, delta, -delta)[flipped]))
    return *np.unique(rows.scratch["pair"][flipped], return_counts=True), gain


def _forget(rows: RowBlocks) -> None:
    rows.scratch = {}


def _rename(rows: RowBlocks, renamed: Array) -> None:
    flipped, pair = rows.scratch["flipped"], rows.scratch["pair"]
    pair[flipped] = renamed[pair[flipped]]


def _write_back(rows: RowBlocks, counter: RowCounter, words: Array) -> tuple[Array, list[Array]]:
    """Hand the new words to the rows that changed; returns flips per bit, and what the rows now add."""
    before, pair = rows.scratch["before"], rows.scratch["pair"]
    changed = np.flatnonzero(before != pair)
    starts = dict(zip(map(id, rows.blocks), np.cumsum([0] + [b.n for b in rows.blocks]), strict=False))
    rows.scratch = {}

    def turn(block: Block) -> tuple[Array, ...] | None:
        start = starts[id(block)]
        first, last = np.searchsorted(changed, (start, start + block.n))
        own = changed[first:last]
        if not len(own):
            return None
        block.arrays["pair"] = block.arrays["pair"].copy()  # an earlier view of the block keeps its own
        block["pair"][own - start] = pair[own]
        return counter.flip_signs(block, own - start, words[pair[own]])

    flips = np.sum(words[before[changed]] != words[pair[changed]], axis=0)
    return flips, rows.total(turn)


# The k-th smallest of numbers that may lie on several machines.


def kth_smallest(rows: RowBlocks, name: str, k: int) -> float:
    """The ``k``-th smallest (from 1) of the float64 arrays that the scratch of the parts holds as ``name``.

    Digit by digit from the highest: the parts count how many numbers have each digit, of those that agree
    with the digits found so far. What is sent does not depend on how many numbers there are.
    """
    found = 0
    for shift in range(64 - DIGIT, -1, -DIGIT):
        counts = sum(rows.parts(_digit_counts, name, found, shift))
        upto = np.cumsum(counts)
        digit = int(np.searchsorted(upto, k))
        k -= int(upto[digit] - counts[digit])
        found = (found << DIGIT) | digit
    return float(_number(np.array([found], dtype=np.uint64))[0])


def _digit_counts(rows: RowBlocks, name: str, found: int, shift: int) -> Array:
    """Counts of the digit at ``shift`` among the numbers whose higher digits are ``found``."""
    if shift == 64 - DIGIT:
        rows.scratch["ordered"] = _ordered(rows.scratch[name])
    else:
        higher = rows.scratch["ordered"] >> np.uint64(shift + DIGIT)
        rows.scratch["ordered"] = rows.scratch["ordered"][higher == np.uint64(found)]
    digits = (rows.scratch["ordered"] >> np.uint64(shift)) & np.uint64((1 << DIGIT) - 1)
    return np.bincount(digits.astype(np.intp), minlength=1 << DIGIT)


def _ordered(numbers: Array) -> Array:
    """uint64 in the order of the float64: the sign bit turned round, all bits of negative ones."""
    bits = (numbers + 0.0).view(np.uint64)  # −0 and 0 are one number
    negative = bits >> np.uint64(63) == 1
    return np.where(negative, ~bits, bits | np.uint64(1 << 63))


def _number(ordered: Array) -> Array:
    negative = ordered >> np.uint64(63) == 0
    return np.where(negative, ~ordered, ordered & np.uint64((1 << 63) - 1)).view(np.float64)
