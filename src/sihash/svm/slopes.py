"""One pass over the rows of a block: margins move, and the smoothed hinge is evaluated where they end.

A few hundred rows at a time go through both products, so that the second finds them in the cache: memory is
what tall, narrow products wait for. And where OpenBLAS has kernels for small products which copy nothing (on
processors with AVX-512) they are cut so small.

The second product need only take what changed. In most steps most slopes stay at 0 or 1, so the change of ``g
= Σ p y φ`` is a sparse matrix times Φ: of a fifth of the entries on CIFAR-10, of a twentieth on MNIST.
"""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array
from sihash.svm.blocks import Block
from sihash.threads import blas_architectures

SMALL_KERNELS = bool({"skylakex", "cooperlake", "sapphirerapids"} & blas_architectures())
SMALL_PRODUCT = 10**6  # multiplications, up to which these do not copy
CACHE = 2**20  # bytes of the features that a core has at hand, ...
OUTER_CACHE = 2**22  # ... and a little further away: copied products are faster the taller they are
SHORTEST_CHUNK = 60  # rows: a loop over shorter ones would spend its time in Python
SPARSE = 0.4  # share of changed slopes, up to which the sparse product is the faster one


def evaluate(
    block: Block, move: Array, by_change: bool, width: Array, bits: Array, slot: str
) -> tuple[Array, ...]:
    """Move the margins ``Z`` in the block's scratch by the change of weights ``move`` (d × bits).

    The slopes ``p`` replace those of before, ``P`` in the scratch, and become the shares of ``bits`` in
    ``slot``. Returns this block's ``g = Σ p y φ`` (bits × d), or its change if ``by_change``, and ``Σ p``,
    ``Σ h``, ``Σ (h − p (1 − z))``, and how many slopes changed, and are neither 0 nor 1.
    """
    Phi, shares = block["Phi"], block[slot]
    Y, Z, P = (block.scratch[name] for name in "YZP")
    d, m = move.shape
    stack, chunk = _sizes(d, m)
    g, part = np.zeros((m, d), np.float32), np.empty((m, d), np.float32)
    V, R = np.empty((chunk, m), np.float32), np.empty((chunk, m), np.float32)
    sums = np.zeros((5, m))
    for start in range(0, block.n, chunk):
        rows = slice(start, min(start + chunk, block.n))
        n = rows.stop - start
        _scores(Phi[rows], move, stack, V[:n])
        _slopes(Z[rows], V[:n], Y[rows], P[rows], by_change, width, R[:n], shares[rows], bits, sums)
        if np.count_nonzero(R[:n]) <= SPARSE * n * m:
            add_sparse_product(g, R[:n], Phi[rows])
        else:
            g += np.matmul(R[:n].T, Phi[rows], out=part)
    return g.astype(np.float64), *sums  # in this thread: whoever adds them up has no time to convert


def evaluate_here(block: Block, width: Array, bits: Array, slot: str) -> tuple[Array, ...]:
    """The same where the margins are, with all of ``g``; no slopes were there before."""
    Phi, Y, Z, P = block["Phi"], *(block.scratch[name] for name in "YZP")
    R, sums = np.empty_like(Z), np.zeros((5, len(bits)))
    P[:] = np.nan
    _slopes(Z, None, Y, P, False, width, R, block[slot], bits, sums)
    # Without weights all slopes are 1, and the rows of a block mostly have one code.
    alike = len(R) > 0 and (R[0] == R).all()
    g = np.outer(R[0], np.matmul(np.ones(len(R), np.float32), Phi)) if alike else np.matmul(R.T, Phi)
    return g, *sums


def _sizes(d: int, m: int) -> tuple[int, int]:
    """How many rows to send through the first product at once, and through both."""
    if not SMALL_KERNELS:
        chunk = max(SHORTEST_CHUNK, OUTER_CACHE // (4 * d))
        return chunk, chunk
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
    Z: Array,
    V: Array | None,
    Y: Array,
    P: Array,
    by_change: bool,
    width: Array,
    R: Array,
    shares: Array,
    bits: Array,
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
            before = P[i, j]
            R[i, j] = (p - before if by_change else p) * Y[i, j]
            P[i, j] = p
            part[3, j] += p != before
            part[4, j] += (p > zero) & (p < one)
            part[0, j] += p
            part[1, j] += h
            part[2, j] += h - p * u
        for j in range(m):  # a loop of its own, or the one above could not use vector instructions
            shares[i, bits[j]] = P[i, j]
    for k in range(5):
        for j in range(m):
            sums[k, j] += part[k, j]


@numba.njit(nogil=True, fastmath=True, cache=True)
def add_sparse_product(g: Array, R: Array, Phi: Array) -> None:
    """``g += Rᵀ Φ``, for ``R`` (rows × bits) mostly zeros. Four rows at a time, so as to read ``g`` less."""
    n, m = R.shape
    at, factor = np.empty(n + 3, np.intp), np.empty(n + 3, np.float32)
    for j in range(m):
        k = 0
        for i in range(n):
            at[k], factor[k] = i, R[i, j]
            k += R[i, j] != 0
        at[k : k + 3], factor[k : k + 3] = 0, 0
        own = g[j]
        for a in range(0, k, 4):
            f0, f1, f2, f3 = factor[a], factor[a + 1], factor[a + 2], factor[a + 3]
            row0, row1, row2, row3 = Phi[at[a]], Phi[at[a + 1]], Phi[at[a + 2]], Phi[at[a + 3]]
            for e in range(len(own)):
                own[e] += f0 * row0[e] + f1 * row1[e] + f2 * row2[e] + f3 * row3[e]
