"""Class probabilities from the margins of a vector: what `SIH.predict` answers by.

The margins of a class scatter around a mean of their own, near its word, and all classes scatter alike. So
the classes are told apart by a linear discriminant over margins that are clipped where the hinge is flat:
``p_k ∝ exp(t (μ_kᵀ Σ⁻¹ f − ½ μ_kᵀ Σ⁻¹ μ_k))`` with ``f = clip(margins, −1, 1)``.

The SVMs have fitted the training rows, whose margins are wider than those of rows to come. The slope ``t``
is therefore set by margins as they would be had the SVMs never seen the row: leaving row i out moves its
score by about ``C π_i φ_iᵀ H⁻¹ φ_i`` against its bit, H the Hessian of the SVMs, π_i the slope of its hinge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.hashing.class_sample import class_sizes, joined, rows_at, strides
from sihash.logistic import log_softmax, softmax
from sihash.svm.blocks import Block, RowBlocks

MARGIN_ROWS, MARGIN_ROWS_PER_CLASS = (
    10_000,
    20,
)  # for means and scatter: so many in all, and of each class, if there are
N_LEFT_OUT = 2000  # rows that tell how the SVMs do on rows to come
PRIOR_ROWS = 5  # rows that a class word counts for in the mean of its class
SCATTER_RIDGE, LEAST = 0.05, 1e-3  # added to the variances: a share of their mean, and of a margin of 1
ROWS_PER_ANCHOR = 3  # on average; with fewer, rows that lose their anchor look worse than rows to come
LEAST_TOWARD = 0.2  # of how far a bit follows its word on training rows
LOWEST, HIGHEST = -9.0, 0.0  # logarithm of the slope t: 0 would be right if margins were normal


def learn_class_margins(
    rows: RowBlocks,
    W: Array,
    positions: Array,
    words: Array,
    leverage: Callable[[Array], Array],
    anchor_classes: Array | None,
) -> Array:
    """The head (n_classes × (n_bits + 1)) for trained SVMs ``W`` (n_bits × d), from a sample of their rows.

    ``positions`` has the row of the head for every class number, ``words`` are those of the classes,
    ``leverage`` gives ``C φᵀH⁻¹φ`` of rows of Φ, ``anchor_classes`` the class number of each anchor.
    """
    V = W.T.astype(np.float32)
    every = strides(rows, len(positions), MARGIN_ROWS, MARGIN_ROWS_PER_CLASS)
    scores, y = joined(rows.map(_some_scores, V, every))
    sample = leave_out(rows, W, positions, leverage, anchor_classes, N_LEFT_OUT)
    return class_margins(scores, positions[y], words, sample)


def leave_out(
    rows: RowBlocks,
    W: Array,
    positions: Array,
    leverage: Callable[[Array], Array],
    anchor_classes: Array | None,
    n: int,
) -> LeftOut:
    """About ``n`` evenly spaced training rows; the parameters are as above."""
    Phi, bits, y, keys, pairs = joined(rows.map(_evenly_spaced, max(1, len(rows) // n)))
    V = W.T.astype(np.float32)
    moved = np.zeros((len(Phi), len(W)), dtype=np.float32)
    if anchor_classes is not None and len(rows) >= ROWS_PER_ANCHOR * len(anchor_classes):
        moved = _without_own_anchor(Phi, y, V, class_sizes(rows, len(positions)), anchor_classes)
    return LeftOut(Phi @ V, bits, positions[y], leverage(Phi), moved, keys, pairs)


def _without_own_anchor(Phi: Array, y: Array, V: Array, sizes: Array, anchor_classes: Array) -> Array:
    """How far scores move if each row had no part in the anchor that it helped to make.

    An anchor is the mean of some n rows of a class. Without one of them it lies n/(n − 1) times as far from
    that row, so the kernel there is what it was to the power (n/(n − 1))²; an only row has no anchor at all.
    """
    per_class = np.bincount(anchor_classes, minlength=len(sizes))
    n = sizes[y] / np.maximum(per_class[y], 1)
    rows, r = np.flatnonzero(per_class[y]), len(anchor_classes)
    own = np.where(anchor_classes == y[rows, None], Phi[rows, :r], -1).argmax(axis=1)
    near = Phi[rows, own]
    n = n[rows]
    left = np.where(n > 1, near ** np.square(n / np.maximum(n - 1, 1e-9)), 0)
    moved = np.zeros((len(Phi), V.shape[1]), dtype=np.float32)
    moved[rows] = (left - near)[:, None] * V[own]
    return moved


def _some_scores(block: Block, V: Array, every: Array) -> tuple[Array, Array]:
    chosen = rows_at(block["y"], every)
    return block.features(chosen) @ V, block["y"][chosen]


def _evenly_spaced(block: Block, every: int) -> tuple[Array, ...]:
    some = slice(None, None, every)
    return block.features(some), *(block[name][some] for name in ("Y", "y", "key", "pair"))


@dataclass(frozen=True)
class LeftOut:
    """Some training rows, to see how the SVMs do on rows that they were not trained on."""

    scores: Array  # n × n_bits, by the trained SVMs
    bits: Array  # n × n_bits, the ±1 that they were trained to give
    y: Array  # positions of their classes
    leverage: Array  # C φᵀH⁻¹φ of each row
    moved: Array  # n × n_bits, what its own anchor would change
    keys: Array
    pairs: Array  # numbers in the code table

    def without_themselves(self) -> Array:
        """Scores as they would be had each row not been trained on."""
        slope = np.clip(2.5 - 2 * self.bits * self.scores, 0, 1)  # of the hinge, its kink rounded off
        by_anchor = -self.bits * self.moved
        return self.scores - self.bits * np.maximum(slope * self.leverage[:, None], by_anchor)


def class_margins(scores: Array, y: Array, words: Array, sample: LeftOut) -> Array:
    """The head (float32, the offset last) for `margin_proba`.

    ``scores`` (n × n_bits) and class positions ``y`` are those of training rows, ``words`` (±1) of classes.
    """
    F, unseen = clipped(scores), clipped(sample.without_themselves())
    own = words[sample.y]
    seen = np.mean(clipped(sample.scores) * own, axis=0)
    # How far a bit follows its word on rows to come: less than on training rows, but never against it.
    toward = np.maximum(np.mean(unseen * own, axis=0), LEAST_TOWARD * seen)
    lost = seen - toward
    n = np.bincount(y, minlength=len(words)).astype(np.float64)[:, None]
    sums = _sums_by_class(F, y, len(words)) + (PRIOR_ROWS * toward - n * lost) * words
    means = sums / (n + PRIOR_ROWS)
    rest = F - means[y]
    scatter = rest.T @ rest / len(F)
    scatter[np.diag_indices(len(scatter))] += SCATTER_RIDGE * np.trace(scatter) / len(scatter) + LEAST
    inverse = np.linalg.inv(scatter)
    coef = means @ inverse
    T = unseen @ coef.T - 0.5 * np.einsum("kj,kj->k", means, coef)
    # A row is not in the mean of its class either.
    others = (sums[sample.y] - unseen) / (n[sample.y] - 1 + PRIOR_ROWS)
    T[np.arange(len(T)), sample.y] = np.einsum("ij,ij->i", unseen - 0.5 * others, others @ inverse)
    t = _slope(T, sample.y)
    return np.column_stack([t * coef, -0.5 * t * np.einsum("kj,kj->k", means, coef)]).astype(np.float32)


def margin_proba(scores: Array, head: Array) -> Array:
    """Probabilities (n × n_classes, float32) of classes, of which a row has one, by margins (n × n_bits)."""
    return softmax(margin_scores(scores, head), axis=1)


def margin_scores(scores: Array, head: Array) -> Array:
    """Log-probabilities of the classes but for a constant of each row."""
    return clipped(scores.astype(np.float32, copy=False)) @ head[:, :-1].T + head[:, -1]


def clipped(scores: Array) -> Array:
    return np.clip(scores, -1, 1)


def _sums_by_class(F: Array, y: Array, n_classes: int) -> Array:
    sums = np.zeros((n_classes, F.shape[1]))
    order = np.argsort(y, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(y[order]) > 0])
    sums[y[order[starts]]] = np.add.reduceat(F[order], starts, axis=0, dtype=np.float64)
    return sums


def _slope(T: Array, y: Array) -> float:
    """The likeliest ``t``, as if one row more had been seen, its class any."""
    rows, wrong = np.arange(len(T)), 1 / (len(T) + 1)

    def loss(log_t: float) -> float:
        log_p = log_softmax(np.exp(log_t) * T, axis=1)
        return float(-(1 - wrong) * log_p[rows, y].mean() - wrong * log_p.mean())

    from scipy.optimize import minimize_scalar  # only learning needs it

    return float(np.exp(minimize_scalar(loss, bounds=(LOWEST, HIGHEST), method="bounded").x))
