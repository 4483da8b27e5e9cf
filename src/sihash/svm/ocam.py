"""The multi-class SVM of Crammer and Singer by its dual, then OCAM, over weighted distinct rows.

Minimises ``F(W) = ½ Σ_k ‖w_k‖² + C Σ_i s_i max_k (1[k ≠ y_i] + (w_k − w_{y_i})·b_i)``. Rows with the same
features and class lose the same, so they are counted once, with their summed weight: the codes of a
collection have few distinct rows, and a solve costs next to nothing.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.svm import linesearch, qp
from sihash.svm.constants import CUT_SHARE, DUAL_PASSES, MANY_CLASSES, MANY_PLANES, OCAM_SLOPE, QP_MOVES
from sihash.svm.multiclass_dual import ascend_dual, scaled_means


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
    """Train one weight vector a class, to a certified relative gap of ``tol``: by the dual, else by OCAM.

    With more than `MANY_CLASSES` classes it stops at their scaled means, whose gap is certified, too.

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
    if len(classes) > MANY_CLASSES:
        W, upper, lower = scaled_means(B, numbers, s, len(classes), C)
        converged = upper - lower <= max(tol * upper, floor)
        return MulticlassSolution(W, classes, upper, min(lower, upper), 1, converged)
    start = _warm_weights(warm, classes, B.shape[1])
    W, upper, lower, n_taken = ascend_dual(B, numbers, s, start, C, tol, floor, min(max_steps, DUAL_PASSES))
    converged = upper - lower <= max(tol * upper, floor)
    if not converged:
        W, upper, bound, n_steps = _solve(B, numbers, s, W, C, tol, floor, max_steps - n_taken)
        lower, n_taken = max(lower, bound), n_taken + n_steps
        converged = upper - lower <= max(tol * upper, floor)
    if not converged:
        from sklearn.exceptions import ConvergenceWarning  # not at every start

        warnings.warn(
            f"The multi-class SVM did not reach a gap of {tol:g} in {n_taken} steps; raise tol, or lower C.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return MulticlassSolution(W, classes, upper, min(lower, upper), n_taken, converged)


def _solve(
    B: Array, y: Array, s: Array, W: Array, C: float, tol: float, floor: float, max_steps: int
) -> tuple[Array, float, float, int]:
    """Distinct rows ``B`` (n × d) of classes ``y`` with weights ``s``: ``(W, upper, lower, n_steps)``."""
    T = B @ W.T
    upper, lower = 0.5 * float(np.sum(W * W)) + C * _risk(y, s, T), 0.0
    if upper > C * s.sum():  # no weights at all are better
        W, T, upper = np.zeros_like(W), np.zeros_like(T), C * float(s.sum())
    a, g = _plane(B, y, s, T)
    offsets, planes, b = np.array([a]), g[None], np.zeros(1)
    K = planes @ planes.T
    for n_steps in range(max_steps):
        # 1. The minimum of the plane model, and with it the lower bound.
        lower = max(lower, qp.maximise(C * C * K, C * offsets, b, QP_MOVES * len(b)))
        if upper - lower <= max(tol * upper, floor):
            return W, upper, lower, n_steps
        # 2. Search on the line from the best point to that minimum.
        D = C * (b @ planes).reshape(W.shape) - W
        rates, w_dot_d, d_dot_d = B @ D.T, np.sum(W * D), np.sum(D * D)

        def slope_at(
            t: Array, T: Array = T, rates: Array = rates, w_dot_d: Any = w_dot_d, d_dot_d: Any = d_dot_d
        ) -> Array:
            return w_dot_d + t * d_dot_d + C * _risk_slope(y, s, T + t * rates, rates)

        (t,) = linesearch.search(slope_at, slope_at(np.zeros(1)), np.array([d_dot_d]), OCAM_SLOPE)
        V = W + t * D
        candidate = 0.5 * float(np.sum(V * V)) + C * _risk(y, s, T + t * rates)
        cut = CUT_SHARE * max(1 - t, 0.0)
        if candidate < upper:
            W, T, upper = V, T + t * rates, candidate
        else:  # cut where the search was: there the model is too low, so the plane is new
            cut = min(max(t, CUT_SHARE), 1.0)
        # 3. A new plane a little further on; planes without dual weight leave, the model's minimum stays.
        a, g = _plane(B, y, s, T + cut * rates)
        keep = np.flatnonzero(b > 0) if len(b) > MANY_PLANES else np.arange(len(b))
        planes, offsets, b = (
            np.vstack([planes[keep], g]),
            np.append(offsets[keep], a),
            np.append(b[keep], 0.0),
        )
        row = planes @ g
        K = np.block([[K[np.ix_(keep, keep)], row[:-1, None]], [row[None]]])
    return W, upper, lower, max_steps


def _worst(y: Array, T: Array) -> tuple[Array, Array]:
    """For every row the class that loses most against its own ``y``, by scores ``T``, and what it loses."""
    rows = np.arange(len(y))
    losses = T - T[rows, y][:, None] + 1.0
    losses[rows, y] = 0.0
    worst = np.argmax(losses, axis=1)
    return worst, losses[rows, worst]


def _risk(y: Array, s: Array, T: Array) -> float:
    """``Σ_i s_i max_k (1[k ≠ y_i] + t_ik − t_iy)`` for scores ``T`` (n × classes)."""
    return float(s @ _worst(y, T)[1])


def _plane(B: Array, y: Array, s: Array, T: Array) -> tuple[float, Array]:
    """``(a, g)`` of the plane ``a − ⟨W, g⟩`` that touches the risk at these scores; ``g`` is flat."""
    worst, _ = _worst(y, T)
    lost = np.flatnonzero(worst != y)
    G, own = np.zeros((T.shape[1], B.shape[1])), s[lost, None] * B[lost]
    np.add.at(G, y[lost], own)
    np.subtract.at(G, worst[lost], own)
    return float(s[lost].sum()), G.reshape(-1)


def _risk_slope(y: Array, s: Array, T: Array, rates: Array) -> float:
    """Derivative of the risk at the scores ``T``, which change by ``rates``: each row's worst class pulls."""
    rows = np.arange(len(y))
    return float(s @ (rates[rows, _worst(y, T)[0]] - rates[rows, y]))


def _checked(B: Any, y: Any, sample_weight: Any) -> tuple[Array, Array, Array]:
    B, y = np.asarray(B, dtype=np.float64), np.asarray(y)
    if B.ndim != 2 or y.shape != (len(B),) or not len(B):
        raise ValueError(f"Expected B (n × d) and n labels with n ≥ 1, got shapes {B.shape} and {y.shape}.")
    if not np.isfinite(B).all():
        raise ValueError("B contains NaN or infinity; every feature must be a finite number.")
    s = np.ones(len(B)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if s.shape != (len(B),) or not ((s >= 0) & np.isfinite(s)).all():
        raise ValueError(f"sample_weight must hold {len(B)} finite numbers ≥ 0, one per row.")
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
