"""From vectors to features: centre, unit length, then the RBF of anchors, the vector itself, or both."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sihash._typing import Array
from sihash.threads import map_threads

MAPPED_ROWS = 2048  # rows mapped at a time: Φ of a block stays in cache while it is exponentiated
MIDDLE_ROWS = 1000  # from which the middle of a collection is found
FARTHEST = 30.0  # times the usual distance: photos, GIST, pixels and embeddings end at 2 to 6
# Rows so many times as far out are a mistake. The farthest of 10⁵ honest ones, measured: 3 · 10⁵ for
# log-normal columns (σ = 3), 6 · 10⁵ for Cauchy's. Only counts without a mean (Zipf's law, 1.5) come near.
ABSURD = 1e7
KERNELS = ("rbf", "linear", "rbf+linear")


def row_blocks(n: int, size: int = MAPPED_ROWS) -> Iterator[slice]:
    """Slices that cover ``range(n)`` in order."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def mean_of_rows(*parts: Array) -> Array:
    """The mean of all rows, in float64; no row that lies far from all others moves it far.

    Every row is seen from this mean, so that one wild row could bring all others on one side. So a row counts
    at most as `FARTHEST` times as far from the middle as is usual; of fewer than 300 rows, in which each
    weighs more, a tenth of their number. Where none is as far, which is the rule, it is the plain mean. A row
    that is out by more than `ABSURD` is told.
    """
    n = sum(map(len, parts))
    middle = Middle.of(*parts)
    farthest = middle.usual * min(FARTHEST, max(FARTHEST / 10, n / 10))

    def total(X: Array, rows: slice) -> Array:
        part = X[rows]
        distances = middle.distances(part)
        if not (farthest and (distances > farthest).any() and np.isfinite(distances).all()):
            return part.sum(axis=0, dtype=np.float64)
        for row, problem in middle.absurd(part).items():
            warnings.warn(
                f"Row {rows.start + row} is {problem}; is that a mistake?", UserWarning, stacklevel=2
            )
        moved = (part - middle.centre) * np.minimum(1, farthest / np.maximum(distances, farthest))[:, None]
        return moved.sum(axis=0) + len(part) * middle.centre

    sums = map_threads(lambda each: total(*each), [(X, rows) for X in parts for rows in row_blocks(len(X))])
    return np.add.reduce(sums) / n


@dataclass(frozen=True)
class Middle:
    """The median of some rows, column by column, and how far the others usually are from it."""

    centre: Array
    usual: float

    @classmethod
    def of(cls, *parts: Array) -> Middle:
        """From at most `MIDDLE_ROWS` rows, evenly spaced."""
        step = -(-sum(map(len, parts)) // MIDDLE_ROWS)
        some = np.concatenate([np.asarray(X[::step]) for X in parts])
        some = some[np.isfinite(some).all(axis=1)]
        if not len(some):
            return cls(np.zeros(some.shape[1]), 0.0)
        middle = cls(np.median(some, axis=0).astype(np.float64), 0.0)
        distances = middle.distances(some)
        elsewhere = distances[distances > 0]  # most may be one vector: an empty image, say
        return cls(middle.centre, float(np.median(elsewhere)) if len(elsewhere) else 0.0)

    def distances(self, X: Array) -> Array:
        """How far rows are from the middle."""
        D = X - self.centre  # in float64, whose squares do not overflow
        return np.sqrt(np.einsum("ij,ij->i", D, D))

    def absurd(self, X: Array) -> dict[int, str]:
        """Rows `ABSURD` times as far from the middle as is usual, by number, and what is wrong with each."""
        times = self.distances(X) / (self.usual or np.inf)
        out = {}
        for row in np.flatnonzero(times > ABSURD).tolist():
            column = int(np.argmax(np.abs(X[row] - self.centre)))
            out[row] = (
                f"a vector {times[row]:.0e} times as far from the others as is usual (the limit is "
                f"{ABSURD:.0e}): column {column} holds {X[row, column]:.4g}"
            )
        return out


def normalise(X: Array, mean: Array) -> Array:
    """Centre to ``mean``, then scale every row to unit length, in the float type of ``X``.

    A row equal to the mean has no direction and stays zero.
    """
    Z = np.empty(X.shape, X.dtype)
    _normalise(X, mean.astype(X.dtype), Z)
    return Z


def _normalise(X: Array, mean: Array, Z: Array) -> Array:
    """Normalised rows to ``Z``; returns their ‖z‖², 1 or 0."""
    np.subtract(X, mean, out=Z)
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", Z, Z)
    extreme = ~((squares > 1e-30) & (squares < 1e30))  # they may have left the range of float32
    if extreme.any():
        size = np.abs(Z[extreme]).max(axis=1)
        Z[extreme] /= np.where(size > 0, size, 1)[:, None]
        squares[extreme] = np.einsum("ij,ij->i", Z[extreme], Z[extreme])
    there = squares > 0
    Z /= np.sqrt(np.where(there, squares, 1), dtype=Z.dtype)[:, None]
    return there.astype(Z.dtype)


@dataclass(frozen=True)
class KernelMap:
    """The features φ(x) of vectors, ``z`` the normalised ``x``; the last one is 1 and stands for the bias.

    ``kind`` "rbf": ``[exp(−‖z − a_l‖² / 2σ²) for every anchor a_l] + [1]``. "linear": ``[z, 1]``, without
    anchors. "rbf+linear": both. ``mean`` has shape (n_features,), ``anchors`` (n_anchors, n_features) in
    normalised coordinates, ``width`` is σ. ``anchor_classes`` numbers the class that each anchor stands for,
    where they were chosen by class, and ``made_of`` (2 × n) names rows, and below each the anchor that it is
    part of, where that is known.
    """

    mean: Array
    anchors: Array
    width: float
    kind: str = "rbf"
    anchor_classes: Array | None = None
    made_of: Array | None = None

    def __post_init__(self) -> None:
        if self.anchors.ndim != 2 or self.mean.shape != self.anchors.shape[1:]:
            raise ValueError(
                f"Expected anchors (n × d) and a mean of d numbers, got shapes {self.anchors.shape} and "
                f"{self.mean.shape}."
            )
        if self.kind not in KERNELS:
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {self.kind!r}.")

    @property
    def n_features_out(self) -> int:
        return len(self.anchors) + (0 if self.kind == "rbf" else len(self.mean)) + 1

    def __call__(self, X: Array, out: Array | None = None) -> Array:
        """Φ of ``X`` (n × n_features_out) in the float type of ``X``; ``out`` is filled if given."""
        if out is None:
            out = np.empty((len(X), self.n_features_out), dtype=X.dtype)
        E = self._extended if out.dtype == self.anchors.dtype else self._extended.astype(out.dtype)
        mean, r = self.mean.astype(X.dtype), len(self.anchors)

        def fill(rows: slice) -> None:
            part, Phi = X[rows], out[rows]
            n, d = part.shape
            Z = np.empty((n, d + 2), dtype=part.dtype)  # with room for what the kernel adds to a row
            Z[:, d] = _normalise(part, mean, Z[:, :d])
            if self.kind == "rbf":
                _exponentiate(Z.astype(out.dtype, copy=False), E, Phi)
                return
            Phi[:, r:-1] = Z[:, :d]
            Phi[:, -1] = 1
            if r:
                Phi[:, :r] = _exponentiate(Z.astype(out.dtype, copy=False), E[:r], None)

        map_threads(fill, row_blocks(len(X)))
        return out

    @cached_property
    def _extended(self) -> Array:
        return extended_anchors(self.anchors, self.width)


def extended_anchors(A: Array, width: float) -> Array:
    """Anchors with two more columns, so that one product yields the whole exponent of the kernel.

    ``[z, ‖z‖², 1] · [a/σ², −1/2σ², −‖a‖²/2σ²] = −‖z − a‖² / 2σ²``. One more row, of zeros, yields
    the exponent 0 and so the constant feature 1.
    """
    r, d = A.shape
    E = np.zeros((r + 1, d + 2), dtype=A.dtype)
    E[:r, :d] = A / width**2
    E[:r, d] = -0.5 / width**2
    E[:r, d + 1] = -0.5 * np.einsum("ij,ij->i", A, A) / width**2
    return E


def rbf(Z: Array, extended: Array, out: Array | None = None) -> Array:
    """Kernel features of normalised rows against `extended_anchors`; ``out`` is filled if given."""
    n, d = Z.shape
    roomy = np.empty((n, d + 2), dtype=Z.dtype)
    roomy[:, :d], roomy[:, d] = Z, np.einsum("ij,ij->i", Z, Z)
    return _exponentiate(roomy, extended, out)


def _exponentiate(Z: Array, extended: Array, out: Array | None) -> Array:
    """`rbf` of rows that end with their ‖z‖² and room for one more column."""
    Z[:, -1] = 1
    exponent = np.matmul(Z, extended.T, out=out)
    np.minimum(exponent, 0, out=exponent)  # rounding can lift a point on its own anchor above 0
    return np.exp(exponent, out=exponent)
