"""Where the anchors of the kernel lie: k-means centres, or rows, of every class."""

from __future__ import annotations

from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.kernel import normalise, row_blocks
from sihash.splitmix import mixed
from sihash.threads import map_threads

ANCHORS = ("classes", "random")
KMEANS_ROUNDS = 4
KMEANS_ROWS = 8  # rows of the sample per centre
MOST_ANCHORS = 2000  # unless more are asked for: the cost grows with the square of their number
MEAN_ROWS = 64  # rows at most in the mean of a class that has one anchor


def shares_of_classes(sizes: Array, n_anchors: int, names: Array | None = None) -> Array:
    """How many of ``n_anchors`` each class gets: by its size, but one at least and no more than it has rows.

    With more classes than anchors every class gets one all the same, as long as there are two rows for each
    and no more than `MOST_ANCHORS`; then the largest do, and of equal ones some at random, by their numbers
    (``names``).
    """
    most = max(n_anchors, min(int(sizes.sum()) // 2, MOST_ANCHORS))
    if len(sizes) > most:
        chance = mixed(np.arange(len(sizes)) if names is None else names)
        shares = np.zeros(len(sizes), dtype=np.intp)
        shares[np.lexsort((chance, -sizes))[:most]] = 1
        return shares
    shares = np.maximum(1, np.floor(n_anchors * sizes / sizes.sum())).astype(np.intp)
    while shares.sum() < min(n_anchors, sizes.sum()):  # what rounding left: to those that lack most
        lack = np.where(shares < sizes, n_anchors * sizes / sizes.sum() - shares, -np.inf)
        left = min(n_anchors, sizes.sum()) - shares.sum()
        shares[np.argsort(-lack, kind="stable")[: min(left, np.isfinite(lack).sum())]] += 1
    while shares.sum() > max(n_anchors, len(sizes)):  # what classes of less than one anchor took
        shares[np.argmax(shares)] -= 1
    return np.minimum(shares, sizes)


def rows_for_anchors(y: Array, shares: Array, how: str, rng: np.random.RandomState) -> Array:
    """Numbers of the rows that the anchors of each class are made of, class after class."""
    shuffled = rng.permutation(len(y))
    order = shuffled[np.argsort(y[shuffled], kind="stable")]
    starts = np.searchsorted(y[order], np.arange(len(shares) + 1))
    wanted = n_rows_wanted(shares, how)
    rank = np.arange(len(order)) - starts[y[order]]
    return order[rank < wanted[y[order]]]


def n_rows_wanted(shares: Array, how: str) -> Array:
    """Rows of each class that its anchors are chosen from."""
    return shares if how == "random" else np.where(shares == 1, MEAN_ROWS, KMEANS_ROWS * shares)


def class_anchors(
    X: Any,
    mean: Array,
    y: Array,
    shares: Array,
    how: str,
    rng: np.random.RandomState,
    keys: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Anchors of every class in normalised coordinates, the class of each, and what they are made of.

    ``shares`` counts the anchors of each class number in ``y``. ``how`` "random" takes rows as they are; else
    they are unit-length k-means centres, and a class with one anchor is its mean. What they are made of are
    the ``keys`` of rows (default: their numbers), and below each the anchor that it is part of. Only the rows
    that are drawn are normalised.
    """
    rows = rows_for_anchors(y, shares, how, rng)
    Z, y = normalise(X[rows], mean).astype(np.float32, copy=False), y[rows]
    shares = np.minimum(shares, np.bincount(y, minlength=len(shares)))
    starts = np.searchsorted(y, np.arange(len(shares) + 1))
    seeds = rng.randint(2**31 - 1, size=len(shares))

    def centres(k: int) -> tuple[Array, Array]:
        own = Z[starts[k] : starts[k + 1]]
        if shares[k] == 1 and how != "random":
            return _unit(own.mean(axis=0, keepdims=True)), np.stack(
                [np.arange(len(own)), np.zeros(len(own), int)]
            )
        if how == "random" or shares[k] == len(own):
            return own[: shares[k]], np.stack([np.arange(shares[k])] * 2)
        return kmeans_centres(own, int(shares[k]), np.random.RandomState(seeds[k]))

    points, classes, made_of, n = [], [], [], 0
    for k in np.flatnonzero(shares).tolist():
        found, parts = centres(k)
        points.append(found)
        classes.append(np.full(len(found), k))
        made_of.append(parts + np.array([[starts[k]], [n]]))
        n += len(found)
    places, anchors = np.concatenate(made_of, axis=1)
    names = rows if keys is None else keys[rows]
    return np.concatenate(points), np.concatenate(classes), np.stack([names[places], anchors])


def kmeans_centres(Z: Array, k: int, rng: np.random.RandomState) -> tuple[Array, Array]:
    """Unit-length centres of a few Lloyd rounds on a sample: matrix products only, half a second for 1,000.

    Anchors need to cover the data, not to be the optimum of k-means: measured on CIFAR-10, longer runs on
    more rows gave no better codes, and centres put back on the unit sphere, where the data lie, gave better
    ones. A centre that lost its rows is drawn again. Also says what they are made of.
    """
    numbers = rng.choice(len(Z), min(len(Z), KMEANS_ROWS * k), replace=False)
    sample = Z[numbers]
    centres = sample[rng.choice(len(sample), k, replace=False)].copy()
    for _ in range(KMEANS_ROUNDS):
        nearest = _nearest(sample, centres)
        counts = np.bincount(nearest, minlength=k)
        order = np.argsort(nearest, kind="stable")
        filled = np.flatnonzero(counts)
        starts = np.concatenate([[0], np.cumsum(counts[filled])[:-1]])
        centres[filled] = np.add.reduceat(sample[order], starts, axis=0)
        lost = np.flatnonzero(counts == 0)
        drawn = rng.choice(len(sample), len(lost), replace=False)
        centres[lost] = sample[drawn]
        centres = _unit(centres)
    made_of = np.stack([np.r_[numbers, numbers[drawn]], np.r_[nearest, lost]])
    return centres, made_of


def _unit(A: Array) -> Array:
    lengths = np.sqrt(np.einsum("ij,ij->i", A, A))
    return A / np.where(lengths > 0, lengths, 1)[:, None]


def _nearest(Z: Array, centres: Array) -> Array:
    """The centre of largest product for every row: the nearest one, as centres have unit length."""
    parts = map_threads(lambda rows: np.argmax(Z[rows] @ centres.T, axis=1), row_blocks(len(Z), 1024))
    return np.concatenate(parts)
