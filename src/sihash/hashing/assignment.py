"""Learning the codes with all SVMs fixed: discrete cyclic coordinate descent, the cut of eq. 3.

For a bit ``j`` the loss of row ``i`` is ``L(z) = λ Cᵇ max_k(…) + Cˣ max(0, 1 − z s_ij)``. Only ``δ = L(−1)
− L(+1)`` matters: rows with small δ take −1. The multi-class half of δ depends on the row's word and class
alone (`WordTable`), the binary half on its score ``s_ij``.
"""

from __future__ import annotations

import numpy as np

from sihash._typing import Array
from sihash.hashing.words import WordTable
from sihash.svm.blocks import Block
from sihash.svm.machines import Machines

MAX_SWEEPS = 20


def descend(
    machines: Machines, table: WordTable, class_coef: Array, live_classes: Array, lam_C_b: float, gamma: float
) -> Array:
    """Sweep over the bits until the codes settle; returns how many rows flipped, a number a bit.

    The blocks of ``machines`` hold ``Y`` (the codes) and ``pair`` (the row's number in ``table``); both are
    renewed, and the machines count the changed rows anew. ``class_coef`` is (n_classes, n_bits + 1).
    """
    losses = PairLosses(table, class_coef, live_classes, lam_C_b)
    if _settled(machines, losses, gamma):
        return np.zeros(machines.m, dtype=np.int64)
    rows = machines.rows
    S = np.concatenate([machines.scores(block) for block in rows]).T.copy()
    before = rows.column("pair")
    pair = before.copy()
    for _ in range(MAX_SWEEPS):
        if not sum(_update_bit(j, S[j], pair, losses, machines.C, gamma) for j in range(machines.m)):
            break
    flips = np.sum(table.words[before] != table.words[pair], axis=0)
    _write_back(machines, table, before, pair)
    return flips


class PairLosses:
    """The multi-class half of eq. 2, for every pair of the table."""

    def __init__(self, table: WordTable, class_coef: Array, live_classes: Array, scale: float) -> None:
        self.table, self.coef, self.scale = table, class_coef, scale
        self.position = np.full(int(live_classes.max()) + 1, -1)
        self.position[live_classes] = np.arange(len(live_classes))

    def differences(self, j: int) -> Array:
        """``λCᵇ (max_k at z = −1 − max_k at z = +1)``, bit ``j`` of every pair; 0 for pairs without rows."""
        live = self.table.live()
        words = self.table.words[live].astype(np.float64)
        own = self.position[self.table.classes[live]]
        slopes = self.coef[:, j] - self.coef[own, j][:, None]  # w_kj − w_yj, pairs × classes
        scores = words @ self.coef[:, :-1].T + self.coef[:, -1]
        rest = scores - scores[np.arange(len(live)), own][:, None] - words[:, j, None] * slopes
        rest += np.arange(len(self.coef)) != own[:, None]
        out = np.zeros(len(self.table.counts))
        out[live] = self.scale * ((rest - slopes).max(axis=1) - (rest + slopes).max(axis=1))
        return out


def _settled(machines: Machines, losses: PairLosses, gamma: float) -> bool:
    """Whether the multi-class half alone keeps every bit of every pair where it is.

    Kernel features lie in [0, 1], so ``|s| ≤ ‖w‖₁`` bounds the binary half of δ. With the paper's λ this
    decides without a look at any row.
    """
    table = losses.table
    live = table.live()
    reach = machines.C * (1 + np.abs(machines.W).sum(axis=1)) + 2 * gamma
    return all(
        np.all(losses.differences(j)[live] * table.words[live, j] > reach[j]) for j in range(machines.m)
    )


def _update_bit(j: int, scores: Array, pair: Array, losses: PairLosses, C_x: float, gamma: float) -> int:
    """Solve eq. 3 for bit ``j`` exactly; ``pair`` is renewed in place. Returns the number of flips."""
    table = losses.table
    delta = losses.differences(j)[pair]
    delta += C_x * (np.maximum(0, 1 + scores) - np.maximum(0, 1 - scores))
    current = table.words[pair, j]
    flipped = np.flatnonzero(cut(delta, current, gamma) != current)
    if len(flipped):
        table.count(pair[flipped], -1)
        for p in np.unique(pair[flipped]):
            word = table.words[p].copy()
            word[j] = -word[j]
            rows = flipped[pair[flipped] == p]
            pair[rows] = table.find(word, int(table.classes[p]))
        table.count(pair[flipped])
    return len(flipped)


def cut(delta: Array, current: Array, gamma: float) -> Array:
    """Signs that minimise ``γ |Σ b| + Σ_{b_i = −1} δ_i``, int8.

    Eq. 3 without the sort: the objective is convex in the number of −1, so all δ below +2γ take −1 if they
    are fewer than half, all below −2γ if those are more than half; otherwise the lower half does. On ties a
    bit stays.
    """
    n = len(delta)
    half = n // 2
    stays = current < 0
    few = (delta < 2 * gamma) | ((delta == 2 * gamma) & stays)
    many = (delta < -2 * gamma) | ((delta == -2 * gamma) & stays)
    if few.sum() <= half:
        minus = few
    elif many.sum() >= n - half:
        minus = many
    else:
        minus = _lowest(delta, stays, half)
        if n % 2:  # the middle row of an odd number changes nothing in balance: its own loss decides
            one_more = _lowest(delta, stays, half + 1)
            middle = np.flatnonzero(one_more & ~minus)
            minus[middle] = (delta[middle] < 0) | ((delta[middle] == 0) & stays[middle])
    return np.where(minus, np.int8(-1), np.int8(1))


def _lowest(delta: Array, preferred: Array, count: int) -> Array:
    """The ``count`` smallest, as a mask; among equals the preferred ones first, then the earlier."""
    if count == 0:
        return np.zeros(len(delta), dtype=bool)
    edge = np.partition(delta, count - 1)[count - 1]
    chosen = delta < edge
    ties = np.flatnonzero(delta == edge)
    ties = ties[np.argsort(~preferred[ties], kind="stable")]
    chosen[ties[: count - chosen.sum()]] = True
    return chosen


def _write_back(machines: Machines, table: WordTable, before: Array, pair: Array) -> None:
    """Hand the new words to the rows that changed, and let the machines count those rows anew."""
    machines.own_arrays()
    start = 0
    for block in machines.rows:
        part = slice(start, start + block.n)
        start += block.n
        rows = np.flatnonzero(before[part] != pair[part])
        if len(rows):
            machines.leave(block, rows)
            _set_words(block, rows, pair[part][rows], table)
            machines.enter(block, rows)


def _set_words(block: Block, rows: Array, pairs: Array, table: WordTable) -> None:
    for name, values in (("pair", pairs), ("Y", table.words[pairs])):
        block.arrays[name] = block.arrays[name].copy()  # an earlier view of the block keeps its own
        block.arrays[name][rows] = values
