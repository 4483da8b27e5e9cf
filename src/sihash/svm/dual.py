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
from sihash.svm.blocks import RowBlocks
from sihash.svm.bundle import Bundle
from sihash.threads import map_threads, n_threads_of_team


def ascend(rows: RowBlocks, bundle: Bundle, C: float, bits: Array, source: int, target: int) -> None:
    """One sweep over all rows for ``bits``: from the shares and planes of ``source`` to slot ``target``."""
    bundle.g[bits, :, target], bundle.a[bits, :, target] = (
        bundle.g[bits, :, source],
        bundle.a[bits, :, source],
    )

    def sweep(own: Array) -> None:
        # float32 is exact enough here: what is added to u in a sweep is small beside what it sums.
        U = (C * bundle.g[own, :, target].sum(axis=1)).astype(np.float32)
        for block in rows:
            before = U.copy()
            gained = _sweep(block["Phi"], block["Y"], block[f"pi{source}"], block[f"pi{target}"], own, U, C)
            bundle.g[own, block.group, target] += (U.astype(np.float64) - before) / C
            bundle.a[own, block.group, target] += gained

    map_threads(sweep, [part for part in np.array_split(bits, n_threads_of_team()) if len(part)])
    bundle.touch(bits, target)


@numba.njit(nogil=True, fastmath=True, cache=True)
def _sweep(Phi: Array, Y: Array, source: Array, target: Array, bits: Array, U: Array, C: float) -> Array:
    n, d = Phi.shape
    gained = np.zeros(len(bits))
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
                score = np.float32(0)
                for e in range(d):
                    score += U[k, e] * Phi[i, e]
                wanted = share + (1.0 - Y[i, j] * score) / (C * square)
                moved = np.float32(min(max(wanted, 0.0), 1.0))
                change = np.float64(moved) - np.float64(share)
                target[i, j] = moved
                gained[k] += change
                weight = np.float32(C * change * Y[i, j])
                for e in range(d):
                    U[k, e] += weight * Phi[i, e]
    return gained
