"""The binary SVMs by OCAS, the cutting plane algorithm of Franc and Sonnenburg, in step for all bits.

Each step minimises the plane model (a small QP a bit), searches the line from the best point so far to that
minimum exactly, and cuts a new plane near the point found. Two products with Φ serve all bits: the scores
of the model's minimum, and the planes. We differ from libocas in that every bit advances at once over one
pass of Φ, planes that lost their dual weight give up their slot, and the planes outlive the solve: see
`sihash.svm.bundle`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.svm import linesearch
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.bundle import Bundle
from sihash.svm.settings import DEFAULTS, SolverSettings
from sihash.svm.svm_state import (
    History,
    RowCounter,
    Solution,
    Sums,
    SVMs,
    add_arrays,
    hinge,
    hinge_risk,
    own_arrays,
    widened,
)


class OcasSVMs(SVMs):
    """Kept between solves: the best weights, and the planes that carry dual weight."""

    def __init__(self, rows: RowBlocks, C: float, settings: SolverSettings = DEFAULTS) -> None:
        super().__init__(rows, C, settings)
        self.bundle = Bundle(self.m, settings.first_slots, rows.n_features, settings)
        self.known_lower = np.zeros(self.m)  # the best bounds of the last solve; void when rows change
        self._is_shared = False  # whether a draft may still be reading the shares
        rows.parts(add_arrays, self.row_arrays())

    def copy(self) -> OcasSVMs:
        draft = super().copy()
        draft.bundle, draft.known_lower = self.bundle.copy(), self.known_lower.copy()
        draft._is_shared = True
        return draft

    def row_arrays(self) -> dict[str, type]:
        """The shares of a plane are 0 or 1."""
        return {f"pi{slot}": np.uint8 for slot in range(self.bundle.n_slots)}

    def before_sign_flip(self) -> None:
        if self._is_shared:
            self.rows.parts(own_arrays, list(self.row_arrays()))
            self._is_shared = False

    def state(self) -> dict[str, Array]:
        bundle = self.bundle
        shares = {name: self.rows.column(name) for name in self.row_arrays()}
        planes = {"g": bundle.g, "a": bundle.a, "newest": bundle.newest}
        return {"W": self.W, "known_lower": self.known_lower, **planes, **shares}

    def set_state(self, state: dict[str, Array]) -> None:
        self.W, self.known_lower = state["W"].copy(), state["known_lower"].copy()
        g = state["g"].reshape(self.m, -1, self.W.shape[1])  # older files: groups of planes, of which one
        self.bundle = Bundle(self.m, g.shape[1], g.shape[2], self.settings)
        self.bundle.g[:], self.bundle.a[:] = g, state["a"].reshape(g.shape[:2])
        self.bundle.newest[:] = state["newest"]
        self.rows.parts(add_arrays, self.row_arrays())
        for name in self.row_arrays():
            self.rows.set_column(name, state[name])
        (self.risk,) = self.rows.total(hinge_risk, self.W.T.astype(np.float32))

    def restart(self) -> None:
        self.bundle = Bundle(self.m, self.settings.first_slots, self.rows.n_features, self.settings)
        self.known_lower, self._is_shared = np.zeros(self.m), False
        self.rows.parts(_drop_shares)
        self.rows.parts(add_arrays, self.row_arrays())
        (self.risk,) = self.rows.total(hinge_risk, self.W.T.astype(np.float32))

    def with_columns(self, rows: RowBlocks, kept: Array, at: int, n_new: int) -> OcasSVMs:
        """Planes stay: their shares say what they are in the new columns."""
        changed = self.copy()
        changed.rows, changed.bundle = rows, self.bundle.with_columns(kept, at, n_new)
        if n_new:
            slots = np.flatnonzero(changed.bundle.is_cut().any(axis=0))
            for g in rows.total(_new_columns, slots, slice(at, at + n_new)):
                changed.bundle.g[:, slots, at : at + n_new] = g.swapaxes(0, 1)
        changed.known_lower = np.zeros(self.m)
        changed.start_from(widened(self.W[:, kept], at, n_new))
        return changed

    def counter(self) -> PlaneCounter:
        return PlaneCounter(self.W.T.astype(np.float32), self.bundle.is_cut().T)

    def count(self, sums: list[Array], sign: int = 1) -> None:
        if sums:
            risk, a, g = sums
            self.bundle.add(sign * a, sign * g)
            self.risk = np.maximum(self.risk + sign * risk, 0)
            self.known_lower[(risk != 0) | (a != 0).any(axis=0)] = 0  # others kept all their signs

    def lower(self, bits: Array | None = None) -> Array:
        """Lower bounds by the kept planes, for ``bits`` (default: all)."""
        bits = np.arange(self.m) if bits is None else bits
        return np.maximum(self.bundle.bound(self.C, bits), self.known_lower[bits])

    def is_closed(self, upper: Array, lower: Array, tol: float) -> Array:
        return upper - lower <= tol * self.scale(tol)

    def cut(self, bits: Array, t: Array) -> None:
        """Cut a plane at the margins ``z + t v`` of these bits."""
        slot = self.bundle.free_slot(bits)
        if slot is None:
            slot = self.bundle.n_slots
            self.bundle = self.bundle.grown(2 * slot)
            self.rows.parts(add_arrays, {f"pi{k}": np.uint8 for k in range(slot, 2 * slot)})
        self.bundle.put(bits, slot, *self.rows.total(_cut, t.astype(np.float32), bits, f"pi{slot}"))


@dataclass(frozen=True)
class PlaneCounter(RowCounter):
    """Sums: risk (m), Σ π (slots × m) and Σ π y φ (slots × m × d).

    Rows that come have the same share of every plane that there is, and none of empty slots.
    """

    is_cut: Array  # slots × m

    def enter(self, block: Block, rows: slice | Array) -> Sums | None:
        Phi, Y = block["Phi"][rows], block["Y"][rows]
        if not len(Y):
            return None
        margins = Y * self.scores(block, rows)
        shares = margins < 1
        for slot, is_cut in enumerate(self.is_cut):
            block[f"pi{slot}"][rows] = shares & is_cut
        a, g = shares.sum(axis=0, dtype=np.float64), (shares.astype(np.float32) * Y).T @ Phi
        return hinge(margins), a * self.is_cut, g * self.is_cut[:, :, None]

    def leave(self, block: Block, rows: slice | Array) -> Sums | None:
        Phi, Y = block["Phi"][rows], block["Y"][rows]
        if not len(Y):
            return None
        a, g = self.zeros(Phi)
        for slot in np.flatnonzero(self.is_cut.any(axis=1)):
            shares = block[f"pi{slot}"][rows].astype(np.float32)
            a[slot], g[slot] = shares.sum(axis=0, dtype=np.float64), (shares * Y).T @ Phi
        return hinge(Y * self.scores(block, rows)), a, g

    def zeros(self, Phi: Array) -> tuple[Array, Array]:
        """Sums of nothing."""
        return np.zeros(self.is_cut.shape), np.zeros((*self.is_cut.shape, Phi.shape[1]), np.float32)

    def flip_signs(self, block: Block, rows: Array, Y: Array) -> Sums | None:
        """A bit whose signs stay keeps its shares, and so its bound: it takes no step, as in the paper."""
        Phi, before, scores = block["Phi"][rows], block["Y"][rows], self.scores(block, rows)
        flipped, violated = before != Y, Y * scores < 1
        block.arrays["Y"] = block.arrays["Y"].copy()  # an earlier view of the block keeps its own
        block["Y"][rows] = Y
        risk = np.where(flipped, np.maximum(1 - Y * scores, 0) - np.maximum(1 - before * scores, 0), 0)
        a, g = self.zeros(Phi)
        for slot in np.flatnonzero(self.is_cut.any(axis=1)):
            old = block[f"pi{slot}"][rows]
            new = np.where(flipped & self.is_cut[slot], violated, old)
            block[f"pi{slot}"][rows] = new
            a[slot] = np.sum(new.astype(np.int64) - old, axis=0)
            pull = new.astype(np.float32) * Y - old.astype(np.float32) * before
            g[slot] = pull.T @ Phi
        return risk.sum(axis=0, dtype=np.float64), a, g


def solve(svms: OcasSVMs, tol: float, max_steps: int | None = None) -> Solution:
    """Bring every bit to a proved relative gap of ``tol``, from wherever ``svms`` stands."""
    rows, C, s, history = svms.rows, svms.C, svms.settings, History()
    upper, lower = svms.upper(), svms.lower()
    closed = svms.is_closed(upper, lower, tol)
    n_steps = np.zeros(svms.m, dtype=np.intp)
    history.step(upper, upper - lower)
    bits = np.flatnonzero(~closed)
    taken = 0
    if len(bits):
        svms.before_sign_flip()
        rows.map(_lay_out, bits, svms.W[bits].T.astype(np.float32))
        if not svms.bundle.a[bits].any():  # a cold start: the first plane is cut at W itself
            svms.cut(bits, np.zeros(len(bits)))
            lower[bits] = svms.lower(bits)
    max_steps = s.ocas_max_steps if max_steps is None else max_steps
    while len(bits) and taken < max_steps:
        # 1. The line from the best point so far to the minimum of the model.
        direction = svms.bundle.minimiser(C, bits) - svms.W[bits]
        rows.map(_set_rates, np.ascontiguousarray(direction.T, dtype=np.float32))
        w_dot_d, d_dot_d = (np.einsum("jd,jd->j", each, direction) for each in (svms.W[bits], direction))

        def slope_at(t: Array, w_dot_d: Array = w_dot_d, d_dot_d: Array = d_dot_d) -> Array:
            return w_dot_d + t * d_dot_d - C * rows.total(_pulls, t.astype(np.float32))[0]

        t = linesearch.search(slope_at, slope_at(np.zeros(len(bits))), d_dot_d, s.ocas_slope)
        # 2. The best point moves; it never gets worse.
        (risk,) = rows.total(_risks, t.astype(np.float32))
        moved = svms.W[bits] + t[:, None] * direction
        better = 0.5 * np.einsum("jd,jd->j", moved, moved) + C * risk < upper[bits]
        # Where the search found nothing better, the plane is cut at the point it tried: there the model
        # lies below the best value and the risk does not, so the plane is new, and no bit cuts the same one
        # for ever.
        t, tried = np.where(better, t, 0.0), np.clip(t, s.cut_share, 1)
        svms.W[bits] += t[:, None] * direction
        svms.risk[bits] = np.where(better, risk, svms.risk[bits])
        rows.map(_advance, t.astype(np.float32))
        # 3. A new plane a little further on, where the model is too low.
        svms.cut(bits, np.where(better, s.cut_share * np.maximum(1 - t, 0), tried))
        upper[bits] = svms.upper()[bits]
        lower[bits] = np.maximum(lower[bits], svms.lower(bits))
        closed = svms.is_closed(upper, lower, tol)
        n_steps[bits] += 1
        taken += 1
        history.step(upper, upper - lower)
        if closed[bits].any():
            bits = bits[~closed[bits]]
            rows.map(_lay_out, bits, svms.W[bits].T.astype(np.float32))
    rows.map(_clear)
    if len(bits):
        from sklearn.exceptions import ConvergenceWarning  # not at every start

        warnings.warn(
            f"{len(bits)} of {svms.m} SVMs did not reach a gap of {tol:g} in {taken} steps; "
            "raise tol, or lower C.",
            ConvergenceWarning,
            stacklevel=3,
        )
    svms.known_lower[:] = lower
    lower = np.minimum(lower, upper)  # at a closed gap rounding may lift it above
    scale = svms.scale(tol)
    return Solution(svms.W.copy(), upper, upper - lower, scale, lower, n_steps, closed, history, svms)


def _drop_shares(rows: RowBlocks) -> None:
    for block in rows.blocks:
        block.arrays = {name: array for name, array in block.arrays.items() if not name.startswith("pi")}


# What the blocks do. Scratch: Y, Z (margins at the best point), V (their rates along the line).


def _lay_out(block: Block, bits: Array, W: Array) -> None:
    if len(bits):
        Y = np.ascontiguousarray(block["Y"][:, bits])
        Z = (block["Phi"] @ W) * Y
        block.scratch = {"Y": Y, "Z": Z, "V": np.zeros_like(Z)}


def _set_rates(block: Block, D: Array) -> None:
    V = block.scratch["V"]
    np.matmul(block["Phi"], D, out=V)
    V *= block.scratch["Y"]


def _pulls(block: Block, t: Array) -> Sums:
    """``Σ v`` over the rows that are violated at ``z + t v``: what they pull with."""
    Z, V = block.scratch["Z"], block.scratch["V"]
    return (np.einsum("ij,ij->j", V, (Z + t * V < 1).astype(np.float32)),)


def _risks(block: Block, t: Array) -> Sums:
    return (hinge(block.scratch["Z"] + t * block.scratch["V"]),)


def _advance(block: Block, t: Array) -> None:
    """The best point moves by ``t``; rates of the rest of the line stay those of the whole line."""
    block.scratch["Z"] += t * block.scratch["V"]


def _cut(block: Block, t: Array, bits: Array, slot: str) -> Sums:
    violated = block.scratch["Z"] + t * block.scratch["V"] < 1
    block[slot][:, bits] = violated
    return (block.scratch["Y"] * violated.astype(np.float32)).T @ block["Phi"], violated.sum(axis=0)


def _new_columns(block: Block, slots: Array, columns: slice) -> Sums | None:
    """``Σ π y φ`` of some columns of Φ (slots × m × columns)."""
    if not len(slots):
        return None
    Y, Phi = block["Y"].astype(np.float32), block["Phi"][:, columns]
    return (np.array([(block[f"pi{slot}"] * Y).T @ Phi for slot in slots]),)


def _clear(block: Block) -> None:
    block.scratch = {}
