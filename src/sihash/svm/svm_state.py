"""Many binary SVMs over one set of rows, and what stays of them while the rows change.

Each bit ``j`` minimises ``F_j(w) = ½‖w‖² + C Σ_i max(0, 1 − y_ij w·φ_i)``. The state of both solvers is
weights and sums over rows. Rows that come, go or change sign are counted in and out of these sums, where
they lie and at the cost of these rows alone, so ``F_j`` at the weights is known again after any change.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from sihash._typing import Array
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.gram import Gram
from sihash.svm.settings import DEFAULTS, SolverSettings

Sums = tuple[Array, ...]


@dataclass(frozen=True)
class History:
    """Objective, predicted or proved gap, and the clock after every step, a row a step."""

    upper: list[Array] = field(default_factory=list)
    gap: list[Array] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    _start: float = field(default_factory=time.perf_counter)

    def step(self, upper: Array, gap: Array) -> None:
        self.upper.append(upper.copy())
        self.gap.append(gap.copy())
        self.seconds.append(time.perf_counter() - self._start)


@dataclass(frozen=True)
class Solution:
    """Weights, their objectives ``upper = F(W)``, and how far these may lie above the optimum.

    ``gap`` is the ratio that the tolerance of the solver limits: ``excess / scale``. ``lower`` are true lower
    bounds of ``min F``, a number a bit, where they were proved (by OCAS, or by `sihash.svm.certificate`);
    else None, and ``excess`` is what the smoothed solver expects.
    """

    W: Array
    upper: Array
    excess: Array
    scale: Array
    lower: Array | None
    n_steps: Array
    converged: Array
    history: History
    warm: SVMs

    @property
    def is_proved(self) -> bool:
        return self.lower is not None

    @property
    def gap(self) -> Array:
        """Gap of each bit as a share of its `SVMs.scale`: proved if `is_proved`, else an estimate."""
        return self.excess / self.scale


class SVMs:
    """The SVMs of m bits. ``rows`` holds ``Phi`` (float32) and ``Y`` (int8 ±1, rows × m) for every row."""

    def __init__(self, rows: RowBlocks, C: float, settings: SolverSettings = DEFAULTS) -> None:
        self.rows, self.C, self.settings = rows, C, settings
        self.m = rows.n_bits
        self.W = np.zeros((self.m, rows.n_features))
        self.risk = np.full(self.m, float(len(rows)))

    def copy(self) -> Self:
        """A draft that can change and be thrown away; rows are shared until they are written."""
        draft = self.__class__.__new__(self.__class__)
        draft.__dict__.update(self.__dict__)
        draft.rows, draft.W, draft.risk = self.rows.copy(), self.W.copy(), self.risk.copy()
        return draft

    def start_from(self, W: Array) -> None:
        """Begin at weights found elsewhere (m × d), or at 0 where that is better (paper, appendix)."""
        (self.risk,) = self.rows.total(hinge_risk, W.T.astype(np.float32))
        self.W = W.copy()
        lost = self.upper() > self.at_zero
        self.W[lost], self.risk[lost] = 0, len(self.rows)

    def with_columns(self, rows: RowBlocks, kept: Array, at: int, n_new: int) -> Self:
        """SVMs over ``rows`` whose features are the columns ``kept`` of those here, and new ones.

        ``n_new`` new columns come before that with the number ``at``; they start with weights of 0.
        """
        changed = self.__class__(rows, self.C, self.settings)
        changed.start_from(widened(self.W[:, kept], at, n_new))
        return changed

    @property
    def at_zero(self) -> float:
        """``F(0) = C n``."""
        return self.C * len(self.rows)

    def upper(self) -> Array:
        """``F`` at the weights, a number a bit."""
        return 0.5 * np.einsum("jd,jd->j", self.W, self.W) + self.C * self.risk

    def scale(self, tol: float, least: float = 0.0) -> Array:
        """What gaps are shares of, a number a bit: ``F``, but ``least · F(0)`` where that is more.

        An optimum may be next to nothing, and a gap of a millionth of ``F(0)`` never matters.
        """
        return np.maximum(self.upper(), max(least, self.settings.negligible / tol) * self.at_zero)

    def current_gram(self) -> Gram:
        """The Gram matrix of the rows as they are, near enough."""
        return Gram.of(self.rows, self.C, self.settings)

    # What a solver adds.

    def row_arrays(self) -> dict[str, type]:
        """The arrays that this solver keeps for every row (rows × m), and writes: their types by name."""
        return {}

    def state(self) -> dict[str, Array]:
        """All that cannot be had again from the rows, for a file."""
        return {"W": self.W}

    def set_state(self, state: dict[str, Array]) -> None:
        """Take over what `state` gave, for SVMs made over the same rows in the same blocks."""
        self.W = state["W"].copy()
        self.restart()

    def restart(self) -> None:
        """Go on from the weights alone: what the blocks kept of the solver is lost."""
        raise NotImplementedError

    def recount(self) -> None:
        """Rows have changed without being counted: what they sum up to is to be found again."""
        self.restart()

    def forget(self) -> None:
        """Begin at weights of 0."""
        self.W = np.zeros_like(self.W)
        self.recount()

    # Rows that change. Blocks count them in and out with a `counter`; `count` takes what they sum up to.

    def counter(self) -> RowCounter:
        raise NotImplementedError

    def count(self, sums: list[Array], sign: int = 1) -> None:
        """Add what rows that entered sum up to (``sign=-1``: take out those that left); none: nothing."""
        raise NotImplementedError

    def add_gram(self, product: tuple[Array, int] | None) -> None:
        """Take what `RowCounter.product` made of rows that came."""

    def before_sign_flip(self) -> None:
        """Rows are about to change sign: let a twin that shares their arrays keep its own."""


@dataclass(frozen=True)
class RowCounter:
    """What a block has to know to count rows in and out; it travels to wherever the block lies.

    ``W`` is (d, m) in float32. Sums are tuples of arrays, the hinge risk (m) first.
    """

    W: Array

    def scores(self, block: Block, rows: slice | Array = slice(None)) -> Array:
        """Scores of rows by the present weights, rows × m."""
        return block.features(rows) @ self.W

    def enter(self, block: Block, rows: slice | Array) -> Sums | None:
        """Count rows in that were just written to a block, or whose signs were."""
        raise NotImplementedError

    def leave(self, block: Block, rows: slice | Array) -> Sums | None:
        """Count rows out, before they are dropped or their signs change."""
        raise NotImplementedError

    def product(self, Phi: Array) -> tuple[Array, int] | None:
        """What new rows add beyond sums, if anything."""
        return None

    def flip_signs(self, block: Block, rows: Array, Y: Array) -> Sums | None:
        """Give rows the signs ``Y`` (rows × m); returns what this adds."""
        before = self.leave(block, rows)
        block.arrays["Y"] = block.arrays["Y"].copy()  # an earlier view of the block keeps its own
        block["Y"][rows] = Y
        after = self.enter(block, rows)
        if before is None or after is None:
            return None
        return tuple(new - old for new, old in zip(after, before, strict=True))


def widened(W: Array, at: int, n_new: int) -> Array:
    """Weights with ``n_new`` columns of zeros before column ``at``."""
    return np.concatenate([W[:, :at], np.zeros((len(W), n_new)), W[:, at:]], axis=1)


def hinge_risk(block: Block, W: Array) -> Sums:
    return (hinge(block["Y"] * (block["Phi"] @ W)),)


def hinge(margins: Array) -> Array:
    """The hinge risk of rows by their margins (rows × m), a number a bit."""
    return np.maximum(1 - margins, 0).sum(axis=0, dtype=np.float64)


def add_arrays(rows: RowBlocks, dtypes: dict[str, Any]) -> None:
    """Give blocks arrays of zeros, rows × m, as long as their others."""
    for block in rows.blocks:
        for name, dtype in dtypes.items():
            block.arrays[name] = np.zeros(block.arrays["Y"].shape, dtype)


def own_arrays(rows: RowBlocks, names: list[str]) -> None:
    """Copies of arrays that are about to be written, so that an earlier view of the rows keeps its own."""
    for block in rows.blocks:
        for name in names:
            block.arrays[name] = block.arrays[name].copy()
