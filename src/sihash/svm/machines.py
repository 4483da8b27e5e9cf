"""Many binary SVMs over one set of rows, kept with their certificate while the rows change.

Each bit ``j`` minimises ``F_j(w) = ½‖w‖² + C Σ_i max(0, 1 − y_ij w·φ_i)``. What both solvers keep between
solves is here: the weights, the hinge risk at them, and planes below that risk. Rows that come, go or
change sign are counted in and out one by one, so the bounds of ``F_j`` are known again after any change at
the cost of the rows that changed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.bundle import Bundle
from sihash.svm.counting import Snapshot, add_arrays, hinge, own_arrays

# A bit whose optimum is next to nothing (a constant column, say) would never close a relative gap.
NEGLIGIBLE = 1e-6  # share of F(0) = C n below which a gap does not matter


@dataclass(frozen=True)
class History:
    """The bounds and the clock after every step, a row a step: what plots and tests look at."""

    upper: list[Array] = field(default_factory=list)
    lower: list[Array] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Solution:
    """Weights with their certificate: ``lower ≤ min F ≤ upper = F(W)``, one bound a bit."""

    W: Array
    upper: Array
    lower: Array
    n_steps: Array
    converged: Array
    history: History
    warm: Machines

    @property
    def gap(self) -> Array:
        """Relative gap of each bit."""
        return (self.upper - self.lower) / np.maximum(np.abs(self.upper), 1e-300)


class Machines:
    """The SVMs of m bits. ``rows`` holds ``Phi`` (float32) and ``Y`` (int8 ±1, rows × m) for every row."""

    share_dtype: type = np.float32

    def __init__(self, rows: RowBlocks, C: float, n_slots: int) -> None:
        self.rows, self.C = rows, C
        self._shared: set[str] = set()  # arrays that a solve writes, and a twin may still be reading
        self.m = rows.n_bits
        self.W = np.zeros((self.m, rows.n_features))
        self.risk = np.full(self.m, float(len(rows)))
        self.known_lower = np.zeros(self.m)  # the best bounds of the last solve; void when rows change
        self.bundle = Bundle(self.m, 1 + max(rows.groups), n_slots, rows.n_features)
        rows.parts(add_arrays, self.row_arrays())

    def copy(self) -> Self:
        """A twin that can change and be thrown away; rows are shared until they are written."""
        twin = self.__class__.__new__(self.__class__)
        twin.__dict__.update(self.__dict__)
        twin.rows, twin.bundle = self.rows.copy(), self.bundle.copy()
        twin.W, twin.risk = self.W.copy(), self.risk.copy()
        twin.known_lower = self.known_lower.copy()
        twin._shared = set(self.row_arrays())
        return twin

    def row_arrays(self) -> dict[str, type]:
        """The arrays that this solver keeps for every row (rows × m), and writes: their types by name."""
        return {f"pi{slot}": self.share_dtype for slot in range(self.bundle.n_slots)}

    def own_arrays(self, names: set[str] | None = None, overwrite: bool = False) -> None:
        """Copy what a solve writes to, once, so that the twin this one was copied from does not see it.

        With ``overwrite`` all of it will be written: only the room is needed.
        """
        shared = self._shared if names is None else self._shared & names
        if shared:
            self.rows.parts(own_arrays, sorted(shared), overwrite)
            self._shared = self._shared - shared

    def state(self) -> dict[str, Array]:
        """All that cannot be had again from the rows, for a file."""
        shares = {f"pi{slot}": self.rows.column(f"pi{slot}") for slot in range(self.bundle.n_slots)}
        return {
            "W": self.W,
            "known_lower": self.known_lower,
            "g": self.bundle.g,
            "a": self.bundle.a,
            "newest": self.bundle.newest,
            **shares,
        }

    def set_state(self, state: dict[str, Array]) -> None:
        """Take over what `state` gave, for machines made over the same rows in the same blocks."""
        self.W, self.known_lower = state["W"].copy(), state["known_lower"].copy()
        m, n_groups, n_slots, d = state["g"].shape
        self.bundle = Bundle(m, n_groups, n_slots, d)
        self.bundle.g[:], self.bundle.a[:], self.bundle.newest[:] = state["g"], state["a"], state["newest"]
        self.rows.parts(add_arrays, self.row_arrays())
        for slot in range(n_slots):
            self.rows.set_column(f"pi{slot}", state[f"pi{slot}"])
        (self.risk,) = self.rows.total(_risk, self.W.T.astype(np.float32))

    def restart(self) -> None:
        """Go on from the present weights without planes: what the blocks kept of the solver is lost."""
        self.bundle = Bundle(self.m, self.bundle.n_groups, self.bundle.n_slots, self.rows.n_features)
        self.rows.parts(add_arrays, self.row_arrays())
        (self.risk,) = self.rows.total(_risk, self.W.T.astype(np.float32))
        self._shared = set()

    def prepare(self) -> None:
        """Begin what a solve of these rows would have to wait for, in a thread of the team."""

    # Rows that change. Blocks count them in and out with a `snapshot`; `count` takes what they sum up to.

    def snapshot(self) -> Snapshot:
        return Snapshot(self.W.T.astype(np.float32), self.bundle.n_slots)

    def count(self, sums: list[Array] | None, sign: int = 1) -> None:
        """Add what rows that entered sum up to, by group (``sign=-1``: take out those that left)."""
        if sums is None:
            return
        risk, a, g = sums
        self.bundle.add(sign * a, sign * g)
        self.lose(-sign * risk.sum(axis=0))

    def lose(self, risk: Array) -> None:
        """Take out the risk of rows whose planes are taken care of."""
        self.risk = np.maximum(self.risk - risk, 0)
        self.known_lower[:] = 0

    def start_from(self, other: Machines, bits: Array | None = None) -> None:
        """Take over the weights (of ``bits``) of other machines; planes are cut anew."""
        self.W = other.W.copy() if bits is None else other.W[bits]
        (self.risk,) = self.rows.total(_risk, self.W.T.astype(np.float32))
        zero = np.full(self.m, float(len(self.rows)))  # F(0) = C n may be the better start (paper, appendix)
        lost = self.upper() > self.C * zero
        self.W[lost], self.risk[lost] = 0, zero[lost]

    # The certificate.

    def upper(self) -> Array:
        return 0.5 * np.einsum("jd,jd->j", self.W, self.W) + self.C * self.risk

    def lower(self, bits: Array | None = None, restart: bool = False) -> Array:
        """Lower bounds by the kept planes, for ``bits`` (default: all); ``restart`` as in `Bundle.bound`."""
        bits = np.arange(self.m) if bits is None else bits
        return np.maximum(self.bundle.bound(self.C, bits, restart), self.known_lower[bits])

    def closed(self, upper: Array, lower: Array, tol: float) -> Array:
        """Which gaps are small enough."""
        return upper - lower <= np.maximum(tol * upper, NEGLIGIBLE * self.C * len(self.rows))


def _risk(block: Block, W: Array) -> tuple[Array]:
    return (hinge(block["Y"] * (block["Phi"] @ W)),)


class Log:
    """Collects the history of one solve."""

    def __init__(self) -> None:
        self.history = History()
        self._start = time.perf_counter()

    def step(self, upper: Array, lower: Array) -> None:
        self.history.upper.append(upper.copy())
        self.history.lower.append(lower.copy())
        self.history.seconds.append(time.perf_counter() - self._start)
