"""The small dual problem over the planes: a concave quadratic on a product of simplices."""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array


@numba.njit(nogil=True, cache=True)
def maximise(K: Array, c: Array, group: Array, b: Array, tol: float, max_moves: int) -> float:
    """Maximise ``c·b − ½ b·K·b`` over ``b ≥ 0`` with the sum of ``b`` in every group at most 1.

    ``K`` (N × N) is positive semi-definite, ``group`` (N) numbers the group of each variable from 0, and
    ``b`` starts feasible and is changed in place. Each move is the best one of its kind: one variable, or
    weight passed from one variable to another of its group. Returns the value reached; any feasible ``b``
    gives a valid bound, so stopping early costs tightness, never truth.
    """
    N, n_groups = len(c), group.max() + 1
    totals = np.zeros(n_groups)
    for i in range(N):
        totals[group[i]] += b[i]
    slope = c - K @ b
    value = 0.5 * (c @ b + slope @ b)
    steepest = np.empty(n_groups, np.int64)
    for _ in range(max_moves):
        # 1. In every group, the variable that most wants to grow.
        steepest[:] = -1
        for i in range(N):
            q = group[i]
            if steepest[q] < 0 or slope[i] > slope[steepest[q]]:
                steepest[q] = i
        # 2. The best move: a variable alone, or weight passed on to the steepest of its group.
        best, best_i, best_j, best_step = 0.0, -1, -1, 0.0
        for j in range(N):
            room = 1.0 - totals[group[j]]
            if (slope[j] > 0 and room > 1e-12) or (slope[j] < 0 and b[j] > 0):
                step = min(max(slope[j] / max(K[j, j], 1e-300), -b[j]), room)
                gain = step * slope[j] - 0.5 * step * step * K[j, j]
                if gain > best:
                    best, best_i, best_j, best_step = gain, j, -1, step
            i = steepest[group[j]]
            if b[j] > 0 and slope[i] > slope[j]:
                curvature = K[i, i] + K[j, j] - 2.0 * K[i, j]
                step = min((slope[i] - slope[j]) / max(curvature, 1e-300), b[j])
                gain = step * (slope[i] - slope[j]) - 0.5 * step * step * curvature
                if gain > best:
                    best, best_i, best_j, best_step = gain, i, j, step
        if best <= tol * max(abs(value), 1e-300):
            break
        # 3. Take it.
        value += best
        b[best_i] += best_step
        slope -= best_step * K[:, best_i]
        if best_j >= 0:
            b[best_j] -= best_step
            slope += best_step * K[:, best_j]
        else:
            totals[group[best_i]] += best_step
    return value
