"""One pass over the rows of a block: margins move, and the smoothed hinge is evaluated where they end.

A few hundred rows at a time go through both products, so that the second finds them in the cache: memory is
what tall, narrow products wait for. And the products are cut so small that OpenBLAS has kernels for them
which copy nothing.
"""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array
from sihash.svm.blocks import Block

SMALL_PRODUCT = 10**6  # multiplications, up to which OpenBLAS does not copy
CACHE = 2**20  # bytes of the features that a core has at hand
SHORTEST_CHUNK = 60  # rows: a loop over shorter ones would spend its time in Python


def evaluate(block: Block, move: Array, width: Array, bits: Array, slot: str) -> tuple[Array, ...]:
    """Move the margins ``Z`` in the block's scratch by the change of weights ``move`` (d × bits).

    The slopes become the shares of ``bits`` in ``slot``. Returns this block's ``g = Σ p y φ`` (bits × d),
    ``Σ p``, ``Σ h`` and ``Σ (h − p (1 − z))``.
    """
    Phi, Y, Z, shares = block["Phi"], block.scratch["Y"], block.scratch["Z"], block[slot]
    d, m = move.shape
    stack, chunk = _sizes(d, m)
    g, part = np.zeros((m, d), np.float32), np.empty((m, d), np.float32)
    V, R = np.empty((chunk, m), np.float32), np.empty((chunk, m), np.float32)
    sums = np.zeros((3, m))
    for start in range(0, block.n, chunk):
        rows = slice(start, min(start + chunk, block.n))
        n = rows.stop - start
        _scores(Phi[rows], move, stack, V[:n])
        _slopes(Z[rows], V[:n], Y[rows], width, R[:n], shares[rows], bits, sums)
        g += np.matmul(R[:n].T, Phi[rows], out=part)
    return g.astype(np.float64), *sums  # in this thread: whoever adds them up has no time to convert


def evaluate_here(block: Block, width: Array, bits: Array, slot: str) -> tuple[Array, ...]:
    """The same where the margins are."""
    Phi, Y, Z = block["Phi"], block.scratch["Y"], block.scratch["Z"]
    R, sums = np.empty_like(Z), np.zeros((3, len(bits)))
    _slopes(Z, None, Y, width, R, block[slot], bits, sums)
    # Without weights all slopes are 1, and the rows of a block mostly have one code.
    alike = len(R) > 0 and (R[0] == R).all()
    g = np.outer(R[0], np.matmul(np.ones(len(R), np.float32), Phi)) if alike else np.matmul(R.T, Phi)
    return g, *sums


def _sizes(d: int, m: int) -> tuple[int, int]:
    """How many rows to send through the first product at once, and through both."""
    stack = max(1, SMALL_PRODUCT // (d * m))
    return stack, stack if stack >= SHORTEST_CHUNK else stack * max(1, CACHE // (4 * d) // stack)


def _scores(Phi: Array, W: Array, stack: int, out: Array) -> None:
    """``Phi @ W`` in products of ``stack`` rows."""
    n, d = Phi.shape
    whole = n - n % stack
    np.matmul(Phi[:whole].reshape(-1, stack, d), W, out=out[:whole].reshape(-1, stack, W.shape[1]))
    np.matmul(Phi[whole:], W, out=out[whole:])


@numba.njit(nogil=True, cache=True)
def _slopes(
    Z: Array, V: Array | None, Y: Array, width: Array, R: Array, shares: Array, bits: Array, sums: Array
) -> None:
    n, m = Z.shape
    zero, half, one = np.float32(0), np.float32(0.5), np.float32(1)
    steep, p_of = one / width, np.empty(m, np.float32)
    part = np.zeros((3, m), np.float32)
    for i in range(n):
        for j in range(m):
            z = Z[i, j] if V is None else Z[i, j] + Y[i, j] * V[i, j]
            u = one - z
            p = min(max(half + u * steep[j], zero), one)
            h = max(u, zero)
            Z[i, j] = z
            R[i, j] = p * Y[i, j]
            p_of[j] = p
            part[0, j] += p
            part[1, j] += h
            part[2, j] += h - p * u
        for j in range(m):  # a loop of its own, or the one above could not use vector instructions
            shares[i, bits[j]] = p_of[j]
    for k in range(3):
        for j in range(m):
            sums[k, j] += part[k, j]
