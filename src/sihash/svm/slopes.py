"""One pass over the rows of a block: margins move, and the smoothed hinge is evaluated where they end.

A few hundred rows at a time go through both products (`sihash.svm.products`), so that the second finds them
in the cache: memory is what tall, narrow products wait for. The second need only take what changed: in most
steps most slopes stay at 0 or 1, and of ``g = Σ p y φ`` a fifth of the terms change on CIFAR-10, a twentieth
on MNIST.
"""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array
from sihash.svm.blocks import Block
from sihash.svm.moves import Moves
from sihash.svm.products import add_product

CHUNK = 2**22  # bytes of the features that go through both products at once
SHORTEST_CHUNK = 60  # rows: a loop over shorter ones would spend its time in Python


def evaluate(
    block: Block, move: Moves, by_change: bool, width: Array, bits: Array, slot: str
) -> tuple[Array, ...]:
    """Move the margins ``Z`` in the block's scratch by a change of the weights.

    The slopes ``p`` replace those of before, ``P`` in the scratch, and become the shares of ``bits`` in
    ``slot``. Returns this block's ``g = Σ p y φ`` (bits × d), or its change if ``by_change``, and ``Σ p``,
    ``Σ h``, ``Σ (h − p (1 − z))``, and how many slopes changed, and are neither 0 nor 1.
    """
    Phi, Y, Z, before = block["Phi"], *(block.scratch[name] for name in "YZP")
    after = _room(block, bits, slot)
    d, m = Phi.shape[1], Z.shape[1]
    chunk = max(SHORTEST_CHUNK, CHUNK // (4 * d))
    g, R, sums = np.zeros((m, d), np.float32), np.empty((chunk, m), np.float32), np.zeros((5, m))
    for start in range(0, block.n, chunk):
        rows = slice(start, min(start + chunk, block.n))
        n = rows.stop - start
        V = move.scores(Phi[rows])
        _slopes(Z[rows], V, Y[rows], before[rows], after[rows], by_change, width, R[:n], sums)
        add_product(g, R[:n], Phi[rows])
    _keep(block, after, bits, slot)
    return g.astype(np.float64), *sums  # in this thread: whoever adds them up has no time to convert


def evaluate_here(block: Block, width: Array, bits: Array, slot: str) -> tuple[Array, ...]:
    """The same where the margins are, with all of ``g``; no slopes were there before."""
    Phi, Y, Z, after = block["Phi"], block.scratch["Y"], block.scratch["Z"], _room(block, bits, slot)
    R, sums = np.empty_like(Z), np.zeros((5, len(bits)))
    _slopes(Z, None, Y, np.full_like(Z, np.nan), after, False, width, R, sums)
    _keep(block, after, bits, slot)
    # Without weights all slopes are 1, and the rows of a block mostly have one code.
    alike = len(R) > 0 and (R[0] == R).all()
    g = np.outer(R[0], np.matmul(np.ones(len(R), np.float32), Phi)) if alike else np.matmul(R.T, Phi)
    return g, *sums


def _room(block: Block, bits: Array, slot: str) -> Array:
    """Where slopes go: if they are those of all bits, straight to the plane's shares."""
    shares = block[slot]
    return shares if len(bits) == shares.shape[1] else np.empty((block.n, len(bits)), np.float32)


def _keep(block: Block, slopes: Array, bits: Array, slot: str) -> None:
    block.scratch["P"] = slopes
    if len(bits) < block[slot].shape[1]:
        block[slot][:, bits] = slopes


@numba.njit(nogil=True, cache=True)
def _slopes(
    Z: Array,
    V: Array | None,
    Y: Array,
    before: Array,
    after: Array,
    by_change: bool,
    width: Array,
    R: Array,
    sums: Array,
) -> None:
    """Move margins and slopes; ``R`` becomes ``y`` times the slopes, or times their change."""
    n, m = Z.shape
    zero, half, one = np.float32(0), np.float32(0.5), np.float32(1)
    steep = one / width
    part = np.zeros((5, m), np.float32)
    for i in range(n):
        for j in range(m):
            z = Z[i, j] if V is None else Z[i, j] + Y[i, j] * V[i, j]
            u = one - z
            p = min(max(half + u * steep[j], zero), one)
            h = max(u, zero)
            Z[i, j] = z
            last = before[i, j]
            R[i, j] = (p - last if by_change else p) * Y[i, j]
            after[i, j] = p
            part[3, j] += p != last
            part[4, j] += (p > zero) & (p < one)
            part[0, j] += p
            part[1, j] += h
            part[2, j] += h - p * u
    for k in range(5):
        for j in range(m):
            sums[k, j] += part[k, j]
