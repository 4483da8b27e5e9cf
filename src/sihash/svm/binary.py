"""`solve_binary`: many binary SVMs over one matrix, by either solver."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sihash._typing import Array
from sihash.svm import ocas, smooth
from sihash.svm.blocks import RowBlocks
from sihash.svm.machines import Machines, Solution
from sihash.svm.smooth_machines import SmoothMachines
from sihash.threads import team

Method = Literal["ocas", "smooth"]
N_GROUPS = 10  # groups of planes for the smoothed solver; OCAS has one, as in the paper


def solve_binary(
    Phi: Array,
    Y: Array,
    C: float,
    *,
    tol: float = 0.01,
    method: Method = "smooth",
    warm: Machines | None = None,
) -> Solution:
    """Train m binary SVMs that share their rows, to a certified gap.

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
        A bit is done when ``upper − lower ≤ tol · upper`` (or a millionth of ``F(0)``, for optima near zero).
    method : {"smooth", "ocas"}
        The smoothed quasi-Newton method, or OCAS. Both hand back the same kind of certificate.
    warm : Machines, optional
        ``warm`` of an earlier `Solution` with as many features and bits: its weights are the start. If
        ``Phi`` is the very same float32 array, and the method and ``C`` are the same, its planes stay too,
        and only rows whose signs changed are counted anew.

    Returns
    -------
    Solution
        ``W`` (m × d), ``upper`` and ``lower`` (m), ``n_steps`` (m), ``warm``, ``history``.

    Examples
    --------
    >>> import numpy as np
    >>> from sihash.svm import solve_binary
    >>> Phi = np.array([[1.0, 1.0], [2.0, 1.0], [-1.0, 1.0], [-2.0, 1.0]])
    >>> solution = solve_binary(Phi, np.sign(Phi[:, :1]), C=1.0, tol=1e-4)
    >>> bool(abs(solution.upper[0] - 0.5) < 1e-3)
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
        return solve_machines(_start(Phi, Y, C, method, warm), tol)


def n_groups_of(method: Method) -> int:
    """In how many groups the rows of this solver are laid out."""
    return N_GROUPS if method == "smooth" else 1


def make_machines(rows: RowBlocks, C: float, method: Method) -> Machines:
    """Untrained machines of the solver named ``method``."""
    if method == "smooth":
        return SmoothMachines(rows, C)
    if method == "ocas":
        return ocas.OcasMachines(rows, C)
    raise ValueError(f"method must be 'ocas' or 'smooth', got {method!r}.")


def solve_machines(machines: Machines, tol: float, words: Array | None = None) -> Solution:
    """Train machines by the solver that they belong to; ``words`` as in `smooth.solve`."""
    if isinstance(machines, SmoothMachines):
        return smooth.solve(machines, tol, words=words)
    assert isinstance(machines, ocas.OcasMachines)
    return ocas.solve(machines, tol)


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


def _start(Phi: Array, Y: Array, C: float, method: Method, warm: Machines | None) -> Machines:
    fresh = make_machines(RowBlocks.of(Phi, n_groups=n_groups_of(method), Y=Y.copy()), C, method)
    if warm is None:
        return fresh
    if type(warm) is type(fresh) and warm.C == C and _same_rows(warm.rows, Phi):
        return _with_signs(warm.copy(), Y)
    fresh.start_from(warm)
    return fresh


def _same_rows(rows: RowBlocks, Phi: Array) -> bool:
    return len(rows) == len(Phi) and rows.blocks[0].arrays["Phi"].ctypes.data == Phi.ctypes.data


def _with_signs(machines: Machines, Y: Array) -> Machines:
    """Count the rows anew whose signs differ from ``Y``; every plane stays valid."""
    machines.own_arrays()
    snapshot, start = machines.snapshot(), 0
    for block in machines.rows:
        wanted = Y[start : start + block.n]
        start += block.n
        rows = np.flatnonzero((block["Y"] != wanted).any(axis=1))
        only = RowBlocks([block], machines.rows.store)
        machines.count(only.by_group(machines.bundle.n_groups, snapshot.turn, rows, wanted[rows]))
    return machines
