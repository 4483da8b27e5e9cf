"""Cutting planes that stay valid as samples come, go and change sign.

For shares ``π_i ∈ [0, 1]`` the plane ``Σ_i π_i (1 − y_i w·φ_i) = a − w·g`` with ``a = Σ π_i`` and ``g = Σ
π_i y_i φ_i`` lies below the hinge risk ``Σ_i max(0, 1 − y_i w·φ_i)`` for every ``w``, whatever the shares.
So a plane needs no repair when the weights move, and when rows change only their own shares have to be
taken out of ``a`` and ``g`` and put back in. The risk is a sum over groups of rows, and each group has
planes of its own: a group that goes takes its planes along and leaves the others exact.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sihash import memory
from sihash._typing import Array
from sihash.svm import qp
from sihash.threads import map_threads

QP_MOVES_PER_PLANE = 4


class Bundle:
    """``n_slots`` planes for each of m bits and each group of rows.

    ``g`` has shape (m, n_groups, n_slots, d), ``a`` (m, n_groups, n_slots). The shares of slot ``s`` lie
    with the rows, in the block array ``pi<s>`` (rows × m). An empty slot is the plane 0, valid like any
    other. ``b`` is the dual weight of each plane after the last `bound`.
    """

    def __init__(self, m: int, n_groups: int, n_slots: int, d: int) -> None:
        self.g = memory.zeros((m, n_groups, n_slots, d), np.float64)
        self.a = np.zeros((m, n_groups, n_slots))
        self.b = np.zeros((m, n_groups, n_slots))
        self.newest = np.zeros(m, dtype=np.intp)  # the slot that each bit put last
        self._K = np.zeros((m, n_groups * n_slots, n_groups * n_slots))  # Gram matrices of the planes ...
        self._is_known = np.zeros(m, dtype=bool)  # ... of the bits that were asked for since they changed

    @property
    def n_slots(self) -> int:
        return self.a.shape[2]

    @property
    def n_groups(self) -> int:
        return self.a.shape[1]

    def copy(self) -> Bundle:
        twin = Bundle.__new__(Bundle)
        twin.g, twin.a, twin.b = memory.copy(self.g), self.a.copy(), self.b.copy()
        twin.newest = self.newest.copy()
        twin._K, twin._is_known = self._K.copy(), self._is_known.copy()
        return twin

    def put(self, bits: Array, slot: int, g: Array, a: Array) -> None:
        """Replace the planes of ``slot`` for ``bits`` by ``Σ π y φ`` (groups × bits × d) and ``Σ π``."""
        which = bits if len(bits) < len(self.g) else slice(None)
        self.g[which, :, slot], self.a[which, :, slot] = g.swapaxes(0, 1), a.swapaxes(0, 1)
        self.touch(bits, slot)

    def take(self, bits: Array, g: Array, a: Array, b: Array, newest: Array) -> None:
        """Replace all planes of ``bits``, and their dual weights."""
        self.g[bits], self.a[bits], self.b[bits], self.newest[bits] = g, a, b, newest
        self._is_known[bits] = False

    def touch(self, bits: Array, slot: int) -> None:
        """The planes of ``slot`` were changed: they are the newest now; what depends on them is renewed."""
        self.newest[bits] = slot
        _, n_groups, n_slots, d = self.g.shape
        K, own = self._K, np.arange(n_groups) * n_slots + slot
        for j in bits[self._is_known[bits]]:
            rows = self.g[j, :, slot] @ self.g[j].reshape(-1, d).T
            K[j][own] = rows
            K[j][:, own] = rows.T

    def shift(self, bits: Array, sources: Array, target: int, g: Array, a: Array) -> None:
        """Planes of ``sources``, one a bit, with what was added, ``g`` (groups × bits × d), to ``target``."""
        for k, (j, source) in enumerate(zip(bits, sources, strict=True)):  # whole, they would be copied
            np.add(self.g[j, :, source], g[:, k], out=self.g[j, :, target])
        self.a[bits, :, target] = self.a[bits, :, sources] + a.T
        self.touch(bits, target)

    def point(self, C: float, bits: Array, slots: Array) -> tuple[Array, Array]:
        """The dual point of the planes in ``slots``, one a bit: ``u = C Σ g`` (bits × d), and its bound."""
        u = np.empty((len(bits), self.g.shape[3]))
        for k, (j, slot) in enumerate(zip(bits, slots, strict=True)):
            np.sum(self.g[j, :, slot], axis=0, out=u[k])
        u *= C
        return u, C * self.a[bits, :, slots].sum(axis=1) - 0.5 * np.einsum("jd,jd->j", u, u)

    def bound(self, C: float, bits: Array, restart: bool) -> Array:
        """Lower bounds of ``min ½‖w‖² + C · risk`` for ``bits``: the minimum of the plane model.

        Its dual is ``max_b C a·b − ½ ‖C Σ b g‖²`` with the weights of a group summing to at most 1. With
        ``restart`` it is solved from the newest planes alone as well as from the weights of before, and the
        better end counts: planes that each replace an older one leave those weights stale.
        """
        m, n_groups, n_slots, d = self.g.shape
        if not self.a[bits].any():
            return np.zeros(len(bits))  # no plane yet: the risk is at least 0
        K, flat = self._K, self.g.reshape(m, n_groups * n_slots, d)
        group = np.repeat(np.arange(n_groups), n_slots)
        moves = QP_MOVES_PER_PLANE * n_groups * n_slots

        def solve(j: int) -> float:
            if not self._is_known[j]:
                K[j], self._is_known[j] = flat[j] @ flat[j].T, True
            H, c = C * C * K[j], C * self.a[j].reshape(-1)
            starts = [self.b[j].reshape(-1)]
            if restart:
                newest = np.zeros((n_groups, n_slots))
                newest[:, self.newest[j]] = 1
                starts.append(newest.reshape(-1))
            values = [qp.maximise(H, c, group, b, moves) for b in starts]
            best = int(np.argmax(values))
            self.b[j] = starts[best].reshape(n_groups, n_slots)
            return values[best]

        return np.array(map_threads(solve, bits))

    def minimiser(self, C: float) -> Array:
        """Where the plane model is least, by the weights of the last `bound`: ``w = C Σ b g``, (m, d)."""
        return C * np.einsum("jgs,jgsd->jd", self.b, self.g)

    def add(self, a: Array, g: Array) -> None:
        """Add to the planes of every group what rows that came (or, negative, went) sum up to.

        ``a`` has shape (n_groups, n_slots or 1, m), ``g`` one more axis of d.
        """
        self.a += a.transpose(2, 0, 1)
        self.g += g.transpose(2, 0, 1, 3)
        self._is_known[:] = False

    def empty_groups(self, groups: Iterable[int]) -> None:
        """Drop the planes of groups that have no rows left: exactly 0, free of rounding."""
        for group in groups:
            self.g[:, group], self.a[:, group], self.b[:, group] = 0, 0, 0
        self._is_known[:] = False

    def grow(self, n_groups: int) -> None:
        """Room for more groups, their planes empty."""
        more = n_groups - self.n_groups
        if more > 0:
            m, _, n_slots, d = self.g.shape
            self.g = np.concatenate([self.g, np.zeros((m, more, n_slots, d))], axis=1)
            self.a = np.concatenate([self.a, np.zeros((m, more, n_slots))], axis=1)
            self.b = np.concatenate([self.b, np.zeros((m, more, n_slots))], axis=1)
            self._K = np.zeros((m, n_groups * n_slots, n_groups * n_slots))
            self._is_known[:] = False
