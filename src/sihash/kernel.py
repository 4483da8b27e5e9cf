"""From vectors to kernel features: centre, unit length, anchors, RBF map with a bias column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np

from sihash._typing import Array
from sihash.threads import map_threads

BLOCK_ROWS = 2048  # rows mapped at a time: Φ of a block stays in cache while it is exponentiated


def row_blocks(n: int, size: int = BLOCK_ROWS) -> Iterator[slice]:
    """Slices that cover ``range(n)`` in order."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def mean_of_rows(X: Array) -> Array:
    """In float64, a few thousand rows at a time."""
    sums = map_threads(lambda rows: _sum(np.ascontiguousarray(X[rows])), row_blocks(len(X)))
    return np.add.reduce(sums) / len(X)


@numba.njit(nogil=True, cache=True)
def _sum(X: Array) -> Array:
    total = np.zeros(X.shape[1])
    for i in range(len(X)):
        for e in range(X.shape[1]):
            total[e] += X[i, e]
    return total


def normalise(X: Array, mean: Array) -> Array:
    """Centre to ``mean``, then scale every row to unit length, in the float type of ``X``.

    A row equal to the mean has no direction and stays zero.
    """
    Z = np.empty(X.shape, X.dtype)
    _normalise(np.ascontiguousarray(X), mean.astype(X.dtype), Z)
    return Z


@numba.njit(nogil=True, fastmath={"reassoc", "contract"}, cache=True)
def _normalise(X: Array, mean: Array, Z: Array) -> Array:
    """Normalised rows to the first columns of ``Z``, in one pass; returns their ‖z‖², 1 or 0."""
    n, d = X.shape
    lengths = np.zeros(n, mean.dtype)
    one, smallest, largest = mean.dtype.type(1), mean.dtype.type(1e-30), mean.dtype.type(1e30)
    for i in range(n):
        square = mean.dtype.type(0)
        for e in range(d):
            z = X[i, e] - mean[e]
            Z[i, e] = z
            square += z * z
        if not smallest < square < largest:  # it may have left the range of float32
            square = _rescale(Z[i, :d])
        if square > 0:
            scale = one / np.sqrt(square)
            for e in range(d):
                Z[i, e] *= scale
            lengths[i] = one
    return lengths


@numba.njit(nogil=True, cache=True)
def _rescale(z: Array) -> float:
    """Divide a row by its largest entry, if it has one; returns its squared length."""
    size = np.abs(z).max()
    if size > 0:
        z /= size
    return (z * z).sum()


@dataclass(frozen=True)
class KernelMap:
    """``φ(x) = [exp(−‖z − a_l‖² / 2σ²) for every anchor a_l] + [1]`` with ``z`` the normalised ``x``.

    ``mean`` has shape (n_features,), ``anchors`` (n_anchors, n_features) in normalised coordinates,
    ``width`` is σ. The last feature is the constant 1 that stands for the bias.
    """

    mean: Array
    anchors: Array
    width: float

    def __post_init__(self) -> None:
        if self.anchors.ndim != 2 or self.mean.shape != self.anchors.shape[1:]:  # compiled loops rely on it
            raise ValueError(
                f"Expected anchors (n × d) and a mean of d numbers, got shapes {self.anchors.shape} and "
                f"{self.mean.shape}."
            )

    @property
    def n_features_out(self) -> int:
        return len(self.anchors) + 1

    def __call__(self, X: Array, out: Array | None = None) -> Array:
        """Φ of ``X`` (n × (n_anchors + 1)) in the float type of ``X``; ``out`` is filled if given."""
        if out is None:
            out = np.empty((len(X), self.n_features_out), dtype=X.dtype)
        E = self._extended if out.dtype == self.anchors.dtype else self._extended.astype(out.dtype)

        mean = self.mean.astype(X.dtype)

        def fill(rows: slice) -> None:
            part = X[rows]
            n, d = part.shape
            Z = np.empty((n, d + 2), dtype=part.dtype)  # with room for what the kernel adds to a row
            Z[:, d] = _normalise(np.ascontiguousarray(part), mean, Z)
            _exponentiate(Z.astype(out.dtype, copy=False), E, out[rows])

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
    _cut_off(exponent)
    return np.exp(exponent, out=exponent)


@numba.njit(nogil=True, cache=True)
def _cut_off(exponent: Array) -> None:
    """No exponent above 0, where rounding can lift a point on its own anchor."""
    zero = exponent.dtype.type(0)
    for i in range(exponent.shape[0]):
        for j in range(exponent.shape[1]):
            exponent[i, j] = min(exponent[i, j], zero)


def choose_anchors(Z: Array, n_anchors: int, how: str, rng: np.random.RandomState) -> Array:
    """Pick ``n_anchors`` anchors for normalised rows ``Z``: rows drawn at random, or k-means centres."""
    if n_anchors >= len(Z):
        return Z.copy()
    if how == "random":
        return Z[rng.choice(len(Z), n_anchors, replace=False)]
    return kmeans_centres(Z, n_anchors, rng)


KMEANS_ROUNDS = 4
KMEANS_ROWS = 8  # rows a centre in the sample


def kmeans_centres(Z: Array, k: int, rng: np.random.RandomState) -> Array:
    """Unit-length centres of a few Lloyd rounds on a sample: matrix products only, half a second for 1,000.

    Anchors need to cover the data, not to be the optimum of k-means: measured on CIFAR-10, longer runs on
    more rows gave no better codes, and centres put back on the unit sphere, where the data lie, gave better
    ones. A centre that lost its rows is drawn anew.
    """
    sample = Z[rng.choice(len(Z), min(len(Z), KMEANS_ROWS * k), replace=False)]
    centres = sample[rng.choice(len(sample), k, replace=False)].copy()
    for _ in range(KMEANS_ROUNDS):
        nearest = _nearest(sample, centres)
        counts = np.bincount(nearest, minlength=k)
        order = np.argsort(nearest, kind="stable")
        filled = np.flatnonzero(counts)
        starts = np.concatenate([[0], np.cumsum(counts[filled])[:-1]])
        centres[filled] = np.add.reduceat(sample[order], starts, axis=0)
        lost = np.flatnonzero(counts == 0)
        centres[lost] = sample[rng.choice(len(sample), len(lost), replace=False)]
        lengths = np.sqrt(np.einsum("ij,ij->i", centres, centres))
        centres /= np.where(lengths > 0, lengths, 1)[:, None]
    return centres


def _nearest(Z: Array, centres: Array) -> Array:
    """The centre of largest product for every row: the nearest one, as centres have unit length."""
    parts = map_threads(lambda rows: np.argmax(Z[rows] @ centres.T, axis=1), row_blocks(len(Z), 1024))
    return np.concatenate(parts)
