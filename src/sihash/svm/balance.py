"""A better lower bound from some of the rows.

The gap of a point with shares ``p`` is ``½‖r‖²`` for ``r = w − C Σ p y φ``, plus the price of smoothing. The
weights are good long before this shows it: huge terms have to cancel in ``r``, and a proof needs that they
do, whichever rows see to it. So only some move, two of three, say, and each for one and a half. Their shares
are taken where their margins would be if the weights were others, ``p(z + y φ·b)``, and ``r(b) = 0`` is
solved for ``b`` by Newton's method, at the cost of these rows.

It starts with the quasi-Newton step of all rows, which they follow. What is left then lies nearly all in the
few directions ``V`` where rows sum up to most. There each bit has equations of its own, one a direction; half
of the rows that move solve them by their ``t = Vᵀφ``, without another product with Φ: they balance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from sihash import memory
from sihash._typing import Array
from sihash.svm.blocks import Block, Projection, RowBlocks
from sihash.svm.cholesky import cholesky_each, solve_each
from sihash.svm.products import add_product, product
from sihash.svm.smooth_machines import ASCENDED, SmoothMachines
from sihash.threads import map_threads, n_threads_of_team

MANY_MOVE = 3  # two of three rows move, ...
SOME_MOVE = 6  # ... or one of six, where little is left to balance, ...
FEW_MOVE = 15  # ... or two of fifteen, which will do after small changes ...
# ... but so many that of those that balance enough are in the band: for the directions, and, where rows have
# to follow a step, for all features.
FREE_PER_DIRECTION, FREE_PER_FEATURE = 6, 0.5
SOLUTIONS = 5  # of the equations in the directions at most
ROWS_AT_ONCE = 2048  # in one product, however many threads there are: another cut would round otherwise
FEW = 8  # bits: a product with so few columns is not one for a BLAS
RIDGE = 1e-4  # of the mean curvature: there may be fewer free rows than directions


def spacing(widest: int, n_free: float, n_directions: int, n_features: int) -> int:
    """How far apart rows that balance may be, if of all rows ``n_free`` are in the band of a bit.

    ``n_features`` is 0 if none has to follow a step.
    """
    needed = max(FREE_PER_DIRECTION * n_directions, FREE_PER_FEATURE * n_features)
    every = max(1, min(widest, int(n_free / needed)))
    return every if every < MANY_MOVE else every - every % MANY_MOVE  # theirs may be projected


@dataclass(frozen=True)
class DualPoint:
    """Shares and planes of some bits, each in a slot: ``r = w − C Σ p y φ``, and the lower bounds.

    ``columns`` are the places of the bits in the margins ``Z`` that the blocks hold.
    """

    bits: Array
    columns: Array
    slots: Array
    r: Array
    value: Array

    def some(self, which: Array) -> DualPoint:
        return DualPoint(*(values[which] for values in vars(self).values()))


class Balance:
    """Restores the balance of dual points with some of the rows, for the length of a solve."""

    def __init__(self, rows: RowBlocks, V: Array, every: int, turn: int = 0) -> None:
        """``V`` (d × …): the strongest directions. ``every``: how far apart rows that balance are.

        ``turn``: how often rows moved before.
        """
        self.rows, self.V, self.every, self.turn = rows, V, every, turn
        self.is_projected = False

    def restore(self, M: SmoothMachines, point: DualPoint, k: int, step: Array, enough: Array) -> Array:
        """From a dual point to a better one, in the slot `ASCENDED`; returns its lower bounds.

        ``step`` is the change of weights that all rows would take. What is left of ``½‖r‖²`` in the ``k``
        strongest directions matters from ``enough`` on.
        """
        bits, n_groups, every = point.bits, M.bundle.n_groups, self.every
        width = M.width[bits].astype(np.float32)
        V = None if self.is_projected else self.V
        self.rows.parts(_make_room, len(bits), None if V is None else V.shape[1], every)
        ahead = (every / min(every, 2) * step.T).astype(np.float32) if step.any() else None
        follow = ahead, V, bits, point.slots, point.columns, width, self._first_follower(), every
        followed = self.rows.by_group(n_groups, _follow, *follow)
        self.is_projected = True
        r = point.r if followed is None else point.r - M.C * followed[0].sum(axis=0)
        a = self._solve_inside(M.C, width, r @ self.V[:, :k], enough).astype(np.float32)
        changes = self.rows.by_group(n_groups, _balance, a, bits, width, every)
        assert changes is not None
        for change, before in zip(changes, followed or (), strict=False):
            change += before
        M.bundle.shift(bits, point.slots, ASCENDED, *changes)
        return M.bundle.point(M.C, bits, np.full(len(bits), ASCENDED))[1]

    def _first_follower(self) -> int:
        """Rows that balance begin at 0, those that only follow elsewhere each time: the last lack room."""
        if self.every == 1:
            return 0
        self.turn += 1
        return 1 + (self.every // 2 - 2 + self.turn) % (self.every - 1)

    def _solve_inside(self, C: float, width: Array, inside: Array, enough: Array) -> Array:
        """Newton's method in the directions; returns what is missing from its last point to its best.

        How far a point is from the solution is told by the move that is missing, ``left · A⁻¹ left``: any
        move in the weaker directions puts the strongest ones out by thousands of times what matters, and the
        next one puts that right. A move that leads away by this measure is made again, half as long.
        """
        n, k = inside.shape
        equations, far, least = Equations(self.rows, C, n, k), np.arange(n), np.full(n, np.inf)
        at, best, origin, moves = np.zeros((4, n, k))
        missing = np.full(n, np.inf)  # at the origin of the moves
        for solution in range(SOLUTIONS + 1):
            goal = origin[far] + moves[far]
            pulls = self.rows.parts(_pull, (goal - at[far]).astype(np.float32), far, width[far])
            at[far], left = goal, inside[far] - C * np.add.reduce(pulls, dtype=np.float64)
            size = 0.5 * np.einsum("jk,jk->j", left, left)
            better, still = size < least[far], size > enough[far]
            best[far[better]], least[far[better]] = goal[better], size[better]
            far, left, better = far[still], left[still], better[still]
            if solution == SOLUTIONS or not len(far):
                break
            if solution == 0:
                equations.take(far, width[far])
            wanted = equations.solve(far, left)
            nearer = (np.einsum("jk,jk->j", left, wanted) < missing[far]) | better
            moves[far[~nearer]] *= 0.5
            on, left, wanted = far[nearer], left[nearer], wanted[nearer]
            if solution > 1 and len(on):  # the first matrices do twice
                equations.take(on, width[on])
                wanted = equations.solve(on, left)
            origin[on], moves[on], missing[on] = at[on], -wanted, np.einsum("jk,jk->j", left, wanted)
        return best - at


class Equations:
    """The curvature ``A`` of each bit in the directions, factorised."""

    def __init__(self, rows: RowBlocks, C: float, n_bits: int, n_directions: int) -> None:
        self.rows, self.C = rows, C
        self.factors = np.empty((n_bits, n_directions, n_directions))

    def take(self, columns: Array, width: Array) -> None:
        """From the rows that are in the band of these bits now."""
        parts = self.rows.parts(_curvature, columns, width, self.factors.shape[1])
        A = self.C * np.add.reduce(parts, dtype=np.float64)
        diagonals = np.einsum("jkk->jk", A)
        mean = diagonals.mean(axis=1, keepdims=True)
        diagonals += np.where(mean > 0, RIDGE * mean, 1)  # so that they can be solved with

        def factorise(some: Array) -> None:
            self.factors[columns[some]] = cholesky_each(A[some])

        map_threads(factorise, np.array_split(np.arange(len(A)), n_threads_of_team()))

    def solve(self, columns: Array, right: Array) -> Array:
        """``A⁻¹`` of each of these bits times its row of ``right``."""
        return solve_each(self.factors, columns, right)


# What the rows do. Scratch of a part, for those of its rows that balance: T = ΦV, and, with a column for each
# bit, margins M that shares are taken at, shares before, and signs. A block has its own rows of these.


def _make_room(rows: RowBlocks, m: int, k: int | None, every: int) -> None:
    stops = np.cumsum([0] + [-(-block.n // every) for block in rows.blocks])
    whole = dict(zip(("M", "shares", "sign"), memory.empty((3, stops[-1], m), np.float32), strict=True))
    if k is not None:
        rows.scratch["T"] = memory.empty((stops[-1], k), np.float32)
    rows.scratch |= whole
    for block, start, stop in zip(rows.blocks, stops[:-1], stops[1:], strict=True):
        block.scratch |= {name: values[start:stop] for name, values in whole.items()}
        block.scratch["T"] = rows.scratch["T"][start:stop]


def _follow(
    block: Block,
    ahead: Array | None,
    V: Array | None,
    bits: Array,
    slots: Array,
    columns: Array,
    width: Array,
    first: int,
    every: int,
) -> tuple[Array, Array] | None:
    """Move margins by the change of weights ``ahead`` (d × bits), if there is one; with ``V``, make T first.

    Rows that balance go on from there, others are done: returns ``Σ y φ`` times the changes of their shares
    (bits × d), and the sums of these, if there are any.
    """
    shares = take_shares(block, bits, slots)
    margins = block.scratch["Z"], columns, shares, block["Y"], bits, width
    if V is not None:
        _project(block, V, every)
    own = tuple(block.scratch[name] for name in ("M", "shares", "sign"))
    _set_out(0, every, *margins, *own)
    if ahead is None:
        return None
    Phi, all_columns = block["Phi"], np.arange(len(bits))
    _change(product(Phi[::every], ahead), *own, all_columns, width)
    if every == 1:
        return None
    R = product(Phi[first::every], ahead)
    theirs = np.empty((3, *R.shape), np.float32)
    _set_out(first, every, *margins, *theirs)
    _change(R, *theirs, all_columns, width)
    return _sum_up(block, R, first, every), _write(R, *theirs[1:], bits, shares, first, every)


def take_shares(block: Block, bits: Array, slots: Array) -> Array:
    """The shares of slot `ASCENDED`, where those of ``bits`` are those of ``slots`` now."""
    shares = block[f"pi{ASCENDED}"]
    for slot in np.unique(slots[slots != ASCENDED]):
        _copy(block[f"pi{slot}"], shares, bits[slots == slot])
    return shares


def _sum_up(block: Block, R: Array, first: int, every: int) -> Array:
    g = np.zeros((R.shape[1], block["Phi"].shape[1]), np.float32)
    if len(R):
        add_product(g, R, block["Phi"], first, every)
    return g


def _project(block: Block, V: Array, every: int) -> None:
    """Make T, unless an earlier solve left it."""
    T, known = block.scratch["T"], None if block.projection is None else block.projection.at(V, every)
    if known is None:
        np.matmul(block["Phi"][::every], V, out=T)
        block.projection = Projection(V, every, T)
    else:
        T[:] = known


def _pull(rows: RowBlocks, a: Array, columns: Array, width: Array) -> Array:
    """Move margins by ``a`` (bits × k); returns ``Σ y t`` times the changes of the shares, bits × k."""
    T, M, before, sign = (rows.scratch[name] for name in ("T", "M", "shares", "sign"))

    def pull(start: int) -> Array:
        some = slice(start, start + ROWS_AT_ONCE)
        own = T[some, : a.shape[1]]
        if len(a) <= FEW:
            return _pull_few(own, a, M[some], before[some], sign[some], columns, width)
        R = np.matmul(own, a.T)
        _change(R, M[some], before[some], sign[some], columns, width)
        return np.matmul(R.T, own)

    return np.add.reduce(map_threads(pull, range(0, len(T), ROWS_AT_ONCE)), dtype=np.float64)


def _curvature(rows: RowBlocks, columns: Array, width: Array, n_directions: int) -> Array:
    """``Σ t tᵀ / width`` of the rows in the band, for each of these bits."""
    T, M = rows.scratch["T"], rows.scratch["M"]
    A = np.empty((len(columns), n_directions, n_directions), np.float32)

    def own(k: int) -> None:
        index = np.flatnonzero(np.abs(1 - M[:, columns[k]]) < width[k] / 2)
        near = memory.empty((len(index), n_directions), np.float32)
        _gather(T, index, near)
        A[k] = np.matmul(near.T, near)

    map_threads(own, range(len(columns)))
    A /= width[:, None, None]
    return A


def _balance(block: Block, a: Array, bits: Array, width: Array, every: int) -> tuple[Array, Array]:
    """Move margins once more, write the shares; returns the same sums as `_follow`."""
    T, M, before, sign = (block.scratch[name] for name in ("T", "M", "shares", "sign"))
    R = np.matmul(T[:, : a.shape[1]], a.T)
    _change(R, M, before, sign, np.arange(len(bits)), width)
    total = _write(R, before, sign, bits, block[f"pi{ASCENDED}"], 0, every)
    return _sum_up(block, R, 0, every), total


@numba.njit(nogil=True, cache=True)
def _gather(T: Array, index: Array, out: Array) -> None:
    """These rows, as many columns as there is room for; NumPy would take them all."""
    for i in range(len(index)):
        row = T[index[i]]
        for e in range(out.shape[1]):
            out[i, e] = row[e]


@numba.njit(nogil=True, cache=True)
def where_share_is(p: np.float32, z: np.float32, width: np.float32) -> np.float32:
    """Where a margin has the share ``p``: of such margins the one next to the true one, ``z``.

    Shares that were moved before need not fit that.
    """
    half, one = np.float32(0.5), np.float32(1)
    low, high = min(z, one - half * width), max(z, one + half * width)
    return low if p >= one else high if p <= 0 else one + (half - p) * width


@numba.njit(nogil=True, cache=True)
def _set_out(
    start: int,
    every: int,
    Z: Array,
    columns: Array,
    shares: Array,
    Y: Array,
    bits: Array,
    width: Array,
    M: Array,
    before: Array,
    sign: Array,
) -> None:
    """Margins where they have their shares, these shares, and signs."""
    all_bits = len(bits) == shares.shape[1] and len(columns) == Z.shape[1]  # in order: nothing to look up
    for i in range(len(M)):
        row = start + i * every
        for k in range(len(bits)):
            j, column = (k, k) if all_bits else (bits[k], columns[k])
            p = shares[row, j]
            M[i, k] = where_share_is(p, Z[row, column], width[k])
            before[i, k], sign[i, k] = p, Y[row, j]


@numba.njit(nogil=True, cache=True)
def _change(R: Array, M: Array, before: Array, sign: Array, columns: Array, width: Array) -> None:
    """Move margins by changes of scores, ``R``, which become the changes of the shares times ``y``."""
    zero, half, one = np.float32(0), np.float32(0.5), np.float32(1)
    all_bits = len(columns) == M.shape[1]
    steep = one / width
    for i in range(len(R)):
        for k in range(len(columns)):
            j = k if all_bits else columns[k]
            margin = M[i, j] + sign[i, j] * R[i, k]
            p = min(max(half + (one - margin) * steep[k], zero), one)
            M[i, j], R[i, k] = margin, (p - before[i, j]) * sign[i, j]


@numba.njit(nogil=True, fastmath=True, cache=True)
def _pull_few(
    T: Array, a: Array, M: Array, before: Array, sign: Array, columns: Array, width: Array
) -> Array:
    """`_change` with both products in one way through T: a BLAS would copy it twice for a few bits."""
    zero, half, one = np.float32(0), np.float32(0.5), np.float32(1)
    pulls = np.zeros_like(a)
    for i in range(len(T)):
        t = T[i]
        for k in range(len(a)):
            j, own, score = columns[k], pulls[k], zero
            for e in range(len(t)):
                score += a[k, e] * t[e]
            margin = M[i, j] + sign[i, j] * score
            M[i, j] = margin
            change = min(max(half + (one - margin) / width[k], zero), one) - before[i, j]
            if change != 0:
                change *= sign[i, j]
                for e in range(len(t)):
                    own[e] += change * t[e]
    return pulls


@numba.njit(nogil=True, cache=True)
def _write(R: Array, before: Array, sign: Array, bits: Array, out: Array, start: int, every: int) -> Array:
    """The new shares to ``out``; returns the sums of their changes."""
    all_bits = len(bits) == out.shape[1]
    total = np.zeros(len(bits), np.float32)
    for i in range(len(R)):
        for k in range(len(bits)):
            j, change = k if all_bits else bits[k], R[i, k] * sign[i, k]
            out[start + i * every, j] = before[i, k] + change
            total[k] += change
    return total


@numba.njit(nogil=True, cache=True)
def _copy(source: Array, target: Array, bits: Array) -> None:
    all_bits = len(bits) == source.shape[1]
    for i in range(len(source)):
        for k in range(len(bits)):
            j = k if all_bits else bits[k]
            target[i, j] = source[i, j]
