"""What the smoothed solver keeps between solves: scores, band, curvature, and the shared Hessian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sihash import memory
from sihash._typing import Array
from sihash.svm import shared_hessian
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.counting import Snapshot, Sums, hinge
from sihash.svm.machines import Machines
from sihash.svm.shared_hessian import SharedHessian, strongest_directions
from sihash.threads import start

N_SLOTS = 3  # planes kept a group: the last three gradients ...
ASCENDED = N_SLOTS  # ... and one slot for the best dual point near the last of them
MEMORY = 6  # curvature pairs kept a bit
WIDEST_BAND = 0.5

_KEPT = ("width", "latest", "fresh", "scale", "pairs_s", "pairs_y", "rho")  # one entry a bit each


class SmoothMachines(Machines):
    """Kept between solves besides the planes: scores of every row, band, curvature pairs, Hessian."""

    def __init__(self, rows: RowBlocks, C: float) -> None:
        super().__init__(rows, C, N_SLOTS + 1)
        d = rows.n_features
        self.width = np.full(self.m, WIDEST_BAND)
        self.latest = np.zeros(self.m, dtype=np.intp)  # the slot whose plane is the gradient at W ...
        self.fresh = np.zeros(self.m, dtype=bool)  # ... if it and the scores S are those of W
        self.scale = np.ones(self.m)
        self.pairs_s = np.zeros((self.m, MEMORY, d))
        self.pairs_y = np.zeros((self.m, MEMORY, d))
        self.rho = np.zeros((self.m, MEMORY))  # 1 / s·y; 0 where there is no pair
        self.clock = 0
        self._hessian: SharedHessian | None = None
        self._directions: Array | None = None
        self._following: Callable[[], SharedHessian] | None = None  # waits for one that is on its way

    def copy(self) -> SmoothMachines:
        twin = super().copy()
        for name in _KEPT:
            setattr(twin, name, memory.copy(getattr(self, name)))
        return twin

    def state(self) -> dict[str, Array]:
        kept = {name: getattr(self, name) for name in _KEPT}
        return {**super().state(), **kept, "clock": np.array([self.clock]), "factor": self.hessian.factor}

    def set_state(self, state: dict[str, Array]) -> None:
        super().set_state(state)
        for name in _KEPT:
            setattr(self, name, state[name].copy())
        self.clock, self._hessian = int(state["clock"][0]), SharedHessian(state["factor"])
        self._directions = None
        self.rows.map(rescore, np.arange(self.m), self.W.T.astype(np.float32))

    def restart(self) -> None:
        super().restart()
        self.fresh[:] = False
        self.rows.map(rescore, np.arange(self.m), self.W.T.astype(np.float32))

    def row_arrays(self) -> dict[str, type]:
        return {"S": np.float32, **super().row_arrays()}

    def snapshot(self) -> SmoothSnapshot:
        return SmoothSnapshot(self.W.T.astype(np.float32), self.bundle.n_slots, self.width)

    def start_from(self, other: Machines, bits: Array | None = None) -> None:
        super().start_from(other, bits)
        self.rows.map(rescore, np.arange(self.m), self.W.T.astype(np.float32))

    @property
    def hessian(self) -> SharedHessian:
        """The shared Hessian: made once, kept for later solves."""
        if self._hessian is None:
            self._take_hessian(shared_hessian.of_all_rows(self.rows, self.C))
        assert self._hessian is not None
        return self._hessian

    def prepare(self) -> None:
        """Let the shared Hessian follow the rows, if groups of them came or went, until `settle` asks."""
        if self._following is None and self._hessian is not None:
            self._following = start(partial(self._hessian.following, self.rows, self.C))

    def settle(self) -> None:
        """Take over what `prepare` began, for the rows as they are now."""
        if self._following is not None:
            followed, self._following = self._following().following(self.rows, self.C), None
            if followed is not self._hessian:
                self._take_hessian(followed, self._directions)  # strong is still what was strong before

    def refine_hessian(self, bits: Array) -> None:
        """Take the shared Hessian from the bands of ``bits``, where that may be a better one."""
        refined = shared_hessian.of_bands(self.rows, self.C, self.width[bits])
        if refined is not None:
            self._take_hessian(refined)

    def _take_hessian(self, hessian: SharedHessian, directions: Array | None = None) -> None:
        self._hessian, self._directions = hessian, directions
        self.rho[:], self.scale[:] = 0, 1  # measured against another matrix

    def directions(self) -> Array:
        """The strongest directions of the features, made and kept with the shared Hessian."""
        if self._directions is None:
            self._directions = strongest_directions(self.hessian.factor)
        return self._directions


@dataclass(frozen=True)
class SmoothSnapshot(Snapshot):
    """With the band, and the scores that the blocks keep."""

    width: Array

    def scores(self, block: Block, rows: slice | Array = slice(None)) -> Array:
        return block["S"][rows]

    def shares(self, margins: Array) -> Array:
        return np.clip(0.5 + (1 - margins) / self.width, 0, 1).astype(np.float32)

    def enter(self, block: Block, rows: slice | Array) -> Sums | None:
        block["S"][rows] = block["Phi"][rows] @ self.W
        return super().enter(block, rows)


def rescore(block: Block, bits: Array, W: Array) -> tuple[Array]:
    """Scores of the rows by ``W`` (d × bits), kept; returns the hinge risks."""
    scores = block["Phi"] @ W
    block["S"][:, bits] = scores
    return (hinge(block["Y"][:, bits] * scores),)
