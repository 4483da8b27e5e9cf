"""The small dual problem over cutting planes: a concave quadratic on a simplex, by an active-set method."""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array
from sihash.compiling import announce_compiling
from sihash.svm.settings import QP_RIDGE

announce_compiling()


@numba.njit(nogil=True, cache=True)
def maximise(K: Array, c: Array, b: Array, max_moves: int) -> float:
    """Maximise ``c·b − ½ b·K·b`` over ``b ≥ 0`` with the sum of ``b`` at most 1.

    ``K`` (N × N) is positive semi-definite; ``b`` starts feasible and is changed in place. Each move goes to
    the exact maximum over the free variables, or up to the first bound that it meets; Newton steps are
    needed because planes of one solve are nearly parallel. Returns the value reached: any feasible ``b``
    gives a valid bound, so stopping early costs tightness, never truth.
    """
    N = len(c)
    scale = 1e-300  # planes may be constants (rows of zeros): then K says nothing, and c sets the scale
    for i in range(N):
        scale = max(scale, K[i, i], 1e-20 * abs(c[i]))
    free, full = b > 0, b.sum() >= 1 - 1e-12
    for _ in range(max_moves):
        slope = (c - K @ b) / scale
        # 1. The step to the maximum over the free variables, their sum fixed if it is full, at a price.
        own = np.flatnonzero(free)
        n, move, price = len(own), np.zeros(N), 0.0
        if n:
            M, r = np.zeros((n + full, n + full)), np.zeros(n + full)
            for k in range(n):
                r[k] = slope[own[k]]
                for e in range(n):
                    M[k, e] = K[own[k], own[e]] / scale
                M[k, k] += QP_RIDGE
                if full:
                    M[k, n] = M[n, k] = 1.0
            solution = np.linalg.solve(M, r)
            for k in range(n):
                move[own[k]] = solution[k]
            if full:
                price = solution[n]
        if np.abs(move).max() <= 1e-12 or slope @ move <= 1e-16 * abs(c @ b) / scale:
            # 2. The maximum for these bounds. Give up the one that pulls hardest; none does: the maximum.
            hardest, which = 1e-13 * np.abs(slope).max(), -1
            for i in range(N):
                if not free[i] and slope[i] - price > hardest:
                    hardest, which = slope[i] - price, i
            if full and -price > hardest:
                full = False
            elif which >= 0:
                free[which] = True
            else:
                break
            continue
        # 3. As far as the bounds allow.
        t, blocked, total, rise = 1.0, -1, b.sum(), move.sum()
        for i in range(N):
            if free[i] and move[i] < 0 and -b[i] / move[i] < t:
                t, blocked = -b[i] / move[i], i
        if not full and rise > 0 and (1 - total) / rise < t:
            t, blocked, full = max((1 - total) / rise, 0.0), -1, True
        for i in range(N):
            b[i] = max(b[i] + t * move[i], 0.0)
        if blocked >= 0:
            free[blocked], b[blocked] = False, 0.0
        if b.sum() > 1:  # rounding: back onto the simplex
            b /= b.sum()
    return c @ b - 0.5 * (b @ (K @ b))
