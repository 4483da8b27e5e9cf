"""The kernel map of a training set: its mean, its width, its anchors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.anchors import (
    ANCHORS,
    KMEANS_ROWS,
    choose_anchors,
    class_anchors,
    rows_for_anchors,
    shares_of_classes,
)
from sihash.checks import check_count
from sihash.kernel import KERNELS, KernelMap, mean_of_rows, normalise
from sihash.kernel_width import WIDTH_ROWS, choose_width

NARROWEST_KERNEL, WIDEST_KERNEL = 1e-3, 1e3  # widths that make sense between unit vectors


def fit_kernel_map(
    X: Array,
    numbers: Array,
    n_anchors: int,
    anchors: Any,
    kernel_width: Any,
    rng: np.random.RandomState,
    kernel: str = "rbf",
) -> KernelMap:
    """The kernel map for rows ``X`` with class ``numbers``; the other parameters are those of `SIH`.

    Only the rows that are drawn for anchors and width are normalised here, never all of ``X``.
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {kernel!r}.")
    mean = mean_of_rows(X) if isinstance(X, np.ndarray) else X.mean(axis=0, dtype=np.float64)
    if not np.isfinite(mean).all():
        from sklearn.utils import assert_all_finite  # not at every start

        assert_all_finite(X, input_name="X")
    if kernel == "linear":
        return KernelMap(mean, np.empty((0, X.shape[1]), np.float32), 1.0, kernel)
    width = _pick_width(X, mean, numbers, kernel_width, rng)
    points, classes, made_of = _pick_anchors(X, mean, numbers, n_anchors, anchors, rng)
    return KernelMap(mean, points, width, kernel, classes, made_of)


def _pick_width(
    X: Array, mean: Array, numbers: Array, kernel_width: Any, rng: np.random.RandomState
) -> float:
    if isinstance(kernel_width, str):
        if kernel_width != "auto":
            raise ValueError(f"kernel_width must be 'auto' or a number, got {kernel_width!r}.")
        rows = rng.permutation(len(X))[:WIDTH_ROWS]
        return choose_width(_normalised(X, rows, mean), numbers[rows], rng)
    if isinstance(kernel_width, bool) or not NARROWEST_KERNEL <= kernel_width <= WIDEST_KERNEL:
        raise ValueError(
            f"kernel_width must be 'auto' or a number from {NARROWEST_KERNEL:g} to {WIDEST_KERNEL:g}, "
            f"got {kernel_width!r}."
        )
    return float(kernel_width)


def _pick_anchors(
    X: Array, mean: Array, numbers: Array, n_anchors: int, anchors: Any, rng: np.random.RandomState
) -> tuple[Array, Array | None, Array | None]:
    """Anchors in normalised coordinates: chosen from the rows, or given in the coordinates of ``X``.

    Those that were chosen by class come with their classes, and all that were chosen with what they are made
    of.
    """
    if not isinstance(anchors, str):
        given = np.asarray(anchors, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != X.shape[1] or not np.isfinite(given).all():
            raise ValueError(
                f"anchors must be finite, with {X.shape[1]} columns like X, got shape {given.shape}."
            )
        return normalise(given, mean).astype(np.float32), None, None
    if anchors not in ANCHORS:
        raise ValueError(f"anchors must be {', '.join(map(repr, ANCHORS))} or an array, got {anchors!r}.")
    check_count("n_anchors", n_anchors)
    n = min(int(n_anchors), len(X))
    if n < n_anchors:
        warnings.warn(
            f"{n_anchors} anchors were asked for, but there are {n} rows: every row becomes an anchor.",
            UserWarning,
            stacklevel=4,
        )
    if anchors != "kmeans":
        shares = shares_of_classes(np.bincount(numbers), n)
        rows = rows_for_anchors(numbers, shares, anchors, rng)
        points, classes, made_of = class_anchors(
            _normalised(X, rows, mean), numbers[rows], shares, anchors, rng
        )
        return points, classes, renamed(made_of, rows)
    rows = rng.permutation(len(X))[: KMEANS_ROWS * n]
    points, made_of = choose_anchors(_normalised(X, rows, mean), n, anchors, rng)
    return points, None, renamed(made_of, rows)


def renamed(made_of: Array, names: Array) -> Array:
    """What anchors are made of, with row k called ``names[k]``."""
    return np.stack([names[made_of[0]], made_of[1]])


def _normalised(X: Array, rows: Array, mean: Array) -> Array:
    return normalise(X[rows], mean).astype(np.float32, copy=False)
