"""Cutting planes that stay valid as samples come, go and change sign.

For shares ``π_i ∈ [0, 1]`` the plane ``Σ_i π_i (1 − y_i w·φ_i) = a − w·g`` with ``a = Σ π_i`` and ``g = Σ
π_i y_i φ_i`` lies below the hinge risk ``Σ_i max(0, 1 − y_i w·φ_i)`` for every ``w``, whatever the shares.
So a plane needs no repair when the weights move, and when rows change only their own shares have to be
taken out of ``a`` and ``g`` and put back in.
"""

from __future__ import annotations

import copy

import numpy as np

from sihash._typing import Array
from sihash.svm import qp
from sihash.svm.settings import DEFAULTS, SolverSettings
from sihash.threads import map_threads


class Bundle:
    """``n_slots`` planes for each of m bits.

    ``g`` has shape (m, n_slots, d), ``a`` (m, n_slots). The shares of slot ``s`` lie with the rows, in the
    block array ``pi<s>`` (rows × m). An empty slot is the plane 0, valid like any other. ``b`` is the dual
    weight of each plane after the last `bound`.
    """

    def __init__(self, m: int, n_slots: int, d: int, settings: SolverSettings = DEFAULTS) -> None:
        self.settings = settings
        self.g = np.zeros((m, n_slots, d))
        self.a = np.zeros((m, n_slots))
        self.b = np.zeros((m, n_slots))
        self.newest = np.zeros(m, dtype=np.intp)  # the slot that each bit put last
        self._K = np.zeros((m, n_slots, n_slots))  # Gram matrices of the planes ...
        self._is_known = np.zeros(m, dtype=bool)  # ... of the bits that were asked for since they changed

    @property
    def n_slots(self) -> int:
        return self.a.shape[1]

    def copy(self) -> Bundle:
        draft = copy.copy(self)
        draft.__dict__.update({k: v.copy() for k, v in vars(self).items() if isinstance(v, np.ndarray)})
        return draft

    def grown(self, n_slots: int) -> Bundle:
        """The same planes, with room for more."""
        m, old, d = self.g.shape
        bundle = Bundle(m, n_slots, d, self.settings)
        bundle.g[:, :old], bundle.a[:, :old], bundle.b[:, :old] = self.g, self.a, self.b
        bundle.newest = self.newest.copy()
        return bundle

    def with_columns(self, kept: Array, at: int, n_new: int) -> Bundle:
        """The planes in the features ``kept``, and ``n_new`` more before number ``at``, whose ``g`` is 0."""
        bundle = copy.copy(self)
        nothing = np.zeros((*self.a.shape, n_new))
        bundle.g = np.concatenate([self.g[:, :, kept[:at]], nothing, self.g[:, :, kept[at:]]], axis=2)
        bundle.a, bundle.b, bundle.newest = self.a.copy(), self.b.copy(), self.newest.copy()
        bundle._K, bundle._is_known = np.zeros_like(self._K), np.zeros_like(self._is_known)
        return bundle

    def is_cut(self) -> Array:
        """Which slots (m × n_slots) hold a plane; one that no row is violated for is as good as none."""
        return self.a > 0

    def free_slot(self, bits: Array) -> int | None:
        """A slot that none of these bits leans on: a plane without dual weight may leave the model."""
        idle = np.all(self.b[bits] <= self.settings.idle, axis=0)
        idle[self.newest[bits]] = False
        return int(np.flatnonzero(idle)[0]) if idle.any() else None

    def put(self, bits: Array, slot: int, g: Array, a: Array) -> None:
        """Replace the planes of ``slot`` for ``bits`` by ``Σ π y φ`` (bits × d) and ``Σ π``."""
        self.g[bits, slot], self.a[bits, slot], self.newest[bits] = g, a, slot
        for j in bits[self._is_known[bits]]:
            self._K[j, slot] = self._K[j, :, slot] = self.g[j] @ self.g[j, slot]

    def bound(self, C: float, bits: Array) -> Array:
        """Lower bounds of ``min ½‖w‖² + C · risk`` for ``bits``: the minimum of the plane model.

        Its dual is ``max_b C a·b − ½ ‖C Σ b g‖²`` over weights that sum to at most 1.
        """

        def solve(j: int) -> float:
            if not self._is_known[j]:
                self._K[j], self._is_known[j] = self.g[j] @ self.g[j].T, True
            return qp.maximise(
                C * C * self._K[j], C * self.a[j], self.b[j], self.settings.qp_moves * self.n_slots
            )

        return np.array(map_threads(solve, bits))

    def minimiser(self, C: float, bits: Array) -> Array:
        """Where the plane model is least, by the weights of the last `bound`: ``w = C Σ b g``, (bits, d)."""
        return C * np.einsum("js,jsd->jd", self.b[bits], self.g[bits])

    def add(self, a: Array, g: Array) -> None:
        """Add to the planes what rows that came (or, negative, went) sum up to: (slots or 1, m), × d."""
        self.a += a.T
        self.g += g.swapaxes(0, 1)
        self._is_known[:] = False
