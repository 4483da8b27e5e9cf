"""`solve_binary`: many binary SVMs over one matrix, by either solver."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from sihash._typing import Array
from sihash.svm import certificate, ocas, smooth
from sihash.svm.blocks import RowBlocks
from sihash.svm.svm_state import Solution, SVMs
from sihash.threads import team

Method = Literal["ocas", "smooth"]


def solve_binary(
    Phi: Array,
    Y: Array,
    C: float,
    *,
    tol: float = 0.01,
    method: Method = "smooth",
    warm: SVMs | None = None,
    certify: bool = False,
) -> Solution:
    """Train m binary SVMs that share their rows.

    Minimises ``F_j(w) = ½‖w‖² + C Σ_i max(0, 1 − Y[i, j] · (Phi[i] @ w))`` for every column ``j`` of ``Y``.
    A constant column of ``Phi`` is the bias. Products run in float32, sums in float64.

    Parameters
    ----------
    Phi : array of shape (n, d)
        One row a sample.
    Y : array of shape (n, m)
        Labels −1 and +1, one column an SVM.
    C : float
        Weight of the hinge losses.
    tol : float
        A bit is done when its objective is within ``tol`` of the optimum, as a share of the objective (or a
        millionth of ``F(0)``, for optima near zero). "ocas" and ``certify`` prove that; "smooth" estimates
        it. With ten rows for each feature the true gap is rarely more than four times as wide, with as many
        rows as features it may be a hundred times.
    method : {"smooth", "ocas"}
        The smoothed solver, or OCAS, which proves what it says.
    warm : SVMs, optional
        ``warm`` of an earlier `Solution` with as many features and bits: its weights are the start. If
        ``Phi`` is the very same float32 array, and the method and ``C`` are the same, all that it kept stays
        too, and only rows whose signs changed are counted again.
    certify : bool
        Go on from the weights of "smooth" with cutting planes until ``tol`` is proved. This takes longer than
        the solve.

    Returns
    -------
    Solution
        ``W`` (m × d), ``upper`` and ``gap`` (m), ``lower`` (m, if ``is_proved``), ``n_steps`` (m), ``warm``.

    Examples
    --------
    >>> import numpy as np
    >>> from sihash.svm import solve_binary
    >>> Phi = np.array([[1.0, 1.0], [2.0, 1.0], [-1.0, 1.0], [-2.0, 1.0]])
    >>> solution = solve_binary(Phi, np.sign(Phi[:, :1]), C=1.0, tol=1e-4, certify=True)
    >>> bool(solution.lower[0] <= 0.5 <= solution.upper[0] < 0.501)
    True
    """
    Phi, Y = _checked(Phi, Y)
    if not 0 < C < np.inf:
        raise ValueError(f"C must be positive and finite, got {C}.")
    if warm is not None and (warm.m, warm.rows.n_features) != (Y.shape[1], Phi.shape[1]):
        raise ValueError(
            f"The warm start has {warm.m} bits and {warm.rows.n_features} features, the problem has "
            f"{Y.shape[1]} and {Phi.shape[1]}; start cold (warm=None)."
        )
    with team():
        solution = solve_svms(_start(Phi, Y, C, method, warm), tol)
        if not certify or solution.is_proved:
            return solution
        proved = certificate.prove(solution.warm, tol)
    return replace(proved, n_steps=solution.n_steps + proved.n_steps)


def make_svms(rows: RowBlocks, C: float, method: Method) -> SVMs:
    """Untrained SVMs of the solver named ``method``."""
    if method == "smooth":
        return smooth.SmoothSVMs(rows, C)
    if method == "ocas":
        return ocas.OcasSVMs(rows, C)
    raise ValueError(f"method must be 'ocas' or 'smooth', got {method!r}.")


def solve_svms(svms: SVMs, tol: float, least: float = 0.0, words: Array | None = None) -> Solution:
    """Train SVMs by the solver that they belong to; ``least`` and ``words`` as in `smooth.solve`."""
    if isinstance(svms, smooth.SmoothSVMs):
        return smooth.solve(svms, tol, least, words)
    assert isinstance(svms, ocas.OcasSVMs)
    return ocas.solve(svms, tol)


def _checked(Phi: Array, Y: Array) -> tuple[Array, Array]:
    Phi, Y = np.asarray(Phi), np.asarray(Y)
    if Phi.ndim != 2 or Y.ndim != 2 or len(Phi) != len(Y) or not len(Phi):
        raise ValueError(
            f"Expected Phi (n × d) and Y (n × m) with n ≥ 1, got shapes {Phi.shape} and {Y.shape}."
        )
    if not np.isin(Y, (-1, 1)).all():
        raise ValueError("Y must hold −1 and +1 only.")
    Phi = np.ascontiguousarray(Phi, dtype=np.float32)
    if not np.isfinite(Phi).all():
        raise ValueError("Phi contains NaN or infinity; every feature must be a finite number.")
    return Phi, np.ascontiguousarray(Y, dtype=np.int8)


def _start(Phi: Array, Y: Array, C: float, method: Method, warm: SVMs | None) -> SVMs:
    fresh = make_svms(RowBlocks.of(Phi, Y=Y.copy()), C, method)
    if warm is None:
        return fresh
    if type(warm) is type(fresh) and warm.C == C and _same_rows(warm.rows, Phi):
        return _with_signs(warm.copy(), Y)
    fresh.start_from(warm.W)
    return fresh


def _same_rows(rows: RowBlocks, Phi: Array) -> bool:
    return len(rows) == len(Phi) and rows.blocks[0].arrays["Phi"].ctypes.data == Phi.ctypes.data


def _with_signs(svms: SVMs, Y: Array) -> SVMs:
    """Count again the rows whose signs differ from ``Y``."""
    svms.before_sign_flip()
    counter, start = svms.counter(), 0
    for block in svms.rows:
        wanted = Y[start : start + block.n]
        start += block.n
        rows = np.flatnonzero((block["Y"] != wanted).any(axis=1))
        svms.count(RowBlocks([block], svms.rows.store).total(counter.flip_signs, rows, wanted[rows]))
    return svms
