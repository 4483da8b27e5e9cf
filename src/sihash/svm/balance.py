"""A better lower bound from the directions in which the features are strongest.

The gap of a point with shares ``p`` is ``½‖r‖²`` for ``r = w − C Σ p y φ``, plus the price of smoothing. The
weights are good long before this shows it: in the few directions ``V`` where the rows sum up to most, huge
terms have to cancel, and nearly all of ``r`` lies there. Rows in the band can restore the balance at hardly
any loss. Their shares become ``p + q y t·a`` with ``t = Vᵀφ`` and ``q = 4 p (1 − p)``, little where there is
little room, and ``a`` such that ``Vᵀr = 0``: as many equations a bit as there are directions. Only what this
does outside ``V`` takes a product with Φ, and not all rows have to move.
"""

from __future__ import annotations

import numba
import numpy as np
from scipy.linalg import qr

from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.bundle import Bundle
from sihash.threads import map_threads

N_DIRECTIONS = 64
POWERS = 2  # of the Gram matrix, to find them
MANY_MOVE, FEW_MOVE = 4, 8  # every fourth row moves, or every eighth, which will do after small changes ...
ROWS_PER_DIRECTION = 96  # ... but no fewer than so many
SOLUTIONS = 2  # of the equations, the second for what bounds on the shares left of the first
N_ROOMY = 4096  # rows with room that one product takes
RIDGE = 1e-4  # of the mean curvature: there may be fewer free rows than directions


def strongest_directions(factor: Array, nearly: Array | None = None) -> Array:
    """Orthonormal columns ``V`` that nearly span the leading eigenvectors of ``L Lᵀ``, ``L = factor``.

    ``nearly``: those of a matrix that differs little, as a start.
    """
    d, V = len(factor), nearly
    if V is None:
        V = np.random.RandomState(0).standard_normal((d, min(N_DIRECTIONS, d))).astype(np.float32)
    for _ in range(POWERS if nearly is None else 1):
        V = qr(np.matmul(factor, np.matmul(factor.T, V)), mode="economic", check_finite=False)[0]
    return V


class Balance:
    """Restores the balance of dual points in the directions ``V`` (d × k), for the length of a solve."""

    def __init__(self, rows: RowBlocks, V: Array, widest: int) -> None:
        """``widest``: how far apart the rows that move may be."""
        self.rows, self.widest = rows, widest
        self.every = max(1, min(widest, len(rows) // (ROWS_PER_DIRECTION * V.shape[1])))
        rows.map(_project, V, self.every)

    def restore(
        self, bundle: Bundle, C: float, bits: Array, inside: Array, source: int, target: int
    ) -> Array:
        """From the shares and planes of slot ``source``, whose ``Vᵀr`` is ``inside``, to slot ``target``.

        Returns the lower bounds by the new planes.
        """
        where = bits, source, self.every
        curvature = np.add.reduce(self.rows.parts(_curvature, *where), dtype=np.float64)
        matrices = _made_safe(C * curvature)
        a = _solve(matrices, inside)
        for _ in range(SOLUTIONS - 1):
            (pull,) = self.rows.total(_pull, a.T.astype(np.float32), *where)
            a += _solve(matrices, inside - C * pull)
        sums = self.rows.by_group(bundle.n_groups, _move, a.T.astype(np.float32), *where, target)
        assert sums is not None
        g, total = (each.swapaxes(0, 1) for each in sums)
        bundle.g[bits, :, target] = bundle.g[bits, :, source] + g
        bundle.a[bits, :, target] = bundle.a[bits, :, source] + total
        bundle.touch(bits, target)
        u = C * bundle.g[bits, :, target].sum(axis=1)
        return C * bundle.a[bits, :, target].sum(axis=1) - 0.5 * np.einsum("jd,jd->j", u, u)


def _made_safe(matrices: Array) -> Array:
    """With a little on their diagonals, so that they can be solved with."""
    k = matrices.shape[1]
    mean = np.trace(matrices, axis1=1, axis2=2) / k
    return matrices + np.where(mean > 0, RIDGE * mean, 1)[:, None, None] * np.eye(k)


def _solve(matrices: Array, right: Array) -> Array:
    return np.linalg.solve(matrices, right[:, :, None])[:, :, 0]


# What the blocks do. Scratch: T = ΦV of the rows that may move.


def _project(block: Block, V: Array, every: int) -> None:
    block.scratch["T"] = np.matmul(block["Phi"][::every], V)


def _curvature(rows: RowBlocks, bits: Array, source: int, every: int) -> Array:
    """``Σ q t tᵀ`` of the rows of one part that have room: for every bit a product, as tall as may be."""
    projected = [block.scratch["T"] for block in rows.blocks]
    most, k = max(N_ROOMY, max(map(len, projected))), projected[0].shape[1]

    def own(bit: int) -> Array:
        roomy, total, at = np.empty((most, k), np.float32), np.zeros((k, k), np.float32), 0
        for block, T in zip(rows.blocks, projected, strict=True):
            shares = block[f"pi{source}"][::every]
            if at + len(T) > most:
                total += np.matmul(roomy[:at].T, roomy[:at])
                at = 0
            at = _weigh(T, shares, bit, roomy, at)
        return total + np.matmul(roomy[:at].T, roomy[:at])

    return np.array(map_threads(own, bits.tolist()))


def _pull(block: Block, a: Array, bits: Array, source: int, every: int) -> tuple[Array]:
    """``Σ y t`` times the changes of the shares that ``a`` (k × bits) asks for, bits × k."""
    R = np.matmul(block.scratch["T"], a)
    _change(R, block[f"pi{source}"][::every], block["Y"][::every], bits, None)
    return (np.matmul(R.T, block.scratch["T"]),)


def _move(block: Block, a: Array, bits: Array, source: int, every: int, target: int) -> tuple[Array, Array]:
    """Write the changed shares; returns ``Σ y φ`` times the changes (bits × d), and their sums."""
    before, after = block[f"pi{source}"], block[f"pi{target}"]
    R = np.matmul(block.scratch["T"], a)
    _copy(before, after, bits)
    total = _change(R, before[::every], block["Y"][::every], bits, after[::every])
    return np.matmul(R.T, block["Phi"][::every]), total


@numba.njit(nogil=True, cache=True)
def _weigh(T: Array, shares: Array, bit: int, out: Array, at: int) -> int:
    """Write ``√q t`` of the rows that have room behind the first ``at`` rows of ``out``; returns its end."""
    for i in range(len(T)):
        p = shares[i, bit]
        if 0 < p < 1:
            root = np.sqrt(np.float32(4) * p * (np.float32(1) - p))
            for a in range(T.shape[1]):
                out[at, a] = root * T[i, a]
            at += 1
    return at


@numba.njit(nogil=True, cache=True)
def _change(R: Array, shares: Array, Y: Array, bits: Array, out: Array | None) -> Array:
    """From what is asked for, ``t·a`` (rows × bits), to the changes of the shares times ``y``, in place.

    Returns the sums of the changes; the shares themselves go to ``out``, if given.
    """
    zero, one = np.float32(0), np.float32(1)
    total = np.zeros(len(bits))
    for i in range(len(R)):
        for k in range(len(bits)):
            p, y = shares[i, bits[k]], np.float32(Y[i, bits[k]])
            moved = min(max(p + np.float32(4) * p * (one - p) * y * R[i, k], zero), one)
            R[i, k] = (moved - p) * y
            total[k] += moved - p
            if out is not None:
                out[i, bits[k]] = moved
    return total


@numba.njit(nogil=True, cache=True)
def _copy(source: Array, target: Array, bits: Array) -> None:
    for i in range(len(source)):
        for j in bits:
            target[i, j] = source[i, j]
