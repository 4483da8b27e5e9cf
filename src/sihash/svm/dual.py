"""Dual coordinate ascent on the rows that are free to move: a better lower bound without matrix products.

The planes of one slot are the dual point ``α = C p`` with bound ``C Σ p − ½ ‖u‖²``, ``u = C Σ p y φ``. The
weights are good long before this bound shows it: ``u`` sums large terms that have to cancel. Rows whose
share is neither 0 nor 1 can restore the balance at hardly any loss. One coordinate at a time is solved
exactly, ``p ← clip(p + (1 − y u·φ) / (C ‖φ‖²), 0, 1)``, and ``u`` follows.
"""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.bundle import Bundle
from sihash.threads import map_threads, n_threads_of_team


def ascend(rows: RowBlocks, bundle: Bundle, C: float, bits: Array, source: int, target: int) -> None:
    """One sweep over all rows for ``bits``: from the shares and planes of ``source`` to slot ``target``.

    Parts of the rows sweep on their own, from the same ``u``. Each raises the bound, their sum may go too
    far: then the best point on the way there is taken.
    """
    sources = np.full(len(bits), source)
    U, several = bundle.point(C, bits, sources)[0], rows.n_parts > 1
    changes = rows.parts(_sweep_part, U.astype(np.float32), bits, source, target, C, bundle.n_groups, several)
    g_change, a_change = (np.add.reduce(each, dtype=np.float64) for each in zip(*changes, strict=True))
    if several:
        way = C * g_change.sum(axis=1)
        slope = C * a_change.sum(axis=1) - np.einsum("jd,jd->j", U, way)
        t = np.clip(slope / np.maximum(np.einsum("jd,jd->j", way, way), 1e-300), 0, 1)
        rows.map(_shorten, bits, target, t.astype(np.float32))
        g_change, a_change = t[:, None, None] * g_change, t[:, None] * a_change
    bundle.shift(bits, sources, target, g_change.swapaxes(0, 1), a_change.T)


def _sweep_part(
    rows: RowBlocks, U: Array, bits: Array, source: int, target: int, C: float, n_groups: int, keep: bool
) -> tuple[Array, Array]:
    """Sweep over the rows of one part; returns the change of the planes by group.

    With ``keep`` the blocks remember the shares of before.
    """
    if keep:
        rows.map(_remember, bits, source)
    g, a = np.zeros((len(bits), n_groups, U.shape[1])), np.zeros((len(bits), n_groups))

    def sweep(part: Array) -> None:
        # float32 is exact enough here: what is added to u in a sweep is small beside what it sums.
        own, u = bits[part], U[part]
        for block in rows:
            before = u.copy()
            gained = _sweep(block["Phi"], block["Y"], block[f"pi{source}"], block[f"pi{target}"], own, u, C)
            g[part, block.group] += (u.astype(np.float64) - before) / C
            a[part, block.group] += gained

    threads = np.array_split(np.arange(len(bits)), n_threads_of_team())
    map_threads(sweep, [part for part in threads if len(part)])
    return g.astype(np.float32), a


def _remember(block: Block, bits: Array, source: int) -> None:
    block.scratch["before"] = block[f"pi{source}"][:, bits]


def _shorten(block: Block, bits: Array, target: int, t: Array) -> None:
    """Take back a share ``1 − t`` of what the last sweep changed."""
    before, shares = block.scratch["before"], block[f"pi{target}"]
    shares[:, bits] = before + t * (shares[:, bits] - before)


@numba.njit(nogil=True, fastmath=True, cache=True)
def _sweep(Phi: Array, Y: Array, source: Array, target: Array, bits: Array, U: Array, C: float) -> Array:
    """``u`` of a bit follows its last row when the next one asks for it: both in one way through ``u``."""
    n, d = Phi.shape
    gained = np.zeros(len(bits))
    last, weight = np.zeros(len(bits), np.intp), np.zeros(len(bits), np.float32)
    for i in range(n):
        square = np.float32(-1)
        for k in range(len(bits)):
            j = bits[k]
            share = source[i, j]
            target[i, j] = share
            if 0 < share < 1:
                if square < 0:  # ‖φ‖², once a row
                    square = np.float32(0)
                    for e in range(d):
                        square += Phi[i, e] * Phi[i, e]
                score = _follow(U[k], weight[k], Phi[last[k]], Phi[i])
                wanted = share + (1.0 - Y[i, j] * score) / (C * square)
                moved = np.float32(min(max(wanted, 0.0), 1.0))
                change = np.float64(moved) - np.float64(share)
                target[i, j] = moved
                gained[k] += change
                last[k], weight[k] = i, np.float32(C * change * Y[i, j])
    for k in range(len(bits)):
        _follow(U[k], weight[k], Phi[last[k]], Phi[last[k]])
    return gained


@numba.njit(nogil=True, fastmath=True, cache=True)
def _follow(u: Array, weight: Array, row: Array, following: Array) -> np.float32:
    """Add ``weight · row`` to ``u``, in place; returns its product with the ``following`` row."""
    score = np.float32(0)
    for e in range(len(u)):
        moved = u[e] + weight * row[e]
        u[e] = moved
        score += moved * following[e]
    return score
