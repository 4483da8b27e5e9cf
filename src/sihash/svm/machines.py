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
from sihash.svm.bundle import Bundle, share_names

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
    restart_qp = True

    def __init__(self, rows: RowBlocks, C: float, n_slots: int) -> None:
        self.rows, self.C = rows, C
        self._shared = False  # whether a twin may still be reading the arrays that a solve writes
        self.m = rows.blocks[0].arrays["Y"].shape[1]
        self.W = np.zeros((self.m, rows.n_features))
        self.risk = np.full(self.m, float(len(rows)))
        self.known_lower = np.zeros(self.m)  # the best bounds of the last solve; void when rows change
        self.bundle = Bundle(self.m, rows.n_groups, n_slots, rows.n_features)
        for block in rows:
            self.furnish(block)

    def copy(self) -> Self:
        """A twin that can change and be thrown away; rows are shared until they are written."""
        twin = self.__class__.__new__(self.__class__)
        twin.__dict__.update(self.__dict__)
        twin.rows, twin.bundle = self.rows.copy(), self.bundle.copy()
        twin.W, twin.risk = self.W.copy(), self.risk.copy()
        twin.known_lower = self.known_lower.copy()
        twin._shared = True
        return twin

    def furnish(self, block: Block) -> None:
        """Give a block the arrays that this solver keeps for every row."""
        shape = block.arrays["Y"].shape
        for slot in range(self.bundle.n_slots):
            block.arrays[f"pi{slot}"] = np.zeros(shape, dtype=self.share_dtype)

    def own_arrays(self) -> None:
        """Copy what a solve writes to, once, so that the twin this one was copied from does not see it."""
        if not self._shared:
            return
        self._shared = False
        for block in self.rows:
            for name in self.written_names():
                block.arrays[name] = block.arrays[name].copy()

    def written_names(self) -> list[str]:
        return share_names(self.rows)

    def state(self) -> dict[str, Array]:
        """All that cannot be had again from the rows, for a file."""
        shares = {name: self.rows.column(name) for name in share_names(self.rows)}
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
        start = 0
        for block in self.rows:
            for slot in range(n_slots):
                block.arrays[f"pi{slot}"] = state[f"pi{slot}"][start : start + block.n].copy()
            start += block.n
        (self.risk,) = self.rows.total(_risk, self.W.T.astype(np.float32))

    # Rows that change. `enter` counts rows in that were just written to a block; `leave` counts rows out
    # before they are dropped or before their signs change.

    def enter(self, block: Block, rows: slice | Array) -> None:
        margins = self._margins(block, rows)
        self.risk += np.maximum(1 - margins, 0).sum(axis=0, dtype=np.float64)
        shares = self.shares(margins)
        for slot in range(self.bundle.n_slots):
            block[f"pi{slot}"][rows] = shares
        self.bundle.grow(block.group + 1)
        self.bundle.add_rows(block, rows)
        self.known_lower[:] = 0

    def leave(self, block: Block, rows: slice | Array) -> None:
        margins = self._margins(block, rows)
        self.risk = np.maximum(self.risk - np.maximum(1 - margins, 0).sum(axis=0, dtype=np.float64), 0)
        self.bundle.add_rows(block, rows, sign=-1)
        self.known_lower[:] = 0

    def shares(self, margins: Array) -> Array:
        """Shares that make a plane touch the risk at these margins: 1 for every violated one."""
        return (margins < 1).astype(self.share_dtype)

    def _margins(self, block: Block, rows: slice | Array) -> Array:
        return block["Y"][rows] * (block["Phi"][rows] @ self.W.T.astype(np.float32))

    def start_from(self, other: Machines, bits: Array | None = None) -> None:
        """Take over the weights (of ``bits``) of other machines; planes are cut anew."""
        self.W = other.W.copy() if bits is None else other.W[bits]
        (self.risk,) = self.rows.total(_risk, self.W.T.astype(np.float32))
        zero = np.full(self.m, float(len(self.rows)))  # F(0) = C n may be the better start (paper, appendix)
        lost = self.upper() > self.C * zero
        self.W[lost], self.risk[lost] = 0, zero[lost]

    def scores(self, block: Block) -> Array:
        """Scores of a block's rows by the present weights, rows × m."""
        return block["Phi"] @ self.W.T.astype(np.float32)

    # The certificate.

    def upper(self) -> Array:
        return 0.5 * np.einsum("jd,jd->j", self.W, self.W) + self.C * self.risk

    def lower(self, bits: Array | None = None) -> Array:
        """Lower bounds by the kept planes, for ``bits`` (default: all)."""
        bits = np.arange(self.m) if bits is None else bits
        return np.maximum(self.bundle.bound(self.C, bits, self.restart_qp), self.known_lower[bits])

    def closed(self, upper: Array, lower: Array, tol: float) -> Array:
        """Which gaps are small enough."""
        return upper - lower <= np.maximum(tol * upper, NEGLIGIBLE * self.C * len(self.rows))


def _risk(block: Block, W: Array) -> tuple[Array]:
    return (np.maximum(1 - block["Y"] * (block["Phi"] @ W), 0).sum(axis=0, dtype=np.float64),)


class Log:
    """Collects the history of one solve."""

    def __init__(self) -> None:
        self.history = History()
        self._start = time.perf_counter()

    def step(self, upper: Array, lower: Array) -> None:
        self.history.upper.append(upper.copy())
        self.history.lower.append(lower.copy())
        self.history.seconds.append(time.perf_counter() - self._start)
