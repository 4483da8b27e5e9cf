"""The binary SVMs by a smoothed hinge and a preconditioned quasi-Newton method, with a true certificate.

The hinge is replaced by one that is quadratic in a band of ``width`` around the margin 1. Its slopes ``p_i
∈ [0, 1]`` are shares of a cutting plane of the *unsmoothed* risk, so every gradient is at once a plane of
the bundle, and the bundle's minimum bounds the true optimum from below. With ``g = Σ p_i y_i φ_i`` the gap
of a point splits into

    F(w) − D(p) = ½ ‖w − C g‖²  +  C Σ_i (h(z_i) − p_i (1 − z_i)):

the gradient, which the steps drive to zero, and the price of smoothing, which the width controls. A step
costs two products with Φ for all bits together, the scores of the direction and the gradient, in one pass
over the rows (`sihash.svm.slopes`): how far to go is found before, on a few of them.

The weights are good before the gap shows it. Moving the shares ``p`` of some rows closes it then, without
moving the weights (`sihash.svm.balance`, `sihash.svm.dual`).

L-BFGS starts from the inverse of ``I + κ C ΦᵀΦ``, shared by all bits: the Hessian of a bit is ``I + C/width
Σ φφᵀ`` over the band, and the band holds a share κ · width of the rows, near enough. Where that guess is poor
(few rows near the margin, as in data that separate well) the shared Hessian is refined from the bands after
some steps (`sihash.svm.shared_hessian`); bits that are still open later get one of their own
(`sihash.svm.band`), and on few rows OCAS takes over what is left: an optimum next to zero is its home ground.
"""

from __future__ import annotations

import warnings

import numba
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sihash import memory
from sihash._typing import Array
from sihash.svm import linesearch, ocas, slopes
from sihash.svm.balance import FEW_MOVE, MANY_MOVE
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.machines import Log, Solution
from sihash.svm.moves import Moves, in_few_directions
from sihash.svm.proof import FEW_BITS, RIPE_SHARE, Bounds, Proof
from sihash.svm.quasi_newton import QuasiNewton
from sihash.svm.repeats import find_repeats
from sihash.svm.smooth_machines import ASCENDED, N_SLOTS, WIDEST_BAND, SmoothMachines, rescore
from sihash.svm.steplength import ENOUGH_ROWS, step_lengths

SMOOTHING_SHARE = 0.4  # of the allowed gap that smoothing may use up
TOO_FAR = 0.05  # of the allowed gap: a step that loses more had a wrong length
REFINED_AFTER = 4  # steps: the shared Hessian, if more than a few bits are open then
OWN_HESSIAN_AFTER = 12  # steps until an open bit gets a Hessian of its own ...
OWN_HESSIAN_EVERY = 8  # ... and steps until it is renewed
# A plane is summed up anew, not changed, where it has shrunk to little: what rounding the large one lost
# would stay. And now and then, against what many small losses come to.
MANY_CHANGES, SUMMED_ANEW_EVERY = 0.3, 16
MAX_STEPS = 300
FREE_EVERY = 8  # rows: so many tell how many are in the band
FEW_ROWS, FEW_STEPS = 20_000, 40  # on at most so many rows OCAS takes over after so many steps


def solve(
    machines: SmoothMachines, tol: float, max_steps: int = MAX_STEPS, words: Array | None = None
) -> Solution:
    """Bring every bit to a certified relative gap of ``tol``, from wherever ``machines`` stands.

    ``words`` (n × m) are the distinct rows of signs, if they are known: equal columns are solved once.
    """
    run = _Run(machines, tol, words)
    few = len(machines.rows) <= FEW_ROWS
    while len(run.bits) and run.n_taken < (min(max_steps, FEW_STEPS) if few else max_steps):
        run.step()
    run.put_back()
    if len(run.bits) and max_steps > FEW_STEPS and few:
        run.hand_over()
    return run.finish()


class _Run:
    """One solve: the bits still open, and what the blocks hold of them in their scratch."""

    def __init__(self, machines: SmoothMachines, tol: float, words: Array | None = None) -> None:
        self.M, self.tol, self.rows = machines, tol, machines.rows
        self.log = Log()
        self.n_taken = 0
        self.every = max(1, len(self.rows) // ENOUGH_ROWS)
        self.changed = 0.0  # share of the slopes that the last pass changed
        self.steps = QuasiNewton(machines)
        self.n_steps = np.zeros(machines.m, dtype=np.intp)
        machines.width = np.minimum(machines.width, min(WIDEST_BAND, 5 * np.sqrt(tol)))
        self.bounds = Bounds.of(machines, tol)
        self.proof = Proof(machines, self.bounds, self.steps)
        self.start_W, self.start_upper = machines.W.copy(), self.bounds.upper.copy()
        self.bits = np.flatnonzero(~self.bounds.closed)
        self.repeats = None if words is None else find_repeats(words, machines.W, self.bits)
        if self.repeats:
            self.bits = np.setdiff1d(self.bits, self.repeats.bits)
        if len(self.bits):
            self._open()
        self.log.step(self.bounds.upper, self.bounds.lower)

    def _open(self) -> None:
        """Lay out the margins of the open bits, with the gradient; see which need no step.

        Where little changed since the last solve the weights still do, and only the bound is missing.
        """
        M, bits = self.M, self.bits
        stale = bits[~M.fresh[bits]]
        M.own_arrays({f"pi{ASCENDED}", "S"} if len(stale) else {f"pi{ASCENDED}"})
        if len(stale) and np.any(M.W[stale]):
            self.rows.map(rescore, stale, M.W[stale].T.astype(np.float32))
        self.rows.parts(_make_room, len(bits))
        (free,) = self.rows.total(_lay_out, bits, None if len(stale) else M.latest[bits])
        self.n_free = float(free.mean())
        if len(stale):
            self._evaluate(None)
        else:
            self.gradient = M.W[bits] - M.bundle.point(M.C, bits, M.latest[bits])[0]
        M.prepare()
        self.proof.seek(bits, M.bundle.newest[bits], FEW_MOVE, self.n_free, 0)
        self._drop_closed()

    def step(self) -> None:
        M, bits = self.M, self.bits
        if self.n_taken == REFINED_AFTER and len(bits) > FEW_BITS:
            M.refine_hessian(bits)
        late = self.n_taken - OWN_HESSIAN_AFTER
        if late >= 0 and late % OWN_HESSIAN_EVERY == 0:
            self.steps.take_own_hessians(bits)
        gradient = self.gradient
        direction = self.steps.direction(bits, gradient)
        if self.n_taken:
            moves = Moves.of(direction)
        else:
            direction, moves = in_few_directions(direction, M.hessian.factor)
        t = step_lengths(
            self.rows,
            moves,
            self.every,
            M.C,
            M.width[bits],
            np.einsum("jd,jd->j", M.W[bits], direction),
            np.einsum("jd,jd->j", direction, direction),
            np.einsum("jd,jd->j", gradient, direction),
        )
        move = t[:, None] * direction
        M.W[bits] += move
        self._evaluate(moves.times(t))
        self.steps.remember(bits, move, self.gradient - gradient)
        self.n_taken += 1
        self.n_steps[bits] += 1
        self._close_bits()

    def _evaluate(self, move: Moves | None) -> None:
        """Move the margins; the slopes there become planes, and their sum the gradient ``w − C Σ p y φ``."""
        M, bits = self.M, self.bits
        slot = M.clock % N_SLOTS
        M.clock += 1
        M.own_arrays({"S", f"pi{slot}"}, overwrite=len(bits) == M.m)
        width = M.width[bits].astype(np.float32)
        where = width, bits, f"pi{slot}"
        anew = move is None or M.clock % SUMMED_ANEW_EVERY == 0 or self.changed > MANY_CHANGES
        if move is None:
            sums = self.rows.by_group(M.bundle.n_groups, slopes.evaluate_here, *where)
        else:
            sums = self.rows.by_group(M.bundle.n_groups, slopes.evaluate, move, not anew, *where)
        assert sums is not None
        g, a, risk, smoothing, changed, free = sums
        if not anew:
            for k, j in enumerate(bits):
                g[:, k] += M.bundle.g[j, :, M.latest[j]]
        self.changed = changed.sum() / (len(self.rows) * len(bits))
        M.bundle.put(bits, slot, g, a)
        self.gradient = M.W[bits] - M.C * g.sum(axis=0)
        M.latest[bits], M.fresh[bits] = slot, True
        M.risk[bits] = risk.sum(axis=0)
        self.smoothing = M.C * smoothing.sum(axis=0)
        self.n_free = float(free.sum(axis=0).mean())

    def _close_bits(self) -> None:
        M, bits = self.M, self.bits
        gain = self.bounds.upper[bits] - M.upper()[bits]
        self.bounds.upper[bits] = M.upper()[bits]
        if (gain < -TOO_FAR * self.bounds.allowed(bits)).any():
            self.every = -(-self.every // 2)  # its length takes more rows
        ripe = gain <= RIPE_SHARE * self.bounds.allowed(bits)
        self.proof.seek(bits, M.latest[bits], MANY_MOVE, self.n_free, self.n_taken, ripe)
        self.log.step(self.bounds.upper, self.bounds.lower)
        # The width follows the tolerance: narrower where smoothing alone eats up the allowed gap, once the
        # steps gain less than that.
        allowed = SMOOTHING_SHARE * self.bounds.allowed(bits)
        shrink = np.clip(np.sqrt(allowed / np.maximum(self.smoothing, 1e-300)), 0.4, 1.0)
        M.width[bits] *= np.where(self.bounds.closed[bits] | (gain > self.smoothing), 1.0, shrink)
        self._drop_closed()

    def _drop_closed(self) -> None:
        """Go on with the bits that are still open."""
        still = ~self.bounds.closed[self.bits]
        if still.all():
            return
        self.rows.map(_drop, self.bits, np.flatnonzero(still), self.n_taken > 0)
        self.bits, self.gradient = self.bits[still], self.gradient[still]

    def put_back(self) -> None:
        if len(self.bits):
            self.rows.map(_put_back, self.bits)
        self.rows.map(linesearch.clear)

    def hand_over(self) -> None:
        """Let OCAS finish the open bits from where they stand; its lower bound is kept beside the planes."""
        M, bits = self.M, self.bits
        finisher = ocas.OcasMachines(self.rows.derive(_only_bits, bits), M.C)
        finisher.start_from(M, bits)
        solution = ocas.solve(finisher, self.tol)
        M.W[bits], M.risk[bits] = solution.W, finisher.risk
        M.fresh[bits] = False
        self.rows.map(rescore, bits, M.W[bits].T.astype(np.float32))
        self.bounds.upper[bits] = solution.upper
        self.bounds.lower[bits] = np.maximum(self.bounds.lower[bits], solution.lower)
        self.n_steps[bits] += solution.n_steps
        self.bounds.closed[bits] = solution.converged
        self.log.step(self.bounds.upper, self.bounds.lower)
        self.bits = bits[~solution.converged]

    def finish(self) -> Solution:
        M = self.M
        M.settle()
        if len(self.bits):
            warnings.warn(
                f"{len(self.bits)} of {M.m} SVMs did not reach a gap of {self.tol:g} in "
                f"{self.n_steps.max()} steps; raise tol, or lower C.",
                ConvergenceWarning,
                stacklevel=3,
            )
        # Smoothing may leave a warm start a hair better than where the steps led: then it stays.
        worse = np.flatnonzero(self.bounds.upper > self.start_upper)
        if len(worse):
            M.W[worse] = self.start_W[worse]
            M.fresh[worse] = False
            (risk,) = self.rows.total(rescore, worse, M.W[worse].T.astype(np.float32))
            M.risk[worse] = risk
            self.bounds.upper[worse] = M.upper()[worse]
        # At a closed gap rounding may lift the lower bound above the upper one.
        lower = np.minimum(self.bounds.lower, self.bounds.upper)
        M.known_lower[:] = lower
        if self.repeats and len(self.repeats.bits):
            repeats, leaders = self.repeats.bits, self.repeats.leaders
            M.own_arrays()
            self.repeats.follow(M)
            self.bounds.upper[repeats], lower[repeats] = self.bounds.upper[leaders], lower[leaders]
            self.bounds.closed[repeats] = self.bounds.closed[leaders]
            self.log.step(self.bounds.upper, lower)
        return Solution(
            M.W.copy(), self.bounds.upper, lower, self.n_steps, self.bounds.closed, self.log.history, M
        )


# What the blocks do. Scratch, for the open bits: Y, Z (margins) and P (slopes: shares of the latest planes).


def _only_bits(block: Block, bits: Array) -> Block:
    return Block(block.n, 0, Phi=block["Phi"], Y=np.ascontiguousarray(block["Y"][:, bits]))


def _make_room(rows: RowBlocks, m: int) -> None:
    for block, room in zip(rows.blocks, rows.rooms(memory.empty, m, np.float32), strict=True):
        block.scratch["Z"] = room[: block.n]


def _lay_out(block: Block, bits: Array, latest: Array | None) -> tuple[Array]:
    """With the shares in the slots ``latest``, one a bit, if there are any yet; returns how many are free."""
    all_bits = len(bits) == block["Y"].shape[1]  # by far the most frequent case, and nothing to look up
    Y = block["Y"] if all_bits else np.take(block["Y"], bits, axis=1)
    _times(Y, block["S"] if all_bits else np.take(block["S"], bits, axis=1), block.scratch["Z"])
    block.scratch["Y"] = Y
    if latest is None:
        return (np.zeros(len(bits)),)
    if all_bits and (latest == latest[0]).all():
        P = block[f"pi{latest[0]}"]
    else:
        P = np.column_stack([block[f"pi{slot}"][:, bit] for slot, bit in zip(latest, bits, strict=True)])
    block.scratch["P"] = P
    some = P[::FREE_EVERY]
    return (block.n / max(len(some), 1) * np.count_nonzero((some > 0) & (some < 1), axis=0),)


@numba.njit(nogil=True, cache=True)
def _times(Y: Array, scores: Array, out: Array) -> None:
    """``Y * scores``, margins or back again, without the copies that NumPy makes of signs of another type."""
    for i in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            out[i, j] = Y[i, j] * scores[i, j]


def _put_back(block: Block, bits: Array) -> None:
    Y, Z = block.scratch["Y"], block.scratch["Z"]
    if len(bits) == block["S"].shape[1]:
        _times(Y, Z, block["S"])
    else:
        block["S"][:, bits] = Y * Z


def _drop(block: Block, bits: Array, still: Array, moved: bool) -> None:
    """Put the margins of ``bits`` back, if they have moved, and go on with those numbered ``still``."""
    if moved:
        _put_back(block, bits)
    block.scratch |= {name: np.ascontiguousarray(block.scratch[name][:, still]) for name in "YZP"}
