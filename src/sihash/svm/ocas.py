"""The binary SVMs by OCAS, the cutting plane algorithm of Franc and Sonnenburg, in step for all bits.

Each step minimises the plane model (a small QP a bit), searches the line from the best point so far to that
minimum exactly, and cuts a new plane near the point found. Two products with Φ serve all bits: the scores
of the model's minimum, and the planes. We differ from libocas in that every bit advances at once over one
pass of Φ, planes that lost their dual weight give up their slot, and the planes outlive the solve: see
`sihash.svm.bundle`.
"""

from __future__ import annotations

import warnings

import numba
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sihash._typing import Array
from sihash.svm import linesearch
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.bundle import Bundle
from sihash.svm.counting import add_arrays, hinge
from sihash.svm.machines import Log, Machines, Solution

CUT_SHARE = (
    0.1  # the new plane is cut this far from the best point towards the model's minimum (libocas: 0.1)
)
FIRST_SLOTS = 32
IDLE = 1e-9  # a plane with less dual weight than this has none


class OcasMachines(Machines):
    """Kept between solves: the best weights, and the planes that carry dual weight."""

    share_dtype = np.uint8  # the shares of a plane are 0 or 1

    def __init__(self, rows: RowBlocks, C: float) -> None:
        super().__init__(rows, C, FIRST_SLOTS)

    def free_slot(self, bits: Array) -> int:
        """A slot that no open bit leans on; the bundle grows if there is none."""
        idle: Array = np.all(self.bundle.b[bits] <= IDLE, axis=(0, 1))
        idle[self.bundle.newest[bits]] = False
        if not idle.any():
            self._add_slots(self.bundle.n_slots)
            return self.bundle.n_slots // 2
        return int(np.flatnonzero(idle)[0])

    def _add_slots(self, more: int) -> None:
        old = self.bundle
        m, n_groups, n_slots, d = old.g.shape
        self.bundle = Bundle(m, n_groups, n_slots + more, d)
        self.bundle.g[:, :, :n_slots], self.bundle.a[:, :, :n_slots] = old.g, old.a
        self.bundle.b[:, :, :n_slots], self.bundle.newest = old.b, old.newest
        new = {f"pi{slot}": self.share_dtype for slot in range(n_slots, n_slots + more)}
        self.rows.parts(add_arrays, new)


def solve(machines: OcasMachines, tol: float, max_steps: int = 2000) -> Solution:
    """Bring every bit to a certified relative gap of ``tol``, from wherever ``machines`` stands."""
    M, rows, log = machines, machines.rows, Log()
    upper, lower = M.upper(), M.lower()
    converged = M.closed(upper, lower, tol)
    n_steps = np.zeros(M.m, dtype=np.intp)
    log.step(upper, lower)
    bits = np.flatnonzero(~converged)
    taken = 0
    if len(bits):
        M.own_arrays()
        rows.map(_lay_out, bits, M.W[bits].T.astype(np.float32))
        if not M.bundle.a[bits].any():  # a cold start: the first plane is cut at W itself
            _cut(M, bits, np.zeros(len(bits)))
            lower[bits] = M.lower(bits)
    while len(bits) and taken < max_steps:
        # 1. The line from the best point so far to the minimum of the model.
        direction = M.bundle.minimiser(M.C)[bits] - M.W[bits]
        rows.map(linesearch.rates, np.ascontiguousarray(direction.T, dtype=np.float32))
        w_dot_d, d_dot_d = (np.einsum("jd,jd->j", each, direction) for each in (M.W[bits], direction))
        t = linesearch.search(rows, w_dot_d, d_dot_d, M.C)
        # 2. The best point moves; it never gets worse.
        risk = rows.total(_risks, t.astype(np.float32))[0]
        better = 0.5 * np.sum((M.W[bits] + t[:, None] * direction) ** 2, axis=1) + M.C * risk < upper[bits]
        # Where the search found nothing better, the plane is cut at the point it tried: there the model
        # lies below the best value and the risk does not, so the plane is new, and no bit cuts the same one
        # for ever.
        t, tried = np.where(better, t, 0.0), np.clip(t, CUT_SHARE, 1)
        M.W[bits] += t[:, None] * direction
        M.risk[bits] = np.where(better, risk, M.risk[bits])
        rows.map(_advance, t.astype(np.float32))
        # 3. A new plane a little further on, where the model is too low.
        _cut(M, bits, np.where(better, CUT_SHARE * np.maximum(1 - t, 0), tried))
        upper[bits] = M.upper()[bits]
        lower[bits] = np.maximum(lower[bits], M.lower(bits))
        converged = M.closed(upper, lower, tol)
        n_steps[bits] += 1
        taken += 1
        log.step(upper, lower)
        if converged[bits].any():
            bits = bits[~converged[bits]]
            rows.map(_lay_out, bits, M.W[bits].T.astype(np.float32))
    rows.map(linesearch.clear)
    if len(bits):
        warnings.warn(
            f"{len(bits)} of {M.m} SVMs did not reach a gap of {tol:g} in {taken} steps; "
            "raise tol, or lower C.",
            ConvergenceWarning,
            stacklevel=3,
        )
    # At a closed gap rounding may lift the lower bound above the upper one.
    M.known_lower[:] = lower
    return Solution(M.W.copy(), upper, np.minimum(lower, upper), n_steps, converged, log.history, M)


def _cut(M: OcasMachines, bits: Array, t: Array) -> None:
    """Cut a plane at the margins ``z + t v`` of every open bit."""
    slot = M.free_slot(bits)
    sums = M.rows.by_group(M.bundle.n_groups, _cut_block, t.astype(np.float32), bits, f"pi{slot}")
    assert sums is not None
    M.bundle.put(bits, slot, *sums)


# What the blocks do. Scratch: Y, Z (margins at the best point), V (their rates along the line), R (y·π).


def _lay_out(block: Block, bits: Array, W: Array) -> None:
    if not len(bits):
        return
    Y = np.ascontiguousarray(block["Y"][:, bits])
    Z = (block["Phi"] @ W) * Y
    block.scratch = {"Y": Y, "Z": Z, "V": np.zeros_like(Z), "R": np.empty_like(Z)}


def _risks(block: Block, t: Array) -> tuple[Array]:
    return (hinge(block.scratch["Z"] + t * block.scratch["V"]),)


def _advance(block: Block, t: Array) -> None:
    """The best point moves by ``t``; rates of the rest of the line stay those of the whole line."""
    block.scratch["Z"] += t * block.scratch["V"]


def _cut_block(block: Block, t: Array, bits: Array, slot: str) -> tuple[Array, Array]:
    scratch = block.scratch
    a = _violations(scratch["Z"], scratch["V"], t, scratch["Y"], scratch["R"], block[slot], bits)
    return scratch["R"].T @ block["Phi"], a


@numba.njit(nogil=True, cache=True)
def _violations(Z: Array, V: Array, t: Array, Y: Array, R: Array, shares: Array, bits: Array) -> Array:
    n, m = Z.shape
    count = np.zeros(m)
    for i in range(n):
        for j in range(m):
            violated = Z[i, j] + t[j] * V[i, j] < 1
            R[i, j] = Y[i, j] if violated else 0
            shares[i, bits[j]] = violated
            count[j] += violated
    return count
