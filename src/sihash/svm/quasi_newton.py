"""The steps of the smoothed solver: L-BFGS around the Hessian that all bits share, or a bit's own one."""

from __future__ import annotations

import numpy as np

from sihash._typing import Array
from sihash.svm import lbfgs
from sihash.svm.band import BandHessian
from sihash.svm.smooth_machines import SmoothMachines
from sihash.threads import map_threads


class QuasiNewton:
    """Steps of bits for the length of a solve; the curvature pairs are the machines', and stay there."""

    def __init__(self, machines: SmoothMachines) -> None:
        self.M = machines
        self.own: dict[int, BandHessian] = {}

    def direction(self, bits: Array, gradient: Array) -> Array:
        """L-BFGS, all these bits at once; a pair with ``rho = 0`` drops out by itself."""
        M = self.M
        M.settle()
        q, pairs = gradient.copy(), (M.pairs_s, M.pairs_y, M.rho, bits)
        alpha = lbfgs.before_hessian(q, *pairs)
        h = M.scale[bits, None] * self._solve_hessian(bits, q)
        lbfgs.behind_hessian(h, alpha, *pairs)
        uphill = np.einsum("jd,jd->j", h, gradient) <= 0
        if uphill.any():
            # Pairs or a band's Hessian spoilt by rounding: the shared Hessian always leads downhill.
            for j in bits[uphill].tolist():
                self.own.pop(j, None)
            M.rho[bits[uphill]], M.scale[bits[uphill]] = 0, 1
            h[uphill] = M.hessian.solve(gradient[uphill])
        return -h

    def remember(self, bits: Array, s: Array, y: Array) -> None:
        """Moves ``s`` of the weights of ``bits`` changed their gradients by ``y``."""
        M = self.M
        curvature = np.einsum("jd,jd->j", s, y)
        norms = np.einsum("jd,jd->j", s, s) * np.einsum("jd,jd->j", y, y)
        good = curvature > 1e-8 * np.sqrt(norms)
        s, y, bits, curvature = s[good], y[good], bits[good], curvature[good]
        lbfgs.remember(M.pairs_s, M.pairs_y, M.rho, bits, s, y, curvature)
        along = self._hessian_norms(bits, y)
        M.scale[bits] = np.where(along > 0, curvature / np.maximum(along, 1e-300), 1.0)

    def take_own_hessians(self, bits: Array) -> None:
        """Where the margins ``Z`` in the blocks' scratch, one column for each of these bits, are now."""
        M = self.M

        def take(k: int) -> BandHessian:
            return BandHessian.at(M.rows, k, float(M.width[bits[k]]), M.C)

        self.own.update(zip(bits.tolist(), map_threads(take, range(len(bits))), strict=True))
        M.rho[bits], M.scale[bits] = 0, 1  # pairs measured against another matrix do not fit this one

    def _solve_hessian(self, bits: Array, Q: Array) -> Array:
        """Apply each bit's inverse Hessian, its own or the shared one, to its row of ``Q``."""
        shared = np.array([j not in self.own for j in bits.tolist()], dtype=bool)
        out = np.empty_like(Q)
        if shared.any():
            out[shared] = self.M.hessian.solve(Q[shared])

        def own(k: int) -> None:
            out[k] = self.own[int(bits[k])].solve(Q[k])

        map_threads(own, np.flatnonzero(~shared).tolist())
        return out

    def _hessian_norms(self, bits: Array, Q: Array) -> Array:
        """``q · H⁻¹ q`` for the rows of ``Q``."""
        if self.own:
            return np.einsum("jd,jd->j", Q, self._solve_hessian(bits, Q))
        return self.M.hessian.norms(Q)
