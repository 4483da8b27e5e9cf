"""The small dual problem over the planes: a concave quadratic on simplices, by an active-set method."""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array

RIDGE = 1e-13  # of the largest curvature: planes may be linearly dependent


@numba.njit(nogil=True, cache=True)
def maximise(K: Array, c: Array, group: Array, b: Array, max_moves: int) -> float:
    """Maximise ``c·b − ½ b·K·b`` over ``b ≥ 0`` with the sum of ``b`` in every group at most 1.

    ``K`` (N × N) is positive semi-definite, ``group`` (N) numbers the group of each variable from 0, and
    ``b`` starts feasible and is changed in place. Each move goes to the exact maximum over the free
    variables, or up to the first bound that it meets; Newton steps are needed because planes of one solve
    are nearly parallel. Returns the value reached: any feasible ``b`` gives a valid bound, so stopping
    early costs tightness, never truth.
    """
    N, n_groups = len(c), group.max() + 1
    # Planes may be constants (rows of zeros): then K says nothing, and c sets the scale.
    scale = max(np.diag(K).max(), 1e-20 * np.abs(c).max(), 1e-300)
    free = b > 0
    full = np.zeros(n_groups, np.bool_)
    totals = np.zeros(n_groups)
    for i in range(N):
        totals[group[i]] += b[i]
    for q in range(n_groups):
        full[q] = totals[q] >= 1 - 1e-12
    for _ in range(max_moves):
        slope = (c - K @ b) / scale
        move, price = _newton(K, slope, group, free, full, scale)
        if np.abs(move).max() <= 1e-12 or slope @ move <= 1e-16 * abs(c @ b) / scale:
            # The maximum for these bounds. Give up the bound that pulls hardest; if none does, this is the
            # maximum.
            if not _release(slope, price, group, free, full):
                break
            continue
        t, blocked, is_group = _longest_step(b, move, group, totals, free, full)
        for i in range(N):
            b[i] = max(b[i] + t * move[i], 0.0)
        if blocked >= 0:
            if is_group:
                full[blocked] = True
            else:
                free[blocked] = False
                b[blocked] = 0.0
        totals[:] = 0
        for i in range(N):
            totals[group[i]] += b[i]
        for q in range(n_groups):
            if totals[q] > 1:  # rounding: back onto the simplex
                for i in range(N):
                    if group[i] == q:
                        b[i] /= totals[q]
                totals[q] = 1.0
    return c @ b - 0.5 * (b @ (K @ b))


@numba.njit(nogil=True, cache=True)
def _newton(
    K: Array, slope: Array, group: Array, free: Array, full: Array, scale: float
) -> tuple[Array, Array]:
    """The step to the maximum over free variables, full groups staying full; and the price of fullness."""
    N, n_groups = len(slope), len(full)
    own = np.flatnonzero(free)
    move, price = np.zeros(N), np.zeros(n_groups)
    n = len(own)
    if n == 0:
        return move, price
    place = np.full(n_groups, -1)
    n_full = 0
    for k in range(n):
        q = group[own[k]]
        if full[q] and place[q] < 0:
            place[q] = n + n_full
            n_full += 1
    M = np.zeros((n + n_full, n + n_full))
    r = np.zeros(n + n_full)
    for k in range(n):
        for e in range(n):
            M[k, e] = K[own[k], own[e]] / scale
        M[k, k] += RIDGE
        r[k] = slope[own[k]]
        p = place[group[own[k]]]
        if p >= 0:
            M[k, p] = 1.0
            M[p, k] = 1.0
    solution = np.linalg.solve(M, r)
    for k in range(n):
        move[own[k]] = solution[k]
    for q in range(n_groups):
        if place[q] >= 0:
            price[q] = solution[place[q]]
    return move, price


@numba.njit(nogil=True, cache=True)
def _release(slope: Array, price: Array, group: Array, free: Array, full: Array) -> bool:
    """Free the variable, or open the group, whose bound holds back the steepest gain."""
    hardest, which, is_group = 1e-13 * np.abs(slope).max(), -1, False
    for i in range(len(slope)):
        if not free[i]:
            pull = slope[i] - price[group[i]]
            if pull > hardest:
                hardest, which, is_group = pull, i, False
    for q in range(len(full)):
        if full[q] and -price[q] > hardest:
            hardest, which, is_group = -price[q], q, True
    if which < 0:
        return False
    if is_group:
        full[which] = False
    else:
        free[which] = True
    return True


@numba.njit(nogil=True, cache=True)
def _longest_step(
    b: Array, move: Array, group: Array, totals: Array, free: Array, full: Array
) -> tuple[float, int, bool]:
    """How far the move may go, and the bound it meets: a variable, or a group (last value true)."""
    t, blocked, is_group = 1.0, -1, False
    sums = np.zeros(len(full))
    for i in range(len(b)):
        sums[group[i]] += move[i]
        if free[i] and move[i] < 0 and -b[i] / move[i] < t:
            t, blocked, is_group = -b[i] / move[i], i, False
    for q in range(len(full)):
        if not full[q] and sums[q] > 0 and (1 - totals[q]) / sums[q] < t:
            t, blocked, is_group = (1 - totals[q]) / sums[q], q, True
    return max(t, 0.0), blocked, is_group
