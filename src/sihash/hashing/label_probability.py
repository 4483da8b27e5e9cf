"""Probabilities of labels of which a row may have several: what `SIH.predict` answers by then.

One logistic regression a label over margins that are clipped where the hinge is flat. Its rows are training
rows with the margins that they would have had they not been trained on (`class_probability`), so that it is
not over-confident.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.hashing.class_probability import clipped, margin_proba, margin_scores
from sihash.logistic import expit
from sihash.threads import map_threads

N_LABEL_ROWS = 20_000  # rows to learn from: labels are rare
WEIGHT_PENALTY = 1.0  # ½ WEIGHT_PENALTY ‖w‖² beside the summed losses
N_STEPS, SETTLED = 20, 1e-3  # of Newton's method, and what a step gains, or how far it goes, at least


@dataclass(frozen=True)
class MarginHead:
    """What sees classes in margins: of rows that have one class, or, with a ``threshold``, several labels."""

    coef: Array  # n_classes × (n_bits + 1), float32, the offset last
    threshold: float | None = None

    def proba(self, margins: Array) -> Array:
        """Probabilities (n × n_classes, float32) of margins (n × n_bits)."""
        proba = margin_proba if self.threshold is None else label_proba
        return proba(margins, self.coef)


def learn_label_head(margins: Array, Y: Array) -> MarginHead:
    """The head of rows with several labels, and the threshold of `predict`.

    ``margins`` are those of rows as if left out, ``Y`` (n × n_labels, bool) says which labels they have.
    """
    F = np.column_stack([clipped(margins), np.ones(len(margins))]).astype(np.float32)
    head = np.array(map_threads(lambda y: _logistic_regression(F, y), list(Y.T)), dtype=np.float32)
    return MarginHead(head, best_threshold(label_proba(margins, head), Y))


def _logistic_regression(F: Array, y: Array) -> Array:
    """Weights for the columns of ``F``, the last of which is constant, by Newton's method.

    One row more has the label and one has not, both without margins: no label is certain.
    """
    ridge = np.full(F.shape[1], WEIGHT_PENALTY)
    ridge[-1] = 0
    signs = np.where(y, -1, 1).astype(np.float32)

    def loss(w: Array) -> float:
        losses = np.logaddexp(0, signs * (F @ w.astype(np.float32))).sum(dtype=np.float64)
        return float(losses + np.logaddexp(0, [w[-1], -w[-1]]).sum() + 0.5 * ridge @ w**2)

    w = np.zeros(F.shape[1])
    w[-1] = np.log((y.sum() + 1) / (len(y) - y.sum() + 1))
    now = loss(w)
    for _ in range(N_STEPS):
        p, prior = expit(F @ w.astype(np.float32)), expit(w[-1])
        gradient = F.T @ (p - y) + ridge * w
        gradient[-1] += 2 * prior - 1
        H = (F * (p * (1 - p))[:, None]).T @ F + np.diag(ridge)
        H[-1, -1] += 2 * prior * (1 - prior)
        step = np.linalg.solve(H, gradient)
        while (new := loss(w - step)) > now and np.abs(step).max() > SETTLED:
            step /= 2
        if new >= now - SETTLED:
            break
        w, now = w - step, new
    return w


def label_proba(margins: Array, head: Array) -> Array:
    """Probabilities (n × n_labels, float32) of labels, each by itself, of margins (n × n_bits)."""
    return expit(margin_scores(margins, head))


def predicted(P: Array, threshold: float) -> Array:
    """Which labels to answer (bool, as ``P``): those that reach the threshold, and the likeliest always."""
    chosen = threshold <= P
    chosen[np.arange(len(P)), P.argmax(axis=1)] = True
    return chosen


def best_threshold(P: Array, Y: Array) -> float:
    """The threshold of the highest micro-F1 for probabilities ``P`` of labels that are ``Y``."""
    first = np.zeros(P.shape, dtype=bool)
    first[np.arange(len(P)), P.argmax(axis=1)] = True  # these are answered in any case
    order = np.argsort(-P[~first], kind="stable")
    others, right = P[~first][order], Y[~first][order]
    hits = Y[first].sum() + np.cumsum(right)
    n_answers = len(P) + np.arange(1, len(others) + 1)
    F1 = 2 * hits / (n_answers + Y.sum())
    ends = np.r_[np.diff(others) < 0, True]  # equal probabilities are answered together
    best = int(np.argmax(np.where(ends, F1, -1)))
    return float(others[best]) if F1[best] * (len(P) + Y.sum()) > 2 * Y[first].sum() else 1.0
