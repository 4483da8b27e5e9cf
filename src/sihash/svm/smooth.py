"""The default solver of the binary SVMs: a few preconditioned steps on a smoothed hinge, all bits at once.

**Objective.** Every bit minimises ``F(w) = ½‖w‖² + C Σ_i max(0, 1 − z_i)`` with margins ``z_i = y_i w·φ_i``.

**Smoothing.** The hinge is made quadratic in a band of ``width`` around the margin 1 (a Huberised hinge:
Rosset and Zhu 2007; Chapelle 2007). Its slope is ``−p`` with ``p = clip(½ + (1 − z)/width, 0, 1)``, so the
gradient is ``r = w − C g``, ``g = Σ p y φ``. The *price* of smoothing is the sum of the differences between
the smoothed hinge and the true one; at the smoothed optimum about an eighth of it is lost, if rows fill the
band evenly. If they do not, the *tilt*, by which ``Σ (h − p (1 − z))`` is above the price, is lost too.

**Preconditioner.** The Hessian of a bit is ``I + C/width Σ φφᵀ`` over the rows in its band. All bits share
one matrix instead, ``H = I + κ C ΦᵀΦ`` (`sihash.svm.gram`), factored once. What it gets wrong for a bit
L-BFGS learns from the steps (Liu and Nocedal 1989, with ``H⁻¹`` in place of the scaled identity), within one
solve.

**Step.** ``w ← w + t d`` with ``d`` the direction of L-BFGS. The length ``t`` is read off the slopes along
``d`` on some 5,000 rows (`sihash.svm.linesearch`). The true slope at ``t = 0`` is known, so the error of the
sample there is taken out, as far as the rows still pull at ``t`` as they did at 0 (a control variate). Then
one pass over all rows has two products with Φ, scores and gradient. If that gained next to nothing of what
was promised, the next length is read off twice as many rows.

**Stop.** The gain that a Newton step with H promises, ``½ rᵀH⁻¹r`` (half the squared Newton decrement: Boyd
and Vandenberghe 2004, section 9.5), is known before the step. Twice that, divided by the rows in the band as
a share of those that H counts on (few, where data separate well), is what the bit still lacks, near enough;
and never more than ``½‖r‖²``, as ``F`` is strongly convex. With what smoothing costs it is the estimated
excess ``F(w) − min F``. A bit is done when that is at most ``tol`` times its objective, which counts for at
least ``least · F(0)``. A bit that takes steps goes a little further, so that a small change leaves it good
enough. If smoothing is the larger part, the band is narrowed. With ten rows or more for each feature, the
true gap was at most four times the estimate where it was held against proofs (tests/svm/test_certificate.py
says where it is not); `sihash.svm.certificate` proves bounds.

**Update.** Kept between solves are ``w``, the Gram matrix, and sums over rows: the risk, the price, ``g``.
Rows that come, go or change sign are counted in and out at their own cost, so a solve starts with its
gradient at hand, and a bit that is still good enough costs nothing. Nothing is kept for a row.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.svm import linesearch
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.gram import Gram, sample_product
from sihash.svm.settings import DEFAULTS, SolverSettings
from sihash.svm.svm_state import History, RowCounter, Solution, Sums, SVMs, widened

_SUMS = ("risk", "price", "tilt", "spread", "g")  # over rows, a number (or, g, a vector) a bit


class SmoothSVMs(SVMs):
    """Kept between solves: weights, the sums over rows at them, the band, and the Gram matrix."""

    def __init__(self, rows: RowBlocks, C: float, settings: SolverSettings = DEFAULTS) -> None:
        super().__init__(rows, C, settings)
        self.width = np.full(self.m, settings.width)
        self.price = np.zeros(self.m)  # Σ (smoothed hinge − hinge)
        self.tilt = np.zeros(self.m)  # Σ (hinge − p (1 − z)) less that: 0 if the band is filled evenly
        self.spread = np.zeros(self.m)  # Σ p (1 − p), a sixth of the number of rows in the band
        self.g = np.zeros_like(self.W)
        self.are_summed = False  # the sums are those of the rows and weights
        self.gram: Gram | None = None

    def copy(self) -> SmoothSVMs:
        draft = super().copy()
        for name in ("width", *_SUMS):
            setattr(draft, name, getattr(self, name).copy())
        return draft

    def state(self) -> dict[str, Array]:
        state = {"W": self.W, "width": self.width}
        if self.are_summed:
            state |= {name: getattr(self, name) for name in _SUMS}
        if self.gram is not None:
            shape = np.array([self.gram.every, self.gram.n_rows])
            state |= {"gram": self.gram.matrix, "gram_rows": shape}
        return state

    def set_state(self, state: dict[str, Array]) -> None:
        self.width = state["width"].copy()
        if "gram" in state:
            every, n_rows = state["gram_rows"].tolist()
            self.gram = Gram(state["gram"], every, n_rows, self.C, self.settings)
        self.W = state["W"].copy()
        if not all(name in state for name in _SUMS):
            self.restart()
            return
        for name in _SUMS:
            setattr(self, name, state[name].copy())
        self.are_summed = True

    def start_from(self, W: Array) -> None:
        self.W = W.copy()
        self.recount()

    def with_columns(self, rows: RowBlocks, kept: Array, at: int, n_new: int) -> SmoothSVMs:
        changed = SmoothSVMs(rows, self.C, self.settings)
        if n_new > len(kept) or not self.W.any():
            return changed  # most is new: a start from 0 takes fewer steps
        changed.width = self.width.copy()
        W = self.W[:, kept]
        if self.gram is not None and len(kept) < self.W.shape[1]:
            W = self.gram.folded(self.W, kept)
        if self.gram is not None and not n_new:
            changed.gram = self.gram.only(kept)
        elif self.gram is not None and self.gram.n_rows == len(rows) and 2 * n_new < len(kept):
            # It knows no rows that are gone, and all of it would take longer.
            changed.gram = self.gram.only(kept).with_columns(rows, at, n_new)
        changed.start_from(widened(W, at, n_new))
        return changed

    def recount(self) -> None:
        self.are_summed = False  # the next solve begins with it

    def forget(self) -> None:
        super().forget()
        self.width, self.gram = np.full(self.m, self.settings.width), None

    def restart(self, bits: Array | None = None) -> None:
        """Sum up what the rows give at the weights, or at 0 where that is better (paper, appendix).

        Of all bits, or of ``bits`` where the others are going to be copies.
        """
        bits = np.arange(self.m) if bits is None else bits
        self.evaluate(bits)
        lost = bits[self.upper()[bits] > self.at_zero]
        if len(lost):
            self.W[lost] = 0
            self.evaluate(lost)
        self.are_summed = True

    def counter(self) -> GradientCounter:
        every = None if self.gram is None else self.gram.every
        W, width = self.W.T.astype(np.float32), self.width.astype(np.float32)
        return GradientCounter(W, width, every, self.are_summed)

    def count(self, sums: list[Array], sign: int = 1) -> None:
        for name, values in zip(_SUMS, sums, strict=False):
            setattr(self, name, getattr(self, name) + sign * values)

    def add_gram(self, product: tuple[Array, int] | None) -> None:
        if self.gram is not None and product is not None:
            self.gram = self.gram.with_rows(*product)

    def current_gram(self) -> Gram:
        """Kept, until too many of the rows in it are gone."""
        if self.gram is None or self.gram.is_stale(self.rows):
            self.gram = super().current_gram()
        return self.gram

    def evaluate(self, bits: Array) -> None:
        """Take the sums of ``bits`` over all rows, at their weights."""
        sums = self.rows.total(_sums, bits, self.W[bits].T.astype(np.float32), self.width[bits])
        for name, values in zip(_SUMS, sums, strict=True):
            getattr(self, name)[bits] = values

    def estimated_gap(self, bits: Array, r: Array) -> tuple[Array, Array]:
        """What ``bits``, with gradients ``r``, still lose of the smoothed objective, and smoothing's cost.

        Estimates; but the first is never taken for more than ``½‖r‖²``, as ``F`` is strongly convex.
        """
        assert self.gram is not None
        gain = 0.5 * np.square(self.gram.half_solve(r), dtype=np.float64).sum(axis=0)
        in_band = (
            6 * self.spread[bits] / (self.settings.kappa * self.width[bits] * len(self.rows))
        )  # 1: as H counts on
        smoothing = self.C * (self.settings.gap_per_price * self.price + np.maximum(self.tilt, 0))[bits]
        at_most = 0.5 * np.einsum("jd,jd->j", r, r)
        return np.minimum(self.settings.gap_per_gain * gain / np.maximum(in_band, 1e-12), at_most), smoothing


def solve(
    svms: SmoothSVMs,
    tol: float,
    least: float = 0.0,
    words: Array | None = None,
    max_steps: int | None = None,
) -> Solution:
    """Take steps until the next one promises each bit at most ``tol`` of its objective.

    An objective counts at least ``least · F(0)``. ``words`` (n × m) are the distinct rows of signs, if
    they are known: equal and opposite columns are solved once.
    """
    C, s, history = svms.C, svms.settings, History()
    max_steps = s.max_steps if max_steps is None else max_steps
    gram, every = svms.current_gram(), max(1, len(svms.rows) // s.length_rows)
    leaders, followers = np.arange(svms.m), np.empty((3, 0), dtype=np.intp)
    if words is not None:
        leaders, followers = _duplicates(words)
    if not svms.are_summed:
        svms.restart(leaders)
    start = svms.upper(), {name: getattr(svms, name).copy() for name in ("W", "width", *_SUMS)}
    excess, n_steps = np.zeros(svms.m), np.zeros(svms.m, dtype=np.intp)
    bits, pairs = leaders, _Pairs(s.n_pairs)
    for n_taken in range(max_steps + 1):
        # 1. What each bit still lacks: done, if that is little.
        r = svms.W[bits] - C * svms.g[bits]
        left, price = svms.estimated_gap(bits, r)
        excess[bits] = np.minimum(left + price, svms.upper()[bits])  # F is never below 0
        history.step(svms.upper(), excess)
        allowed = tol * svms.scale(tol, least)[bits]
        allowed[n_steps[bits] > 0] *= s.overshoot
        still = excess[bits] > allowed
        pairs.keep(still)
        bits, r, left, price, allowed = bits[still], r[still], left[still], price[still], allowed[still]
        if not len(bits) or n_taken == max_steps:
            break
        # 2. A band that costs more than is left to gain is narrowed.
        dear = price > left
        if dear.any():
            narrow = bits[dear]
            svms.width[narrow] *= np.clip(np.sqrt(0.5 * allowed[dear] / price[dear]), s.min_shrink, 0.9)
            svms.evaluate(narrow)
            r[dear] = svms.W[narrow] - C * svms.g[narrow]
            pairs.forget(dear)
        # 3. The direction, its length, and the sums where it leads.
        D = -pairs.times_gradient(r, gram)
        slope = np.einsum("jd,jd->j", r, D)
        t = _lengths(svms, bits, D, slope, every)
        before = svms.upper()[bits] + C * svms.price[bits]
        svms.W[bits] += t[:, None] * D
        svms.evaluate(bits)
        pairs.add(t[:, None] * D, svms.W[bits] - C * svms.g[bits] - r, gram)
        if np.any(before - svms.upper()[bits] - C * svms.price[bits] < s.poor_step * left):
            every = -(-every // 2)
        n_steps[bits] += 1
    if len(bits):
        from sklearn.exceptions import ConvergenceWarning  # not at every start

        warnings.warn(
            f"{len(bits)} of {svms.m} SVMs still gain more than {tol:g} of their objective per step after "
            f"{max_steps} steps; raise tol, lower C, or use solver='ocas'.",
            ConvergenceWarning,
            stacklevel=3,
        )
    converged = np.ones(svms.m, dtype=bool)
    converged[bits] = False
    # Smoothing may leave a warm start a hair better than where the steps led: then it stays.
    worse = svms.upper() > start[0]
    for name, values in start[1].items():
        getattr(svms, name)[worse] = values[worse]
    copies, originals, signs = followers
    svms.W[copies], svms.g[copies] = (each[originals] * signs[:, None] for each in (svms.W, svms.g))
    for each in (svms.risk, svms.price, svms.tilt, svms.spread, svms.width, excess, converged):
        each[copies] = each[originals]
    scale = svms.scale(tol, least)
    return Solution(svms.W.copy(), svms.upper(), excess, scale, None, n_steps, converged, history, svms)


class _Pairs:
    """The curvature pairs of L-BFGS for the open bits: moves ``s``, and changes ``y`` of the gradient."""

    def __init__(self, n_pairs: int) -> None:
        self.n_pairs = n_pairs
        self.pairs: list[tuple[Array, Array, Array]] = []  # s, y (bits × d) and 1 / s·y, or 0 for no pair
        self.scale: Array | float = 1.0

    def keep(self, still: Array) -> None:
        self.pairs = [(s[still], y[still], rho[still]) for s, y, rho in self.pairs]
        self.scale = self.scale[still] if isinstance(self.scale, np.ndarray) else self.scale

    def forget(self, which: Array) -> None:
        for _, _, rho in self.pairs:
            rho[which] = 0

    def add(self, s: Array, y: Array, gram: Gram) -> None:
        curvature, size = (
            np.einsum("jd,jd->j", s, y),
            np.square(gram.half_solve(y), dtype=np.float64).sum(axis=0),
        )
        good = curvature > 1e-8 * np.linalg.norm(s, axis=1) * np.linalg.norm(y, axis=1)
        self.pairs.append((s, y, np.where(good, 1 / np.where(good, curvature, 1), 0.0)))
        self.pairs = self.pairs[-self.n_pairs :]
        self.scale = np.where(good, curvature / np.maximum(size, 1e-300), 1.0)

    def times_gradient(self, r: Array, gram: Gram) -> Array:
        """The two loops of L-BFGS around ``H⁻¹``, for every row of ``r`` at once."""
        q, alphas = r.copy(), []
        for s, y, rho in reversed(self.pairs):
            alpha = rho * np.einsum("jd,jd->j", s, q)
            q -= alpha[:, None] * y
            alphas.append(alpha)
        h = np.reshape(self.scale, (-1, 1)) * gram.solve(q)
        for (s, y, rho), alpha in zip(self.pairs, reversed(alphas), strict=True):
            h += (alpha - rho * np.einsum("jd,jd->j", y, h))[:, None] * s
        uphill = np.einsum("jd,jd->j", h, r) <= 0
        if uphill.any():  # pairs spoilt by rounding: the shared Hessian alone always leads downhill
            self.forget(uphill)
            h[uphill] = gram.solve(r[uphill])
        return h


def _lengths(svms: SmoothSVMs, bits: Array, D: Array, slope: Array, every: int) -> Array:
    """How far to go along the directions ``D``, by every ``every``-th row; ``slope`` is the true one at 0."""
    W = svms.W[bits]
    both = np.concatenate([W, D]).T.astype(np.float32)
    Z, V = (np.concatenate(each) for each in zip(*svms.rows.map(_margins, both, bits, every), strict=True))
    weight, width = svms.C * len(svms.rows) / len(Z), svms.width[bits].astype(np.float32)
    w_dot_d, d_dot_d = (np.einsum("jd,jd->j", each, D) for each in (W, D))
    u, first = (1 - Z) / width + np.float32(0.5), np.clip((1 - Z) / width + np.float32(0.5), 0, 1) * V
    rate, size = V / width, np.maximum(np.einsum("ij,ij->j", first, first), 1e-30)
    error = w_dot_d - slope - weight * first.sum(axis=0, dtype=np.float64)

    def slope_at(t: Array) -> Array:
        pull = np.clip(u - t.astype(np.float32) * rate, 0, 1)
        pull *= V
        likeness = np.clip(np.einsum("ij,ij->j", pull, first) / size, 0, 1)
        return w_dot_d + t * d_dot_d - weight * pull.sum(axis=0, dtype=np.float64) - likeness * error

    return linesearch.search(slope_at, slope, d_dot_d, svms.settings.smooth_slope)


def _duplicates(words: Array) -> tuple[Array, Array]:
    """Bits whose columns are new, and ``(bits, originals, signs)`` of those that repeat one, or its opposite.

    Few classes can be split in few ways: two in one, four in seven. Longer codes repeat the splits.
    """
    found: dict[bytes, int] = {}
    copies = []
    for j, column in enumerate(words.T):
        original = found.setdefault((column * column[0]).tobytes(), j)
        if original != j:
            copies.append((j, original, int(column[0]) * int(words[0, original])))
    followers = np.array(copies, dtype=np.intp).reshape(-1, 3).T
    return np.setdiff1d(np.arange(words.shape[1]), followers[0]), followers


# What the blocks do.


def _sums(block: Block, bits: Array, W: Array, width: Array) -> Sums:
    Phi, Y = block["Phi"], block["Y"] if len(bits) == block["Y"].shape[1] else block["Y"][:, bits]
    scores = Phi @ W if W.any() else np.zeros(Y.shape, np.float32)
    return hinge_sums(Phi, Y, scores, width.astype(np.float32))


def _margins(block: Block, both: Array, bits: Array, every: int) -> tuple[Array, Array]:
    """Margins of some rows, and their rates along the directions."""
    Y, scores = block["Y"][::every, bits], block["Phi"][::every] @ both
    return Y * scores[:, : len(bits)], Y * scores[:, len(bits) :]


def hinge_sums(Phi: Array, Y: Array, scores: Array, width: Array) -> Sums:
    """The sums over rows that `SmoothSVMs` keeps, for every bit: risk, price, tilt, spread and ``g``."""
    u = np.multiply(Y, scores, dtype=np.float32)
    np.subtract(1, u, out=u)
    p = u / width
    p += np.float32(0.5)
    np.clip(p, 0, 1, out=p)
    squares = np.einsum("ij,ij->j", p, p)
    # The smoothed hinge is width/2 p² in the band, and u behind it, where p is 1.
    risk = np.maximum(u, 0).sum(axis=0, dtype=np.float64)
    beyond = np.maximum(u - width / 2, 0).sum(axis=0, dtype=np.float64)
    price = np.maximum(width / 2 * squares + beyond - risk, 0)
    tilt = risk - np.einsum("ij,ij->j", p, u) - price
    spread = p.sum(axis=0) - squares
    p *= Y
    return risk, price, tilt, spread, p.T @ Phi


@dataclass(frozen=True)
class GradientCounter(RowCounter):
    """Counts rows in and out of the sums; nothing is kept for a row."""

    width: Array
    every: int | None  # of the rows in the Gram matrix, if there is one
    counts: bool  # False where the sums are to be found again anyway

    def product(self, Phi: Array) -> tuple[Array, int] | None:
        return None if self.every is None else (sample_product(Phi, self.every), len(Phi))

    def enter(self, block: Block, rows: slice | Array) -> Sums | None:
        Y = block["Y"][rows]
        if not len(Y) or not self.counts:
            return None
        Phi = block.features(rows)
        return hinge_sums(Phi, Y, Phi @ self.W, self.width)

    leave = enter
