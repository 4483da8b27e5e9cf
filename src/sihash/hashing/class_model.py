"""Which class a row is of: one probability for predictions, rankings and classes that have just come.

The head classes are the label sets: with one label a row these are the classes. A row of head class k, seen
as a centred unit vector z, is normal around the mean m_k of its class with the covariance W of all classes,
and class means are themselves normal around μ with the covariance B (two-covariance Gaussians, or PLDA). Of
m_k only the mean c_k of n_k rows is known. In the basis in which W = 1 and B = diag ψ, with u the row,

    g = nψ/(nψ + 1),   v = 1 + ψ/(nψ + 1),   log N_k = −½ Σ_j [(u_j − g_j c_kj)²/v_j + log v_j]

so a class of one row predicts with the uncertainty of one row, and one of thousands as a linear discriminant.
Such classes have flat borders; the hash functions see curved ones. With the word b_k of a class and the
margins f of the row, clipped where the hinge is flat, the agreement is b_kᵀ clip(f) / n_bits, and

    log p_k = s·log N_k + w·agreement_k + prior·log n_k + constant.

A class that came after the hash functions has no word. It has the share that log p = t·log N + prior·log n
gives it, where n is at least that of a usual class; the others share out the rest as above. The probability
of a label is that of its sets together.

W is shrunk towards a multiple of the identity. How far, and s, w and t, are found on rows that neither the
statistics nor the hash functions have seen (`sihash.hashing.rehearsal`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from sihash._typing import Array
from sihash.kernel import row_blocks
from sihash.logistic import log_softmax
from sihash.threads import map_threads

SHRINKAGES = (0.02, 0.1, 0.3, 0.6, 0.8, 0.9)  # of W that are tried; between them log-loss hardly changes
SCALES = 1e-3, 3.0  # of s and t: data that separate well would send them to infinity
FEWEST_ASKING = 30  # rows: with fewer the default weights are as good a guess
SMALLEST_SPREAD = 1e-3  # of class means, as a share of W: classes that do not differ have no discriminant
LEAST_DIRECTION = 1e-4  # ψ of a direction that is kept, as a share of the largest


@dataclass(frozen=True, eq=False)
class Spread:
    """What all classes share: W = axes · diag(variances) · axesᵀ, and the numbers of the formula.

    ``threshold`` is the probability from which on `predict` answers a label, where rows have several.
    """

    variances: Array
    axes: Array
    shrinkage: float = 0.8
    normal: float = 0.1
    words: float = 0.0
    normal_alone: float = 0.1
    threshold: float | None = None

    @classmethod
    def of_rows(cls, Z: Array, y: Array) -> Self:
        """W of rows ``Z`` (unit vectors, float32) of head classes ``y``."""
        sums, sizes = sums_of(Z, y, int(y.max()) + 1)
        means = (sums / np.maximum(sizes, 1)[:, None]).astype(np.float32)

        def scatter(rows: slice) -> Array:
            D = Z[rows] - means[y[rows]]  # differences first: sums of squares would cancel
            return D.T @ D

        parts = map_threads(scatter, row_blocks(len(Z), 4096))
        W = np.add.reduce(parts, dtype=np.float64) / max(1, len(Z) - np.count_nonzero(sizes))
        if np.trace(W) <= 0:  # classes of one row each
            return cls(np.full(Z.shape[1], 1 / Z.shape[1]), np.eye(Z.shape[1]))
        variances, axes = np.linalg.eigh(W)
        return cls(np.maximum(variances, 0), axes.astype(np.float32))


def sums_of(Z: Array, y: Array, n: int) -> tuple[Array, Array]:
    """Sums (n × d, float64) and sizes (n,) of the rows of each class."""
    order = np.argsort(y, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(y[order]) > 0]) if len(y) else np.empty(0, dtype=np.intp)
    sums = np.zeros((n, Z.shape[1]))
    if len(y):
        sums[y[order[starts]]] = np.add.reduceat(Z[order], starts, axis=0, dtype=np.float64)
    return sums, np.bincount(y, minlength=n).astype(np.float64)


@dataclass(frozen=True, eq=False)
class ClassModel:
    """The formula above for K head classes.

    ``members`` are the positions of their labels, ``flat`` one after the other and ``counts`` (K,);
    ``sums`` (K × d) and ``sizes`` (K,) of their rows, ``words`` (K' × n_bits, ±1) of the first K' of them.
    """

    spread: Spread
    flat: Array
    counts: Array
    sums: Array
    sizes: Array
    words: Array
    prior: float = 0.5

    @property
    def n_labels(self) -> int:
        return int(self.flat.max()) + 1

    def log_proba(self, Z: Array, margins: Array) -> Array:
        """log p (n × n_labels) of unit vectors and their margins (n × n_bits)."""
        return self.of_labels(self.of_sets(self.log_normal(Z), self.agreement(margins)))

    def of_sets(self, log_normal: Array, agreement: Array) -> Array:
        """log p (n × K) of the head classes."""
        s, n = self.spread, self.words.shape[0]
        log_sizes = np.log(np.maximum(self.sizes, 1e-9))
        log_sizes[n:] = np.maximum(log_sizes[n:], log_sizes[:n].mean())  # they have only begun to come
        prior = self.prior * log_sizes
        known = s.normal * log_normal[:, :n] + s.words * agreement + prior[:n]
        if n == len(self.sizes):
            return log_softmax(known)
        alone = log_softmax(s.normal_alone * log_normal + prior)
        share = np.log(np.exp(alone[:, :n]).sum(axis=1, keepdims=True) + np.finfo(np.float32).tiny)
        return np.concatenate([log_softmax(known) + share, alone[:, n:]], axis=1)

    def of_labels(self, log_p: Array) -> Array:
        """log p (n × n_labels) of labels, from those of their sets."""
        if len(self.flat) == self.n_labels == len(self.counts):  # one label each
            out = np.empty_like(log_p)
            out[:, self.flat] = log_p
            return out
        which = np.repeat(np.arange(len(self.counts)), self.counts)
        order = np.argsort(self.flat, kind="stable")
        starts = np.searchsorted(self.flat[order], np.arange(self.n_labels))
        return np.minimum(np.logaddexp.reduceat(log_p[:, which[order]], starts, axis=1), 0)

    def agreement(self, margins: Array) -> Array:
        """How far margins agree with the words (n × K'), −1 to 1."""
        F = np.clip(margins, -1, 1).astype(np.float32, copy=False)
        return F @ self.words.T.astype(np.float32) / self.words.shape[1]

    def log_normal(self, Z: Array) -> Array:
        """log N (n × K), but for a constant of each row."""
        mean, T, square, linear, constant = self._normal
        U = (Z - mean) @ T
        out = (U * U) @ square.T + U @ linear.T + constant
        return out - out.max(axis=1, keepdims=True)

    @cached_property
    def _normal(self) -> tuple[Array, ...]:
        """μ, the basis, and log N_k as a polynomial of u: squares, products and constants."""
        mean, T, psi = self._basis()
        n = self.sizes[:, None]
        C = (self.sums / np.maximum(n, 1e-9) - mean) @ T
        g, v = n * psi / (n * psi + 1), 1 + psi / (n * psi + 1)
        constant = -0.5 * ((g * C) ** 2 / v + np.log(v)).sum(axis=1)
        parts = (mean, T, -0.5 / v, g * C / v, constant)
        return tuple(np.ascontiguousarray(part, dtype=np.float32) for part in parts)

    def _basis(self) -> tuple[Array, Array, Array]:
        """μ (d,), the basis in which W = 1 and B = diag ψ (d × r), and ψ (r,), the largest directions of B.

        ψ by moments of the class means: classes weigh as the noise of their means allows, and that noise is
        subtracted.
        """
        s, n = self.spread, self.sizes
        live = n > 0
        n = n[live]
        M = self.sums[live] / n[:, None]
        mean = np.average(M, axis=0, weights=n / (n + 1))
        variances = (1 - s.shrinkage) * s.variances + s.shrinkage * s.variances.mean()
        scaled = s.axes / np.sqrt(np.maximum(variances, 1e-12))
        C, d = (M - mean) @ scaled, len(variances)
        squares = (C * C).sum(axis=1) / d
        b = max(float(np.mean(squares - 1 / n)), SMALLEST_SPREAD)
        for _ in range(3):
            weights = (b + 1 / n) ** -2
            b = max(float(np.average(squares - 1 / n, weights=weights)), SMALLEST_SPREAD)
        weights = (b + 1 / n) ** -2 / np.sum((b + 1 / n) ** -2)
        R = C * np.sqrt(weights)[:, None]
        if len(n) < d:
            f, Q = np.linalg.eigh(R @ R.T)
            there = f > 1e-10 * max(f.max(), 1e-30)
            f, V = f[there], R.T @ (Q[:, there] / np.sqrt(f[there]))
        else:
            f, V = np.linalg.eigh(R.T @ R)
        if not len(f):
            return mean, scaled[:, :1], np.zeros(1)
        f = f - weights @ (1 / n)
        kept = f > LEAST_DIRECTION * f.max()
        if not kept.any():  # nothing but noise
            kept, f = f == f.max(), np.full(len(f), SMALLEST_SPREAD)
        return mean, scaled @ V[:, kept], f[kept] * (b * d / f[kept].sum())

    def with_rows(self, Z: Array, which: Array, sets: Sequence[Sequence[int]]) -> Self:
        """With the statistics of more rows; ``which`` of the ``sets`` of positions of labels each has.

        Labels may be new.
        """
        parts = np.split(self.flat, np.cumsum(self.counts)[:-1])
        number = {frozenset(own.tolist()): k for k, own in enumerate(parts)}
        n_known = len(number)
        place = np.array([number.setdefault(frozenset(own), len(number)) for own in sets], dtype=np.intp)
        fresh = [sorted(own) for own in list(number)[n_known:]]
        sums, sizes = sums_of(Z, place[which], len(number))
        sums[:n_known] += self.sums
        sizes[:n_known] += self.sizes
        return replace(
            self,
            flat=np.concatenate([self.flat, np.array([k for own in fresh for k in own], dtype=np.intp)]),
            counts=np.concatenate([self.counts, np.array([*map(len, fresh)], dtype=np.intp)]),
            sums=sums,
            sizes=sizes,
        )


@dataclass(frozen=True)
class Asking:
    """Rows that a model has not seen: unit vectors, margins, and the head class of each, a place in it."""

    model: ClassModel
    Z: Array
    margins: Array
    y: Array


def fit_weights(parts: Sequence[Asking], several: bool) -> Spread:
    """The spread of the first model with the numbers under which the head classes are likeliest.

    Every class counts alike; label sets, most of them rare, by their rows.
    """
    spread = parts[0].model.spread
    if sum(len(part.y) for part in parts) < FEWEST_ASKING:
        return spread
    weights = [np.ones(len(part.y)) if several else 1 / np.bincount(part.y)[part.y] for part in parts]
    total = sum(float(w.sum()) for w in weights)

    def loss_and_slope(x: Array, factors: Sequence[Sequence[Array]]) -> tuple[float, Array]:
        """−log p of the right classes, and its slope in the weights of the factors."""
        value, slope = 0.0, np.zeros(len(x))
        for part, w, prior, own in zip(parts, weights, priors, factors, strict=True):
            rows = np.arange(len(part.y))
            log_p = log_softmax(sum(each * factor for each, factor in zip(x, own, strict=True)) + prior)
            value -= float(w @ log_p[rows, part.y])
            P = np.exp(log_p)
            slope += [float(w @ (np.einsum("ij,ij->i", P, f) - f[rows, part.y])) for f in own]
        return value / total, slope / total

    from scipy.optimize import minimize, minimize_scalar  # only learning needs it

    priors = [part.model.prior * np.log(part.model.sizes) for part in parts]
    least: tuple[float, float, float, list[Array]] = (np.inf, 0.0, 0.0, [])
    for shrinkage in SHRINKAGES:
        models = [replace(p.model, spread=replace(p.model.spread, shrinkage=shrinkage)) for p in parts]
        normal = [model.log_normal(part.Z) for model, part in zip(models, parts, strict=True)]

        def loss_at(
            log_t: float, alone: Sequence[Sequence[Array]] = tuple([each] for each in normal)
        ) -> float:
            return loss_and_slope(np.exp([log_t]), alone)[0]

        found = minimize_scalar(loss_at, bounds=np.log(SCALES), method="bounded", options={"xatol": 0.05})
        if found.fun < least[0]:
            least = float(found.fun), shrinkage, float(np.exp(found.x)), normal
    _, shrinkage, alone, normal = least
    units = alone, 10.0  # of the two weights, so that both are near 1
    both = [
        (units[0] * each, units[1] * part.model.agreement(part.margins))
        for each, part in zip(normal, parts, strict=True)
    ]
    best = minimize(
        loss_and_slope, [0.5, 0.5], (both,), jac=True, method="L-BFGS-B", bounds=[(0, 10), (0, 20)]
    ).x
    spread = replace(
        spread,
        shrinkage=shrinkage,
        normal=float(units[0] * best[0]),
        words=float(units[1] * best[1]),
        normal_alone=alone,
    )
    return replace(spread, threshold=_threshold(parts, spread)) if several else spread


def _threshold(parts: Sequence[Asking], spread: Spread) -> float:
    """The threshold of the highest micro-F1 on the rows that ask."""
    P, Y = [], []
    for part in parts:
        model = replace(part.model, spread=replace(spread, variances=part.model.spread.variances,
                                                   axes=part.model.spread.axes))  # fmt: skip
        P.append(np.exp(model.log_proba(part.Z, part.margins)))
        has = np.zeros((len(model.counts), model.n_labels), dtype=bool)
        has[np.repeat(np.arange(len(model.counts)), model.counts), model.flat] = True
        Y.append(has[part.y])
    return best_threshold(np.concatenate(P), np.concatenate(Y))


def answered(P: Array, threshold: float) -> Array:
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
