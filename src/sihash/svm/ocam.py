"""The multi-class SVM of Crammer and Singer by OCAM, over weighted distinct rows.

Minimises ``F(W) = ½ Σ_k ‖w_k‖² + C Σ_i s_i max_k (1[k ≠ y_i] + (w_k − w_{y_i})·b_i)``. Rows with the same
features and
class lose the same, so they are counted once, with their summed weight: the codes of a collection have few
distinct rows, and a solve costs next to nothing.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sihash._typing import Array
from sihash.svm import qp
from sihash.svm.multiclass_dual import ascend_dual

CUT_SHARE = 0.1  # as in OCAS: the new plane is cut a little past the best point
QP_MOVES_PER_PLANE = 4
N_PASSES = 40
MANY_CLASSES, N_PASSES_DUAL = 50, 100  # from so many classes on, the dual is tried first, for so many passes


@dataclass(frozen=True)
class MulticlassSolution:
    """Weights with their certificate: ``lower ≤ min F ≤ upper = F(W)``."""

    W: Array  # (n_classes, d)
    classes: Array  # (n_classes,), the label of each row of W
    upper: float
    lower: float
    n_steps: int
    converged: bool

    @property
    def warm(self) -> MulticlassSolution:
        """What a later solve can start from."""
        return self


def solve_multiclass(
    B: Array,
    y: Array,
    C: float,
    *,
    tol: float = 0.01,
    sample_weight: Array | None = None,
    warm: MulticlassSolution | None = None,
    max_steps: int = 2000,
) -> MulticlassSolution:
    """Train one weight vector a class by OCAM, to a certified relative gap of ``tol``.

    ``B`` has shape (n, d); a constant column of it is the bias. ``y`` holds n labels, ``sample_weight`` how
    often each row counts. ``warm`` is an earlier solution: classes that it knows start from their weights
    there.
    """
    B, y, s = _checked(B, y, sample_weight)
    if not 0 < C < np.inf:
        raise ValueError(f"C must be positive and finite, got {C}.")
    classes, numbers = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"A multi-class SVM needs at least two classes, got {len(classes)}.")
    B, numbers, s = _distinct(B, numbers.reshape(-1), s)
    floor = 1e-6 * C * float(s.sum())  # a gap that does not matter: a millionth of F(0)
    start = _warm_weights(warm, classes, B.shape[1])
    n_taken, converged = 0, False
    if len(classes) > MANY_CLASSES:
        most = min(max_steps, N_PASSES_DUAL)
        W, upper, lower, n_taken = ascend_dual(B, numbers, s, start, C, tol, floor, most)
        start, converged = W, upper - lower <= max(tol * upper, floor)
    if not converged:
        W, upper, lower, n_steps = _solve(B, numbers, s, start, C, tol, floor, max_steps)
        converged, n_taken = upper - lower <= max(tol * upper, floor), n_taken + n_steps
    if not converged:
        warnings.warn(
            f"The multi-class SVM did not reach a gap of {tol:g} in {n_taken} steps; raise tol, or lower C.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return MulticlassSolution(W, classes, upper, min(lower, upper), n_taken, converged)


@numba.njit(nogil=True, cache=True)
def _solve(
    B: Array, y: Array, s: Array, W: Array, C: float, tol: float, floor: float, max_steps: int
) -> tuple[Array, float, float, int]:
    """Distinct rows ``B`` (n × d) of classes ``y`` with weights ``s``: ``(W, upper, lower, n_steps)``."""
    T = B @ np.ascontiguousarray(W.T)
    upper, lower = 0.5 * np.sum(W * W) + C * _risk(y, s, T), 0.0
    if upper > C * s.sum():  # no weights at all are better
        W, T, upper = np.zeros_like(W), np.zeros_like(T), C * s.sum()
    a, G = _plane(B, y, s, T)
    offsets, planes, b = np.array([a]), G.reshape(1, -1), np.zeros(1)
    K = planes @ planes.T
    for n_steps in range(max_steps):
        # 1. The minimum of the plane model, and with it the lower bound.
        group = np.zeros(len(b), np.intp)
        bound = qp.maximise(C * C * K, C * offsets, group, b, QP_MOVES_PER_PLANE * len(b))
        lower = max(lower, bound)
        if upper - lower <= max(tol * upper, floor):
            return W, upper, lower, n_steps
        # 2. Exact search on the line from the best point to that minimum.
        D = C * (b @ planes).reshape(W.shape) - W
        rates = B @ np.ascontiguousarray(D.T)
        t = _search(y, s, T, rates, np.sum(W * D), np.sum(D * D), C)
        V = W + t * D
        candidate = 0.5 * np.sum(V * V) + C * _risk(y, s, T + t * rates)
        if candidate < upper:
            W, T, upper = V, T + t * rates, candidate
        else:
            t = 0.0
        # 3. A new plane a little further on; planes without dual weight leave, the model's minimum stays.
        a, G = _plane(B, y, s, T + CUT_SHARE * max(1 - t, 0.0) * rates)
        K, b, offsets, planes = _replace_idle(K, b, offsets, planes, a, G.reshape(-1))
    return W, upper, lower, max_steps


@numba.njit(nogil=True, cache=True)
def _worst(y: int, scores: Array) -> tuple[int, float]:
    """The class that loses most against the row's own ``y``, and what it loses."""
    worst, highest = y, 0.0
    for k in range(len(scores)):
        loss = scores[k] - scores[y] + (1.0 if k != y else 0.0)
        if loss > highest:
            worst, highest = k, loss
    return worst, highest


@numba.njit(nogil=True, cache=True)
def _risk(y: Array, s: Array, T: Array) -> float:
    """``Σ_i s_i max_k (1[k ≠ y_i] + t_ik − t_iy)`` for scores ``T`` (n × classes)."""
    total = 0.0
    for i in range(len(y)):
        total += s[i] * _worst(y[i], T[i])[1]
    return total


@numba.njit(nogil=True, cache=True)
def _plane(B: Array, y: Array, s: Array, T: Array) -> tuple[float, Array]:
    """``(a, G)`` of the plane ``a − ⟨W, G⟩`` that touches the risk where these scores are taken."""
    a, G = 0.0, np.zeros((T.shape[1], B.shape[1]))
    for i in range(len(y)):
        worst, _ = _worst(y[i], T[i])
        if worst != y[i]:
            a += s[i]
            G[y[i]] += s[i] * B[i]
            G[worst] -= s[i] * B[i]
    return a, G


@numba.njit(nogil=True, cache=True)
def _replace_idle(
    K: Array, b: Array, offsets: Array, planes: Array, a: float, g: Array
) -> tuple[Array, Array, Array, Array]:
    keep = np.flatnonzero(b > 0) if len(b) > 50 else np.arange(len(b))
    n = len(keep)
    more, bigger = np.empty((n + 1, len(g))), np.empty((n + 1, n + 1))
    for k in range(n):
        more[k] = planes[keep[k]]
        for e in range(n):
            bigger[k, e] = K[keep[k], keep[e]]
    more[n] = g
    bigger[n] = more @ g
    bigger[:, n] = bigger[n]
    return bigger, np.append(b[keep], 0.0), np.append(offsets[keep], a), more


@numba.njit(nogil=True, cache=True)
def _search(y: Array, s: Array, T: Array, rates: Array, w_dot_d: float, d_dot_d: float, C: float) -> float:
    """The minimum on a line by bisection with secants on the piecewise linear derivative."""
    low, high = 0.0, 1.0
    low_slope = w_dot_d + C * _risk_slope(y, s, T, rates, low)
    high_slope = w_dot_d + high * d_dot_d + C * _risk_slope(y, s, T, rates, high)
    if low_slope >= 0:
        return 0.0
    while high_slope < 0 and high < 1e6:
        low, low_slope = high, high_slope
        high *= 2
        high_slope = w_dot_d + high * d_dot_d + C * _risk_slope(y, s, T, rates, high)
    start = abs(low_slope)
    for k in range(N_PASSES):
        middle = low - low_slope * (high - low) / (high_slope - low_slope) if k % 2 else 0.5 * (low + high)
        middle_slope = w_dot_d + middle * d_dot_d + C * _risk_slope(y, s, T, rates, middle)
        if abs(middle_slope) <= 1e-6 * start or high - low <= 1e-12 * high:
            return middle
        if middle_slope < 0:
            low, low_slope = middle, middle_slope
        else:
            high, high_slope = middle, middle_slope
    return 0.5 * (low + high)


@numba.njit(nogil=True, cache=True)
def _risk_slope(y: Array, s: Array, T: Array, rates: Array, t: float) -> float:
    """Derivative of the risk at the scores ``T + t · rates``: each row pulls by its worst class."""
    total = 0.0
    for i in range(len(y)):
        own = T[i, y[i]] + t * rates[i, y[i]]
        worst, highest = y[i], 0.0
        for k in range(T.shape[1]):
            loss = T[i, k] + t * rates[i, k] - own + (1.0 if k != y[i] else 0.0)
            if loss > highest:
                worst, highest = k, loss
        total += s[i] * (rates[i, worst] - rates[i, y[i]])
    return total


def _checked(B: Any, y: Any, sample_weight: Any) -> tuple[Array, Array, Array]:
    B, y = np.asarray(B, dtype=np.float64), np.asarray(y)
    if B.ndim != 2 or y.shape != (len(B),) or not len(B):
        raise ValueError(f"Expected B (n × d) and n labels with n ≥ 1, got shapes {B.shape} and {y.shape}.")
    if not np.isfinite(B).all():
        raise ValueError("B contains NaN or infinity; every feature must be a finite number.")
    s = np.ones(len(B)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if s.shape != (len(B),) or not ((s >= 0) & np.isfinite(s)).all():
        raise ValueError(f"sample_weight must hold {len(B)} finite numbers ≥ 0, one a row.")
    return B, y, s


def _distinct(B: Array, y: Array, s: Array) -> tuple[Array, Array, Array]:
    keyed = np.column_stack([B, y])
    _, first, inverse = np.unique(keyed, axis=0, return_index=True, return_inverse=True)
    return B[first], y[first], np.bincount(inverse.reshape(-1), weights=s)


def _warm_weights(warm: MulticlassSolution | None, classes: Array, d: int) -> Array:
    W = np.zeros((len(classes), d))
    if warm is not None and warm.W.shape[1] == d:
        known = {label: k for k, label in enumerate(warm.classes.tolist())}
        for k, label in enumerate(classes.tolist()):
            if label in known:
                W[k] = warm.W[known[label]]
    return W
