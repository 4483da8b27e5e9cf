"""Lower bounds that show how good the weights are: when to seek them, and by which means.

A step makes the weights better, and its gradient is a dual point whose bound shows little of it. What gap
would be left if its balance were restored (`sihash.svm.balance`) can be told before. Of ``r`` outside the
strongest directions it is what a step would leave, if rows follow one, and all of it if they do not; and the
price of smoothing grows when some rows move for all. So hardly an attempt is made in vain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.svm import dual, near
from sihash.svm.balance import FREE_PER_DIRECTION, MANY_MOVE, SOME_MOVE, Balance, DualPoint, spacing
from sihash.svm.quasi_newton import QuasiNewton
from sihash.svm.smooth_machines import ASCENDED, SmoothMachines

RIPE_SHARE = 0.1  # of the allowed gap: while a step gains more, no proof is tried
HOPE = 1  # times the allowed gap: where restoring the balance is likely to leave no more, it is tried ...
FAR = 3  # ... for most bits: then for those too where it leaves so much, ...
ATTEMPTS = 3  # ... which a second time, or a third, may bring there
FASTEST = 0.25  # of what the last step left: what a step that rows follow leaves at least ...
SLOW = 0.5  # ... and where it would leave more, they do not follow it
# Rows follow none of the first steps, which make better weights too: so many from weights 0, and from others.
PLAIN_STEPS, PLAIN_STEPS_WARM = 3, 1
AGAIN = 1.5  # times the step: so far they follow a second one, as many of them have no room left
CLEAR = 0.8  # of the allowed gap: where no more is out of balance outside the directions, they need not
DEARER = 2.5  # times the price of smoothing: what it becomes when some rows move for all
DIRECTIONS = 64  # in which many bits are balanced: the curvature of each is as many numbers, squared ...
NOT_MANY = 16  # ... and so many bits at most in all the strongest ones
LITTLE = 0.07  # of the allowed gap: what rows near the margin of a few bits leave outside the directions ...
PASSES = 6  # ... after so many steps at most
FAILED = 10  # times the allowed gap: where an attempt left more, another would fail, too
EVEN = 0.1  # of the allowed gap: what may be left in the strongest directions
ALMOST = 1.07  # times the allowed gap: from there a sweep of dual ascent may get there ...
FEW_BITS = 8  # ... for so few bits in less time than a step; and rows near their margins follow them


@dataclass(frozen=True)
class Bounds:
    """What is known of every bit in a solve to the relative gap ``tol``; the arrays are written in place."""

    machines: SmoothMachines
    tol: float
    upper: Array
    lower: Array
    closed: Array

    @classmethod
    def of(cls, machines: SmoothMachines, tol: float) -> Bounds:
        upper, lower = machines.upper(), machines.known_lower.copy()
        return cls(machines, tol, upper, lower, machines.closed(upper, lower, tol))

    def allowed(self, bits: Array) -> Array:
        """The gaps that bits may have."""
        return self.tol * self.upper[bits]

    def raise_lower(self, bits: Array, lower: Array) -> None:
        self.lower[bits] = np.maximum(self.lower[bits], lower)
        self.closed[bits] = self.machines.closed(self.upper, self.lower, self.tol)[bits]


class Proof:
    """Seeks bounds for the length of a solve. ``steps`` are those that the rows follow, too."""

    def __init__(self, machines: SmoothMachines, bounds: Bounds, steps: QuasiNewton) -> None:
        self.M, self.bounds, self.steps = machines, bounds, steps
        self.n_plain = PLAIN_STEPS_WARM if machines.W.any() else PLAIN_STEPS
        self.balance: Balance | None = None
        # Of r outside the strongest directions: ½‖r‖² at the last step, and how much of it a step leaves.
        self.outside, self.rate = np.full(machines.m, np.inf), np.ones(machines.m)
        self.follow = np.zeros(machines.m, dtype=bool)  # where rows are to follow a step

    def seek(
        self, bits: Array, slots: Array, widest: int, n_free: float, n_taken: int, ripe: Array | bool = False
    ) -> None:
        """Look for lower bounds that close gaps of ``bits``, near the dual points in ``slots``.

        First by restoring their balance, with rows at most ``widest`` apart, where that may be enough; then,
        for ``ripe`` bits too, by the best mixture of planes; then, for a few bits, by dual ascent. Of all
        rows ``n_free`` are in the band of a bit, and ``n_taken`` steps lie behind.
        """
        which, tried = np.arange(len(bits)), np.zeros(len(bits), dtype=bool)
        for attempt in range(ATTEMPTS):
            point = self._dual_point(bits, which, slots)
            if attempt == 0:
                self._note_rate(point, n_taken)
            k = self._n_directions(len(which), n_free)
            worth, step = self._worth(point, k, n_free, attempt > 0)
            if not worth.any():
                break
            self._restore(point.some(worth), step[worth], k, widest, n_free)
            self._sweep(bits)
            tried[which[worth]] = True
            which, slots = which[~self.bounds.closed[bits[which]]], self.M.bundle.newest[bits]
        missing = bits[(ripe | tried) & ~self.bounds.closed[bits]]
        if len(missing):
            self.bounds.raise_lower(missing, self.M.lower(missing, restart=True))
            self._sweep(bits)

    def _dual_point(self, bits: Array, which: Array, slots: Array) -> DualPoint:
        """That of the planes in ``slots``, for those of the bits that are numbered ``which``."""
        own = bits[which]
        u, value = self.M.bundle.point(self.M.C, own, slots[which])
        self.bounds.raise_lower(own, value)
        return DualPoint(own, which, slots[which], self.M.W[own] - u, value)

    def _n_directions(self, n_bits: int, n_free: float) -> int:
        """In how many directions so many bits are balanced."""
        most = self.M.directions().shape[1]
        many = n_bits > NOT_MANY or n_free < MANY_MOVE * FREE_PER_DIRECTION * most
        return min(DIRECTIONS, most) if many else most

    def _outside(self, r: Array, k: int | None = None) -> Array:
        """``½‖r‖²`` of each row, without what lies in the ``k`` strongest directions, or in all of them."""
        return _half_square(r) - _half_square(r @ self.M.directions()[:, :k])

    def _note_rate(self, point: DualPoint, n_taken: int) -> None:
        bits, outside = point.bits, self._outside(point.r)
        if n_taken >= self.n_plain:  # how fast steps lead on shows after the second
            left = np.clip(outside / np.maximum(self.outside[bits], 1e-30), FASTEST, 1)
            self.rate[bits] = left if n_taken > 1 else FASTEST
        self.outside[bits] = outside

    def _worth(self, point: DualPoint, k: int, n_free: float, again: bool) -> tuple[Array, Array]:
        """Which bits to try to balance in ``k`` directions, and the step that rows may follow.

        None at first if fewer than half have hope: these can wait, as another step is due anyway.
        """
        bits, none = point.bits, (np.zeros(len(point.bits), dtype=bool), point.r)
        enough = 1 if again else len(bits)
        outside = self._outside(point.r, k)
        price = self.bounds.upper[bits] - point.value - _half_square(point.r)
        allowed, rate = self.bounds.allowed(bits), self.rate[bits]
        self.follow[bits] = (rate <= SLOW) & (outside + price > CLEAR * allowed)
        expected = np.where(self.follow[bits], rate * outside + DEARER * price, outside + price)
        worth = ~self.bounds.closed[bits] & (expected <= FAR * allowed)
        if again:  # where the last attempt failed, another would
            few = np.count_nonzero(self.follow[bits]) <= FEW_BITS
            gap = self.bounds.upper[bits] - point.value
            worth = ~self.bounds.closed[bits] & (gap <= (FAILED if few else FAR) * allowed)
            if few and n_free:
                return worth, np.zeros_like(point.r)
        if 2 * np.count_nonzero(worth & (expected <= HOPE * allowed)) < enough or not n_free:
            return none
        step = self.steps.direction(bits, point.r)
        gain = -0.5 * np.einsum("jd,jd->j", step, point.r)  # that of another step, likely
        if 2 * np.count_nonzero(worth & (gain <= RIPE_SHARE * allowed)) < enough:
            return none
        return worth & (gain <= FAR * RIPE_SHARE * allowed), step

    def _restore(self, point: DualPoint, step: Array, k: int, widest: int, n_free: float) -> None:
        """Restore the balance of a dual point; rows follow ``step`` where that is needed, and leads far."""
        M, bits, V = self.M, point.bits, self.M.directions()
        first, follow = point, self.follow[bits]
        length = np.where(first.slots == ASCENDED, AGAIN, 1)[:, None]
        if 0 < np.count_nonzero(follow) <= FEW_BITS:
            point, follow = self._follow_near(first, follow, length), np.zeros_like(follow)
        elif (first.slots == ASCENDED).all() and not follow.any():
            widest = max(widest, SOME_MOVE)
        every = spacing(widest, n_free, k, M.rows.n_features if follow.any() else 0)
        if self.balance is None or self.balance.every != every or self.balance.V is not V:
            turn = 0 if self.balance is None else self.balance.turn
            self.balance = Balance(M.rows, V, every, turn)
        step = length * follow[:, None] * step
        value = self.balance.restore(M, point, k, step, EVEN * self.bounds.allowed(bits))
        self.bounds.raise_lower(bits, value)
        worse = value < first.value  # too much was asked of the rows
        M.bundle.newest[bits[worse]] = first.slots[worse]

    def _follow_near(self, first: DualPoint, which: Array, length: Array) -> DualPoint:
        """Let rows near the margins of some bits follow steps, until little is left outside the directions.

        The first step is ``length`` times as long.
        """
        M, point, far = self.M, first.some(np.arange(len(first.bits))), np.flatnonzero(which)
        for _ in range(PASSES):
            here = point.some(far)
            step = length[far] * self.steps.direction(here.bits, here.r)
            near.follow(M, here, step)
            point.slots[far], length = ASCENDED, np.ones_like(length)
            u, point.value[far] = M.bundle.point(M.C, here.bits, point.slots[far])
            point.r[far] = M.W[here.bits] - u
            self.steps.remember(here.bits, step, point.r[far] - here.r + step)
            far = far[self._outside(point.r[far]) > LITTLE * self.bounds.allowed(here.bits)]
            if not len(far):
                break
        self.bounds.raise_lower(point.bits, point.value)
        return point

    def _sweep(self, bits: Array) -> None:
        """Dual ascent where little is missing, if that may be enough for all, and these are few."""
        M, bits = self.M, bits[~self.bounds.closed[bits]]
        gap = self.bounds.upper[bits] - self.bounds.lower[bits]
        if not 0 < len(bits) <= FEW_BITS or (gap > ALMOST * self.bounds.allowed(bits)).any():
            return
        slots = M.bundle.newest[bits]
        for slot in np.unique(slots):
            dual.ascend(M.rows, M.bundle, M.C, bits[slots == slot], int(slot), ASCENDED)
        self.bounds.raise_lower(bits, M.lower(bits, restart=True))


def _half_square(Q: Array) -> Array:
    return 0.5 * np.einsum("jd,jd->j", Q, Q)
