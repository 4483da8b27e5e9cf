"""The kernel map of a training set: its mean, its width, its anchors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sihash import codes
from sihash._typing import Array
from sihash.anchors import ANCHORS, class_anchors, shares_of_classes
from sihash.checks import check_count
from sihash.evaluation import leave_one_out
from sihash.kernel import KERNELS, KernelMap, extended_anchors, mean_of_rows, normalise, rbf
from sihash.threads import map_threads

NARROWEST_KERNEL, WIDEST_KERNEL = 1e-3, 1e3  # widths that make sense between unit vectors
# Widths as shares of the median distance. From 0.4 to 0.5, codes are within noise of the best on held-out
# rows of digits, MNIST, GIST, CLINC150 and Tiny-ImageNet, with 150 to 3,000 anchors: a finer choice would
# follow noise, and change with every collection. The others are for data that are clearly finer or coarser.
USUAL, OTHERS = 0.45, (0.2, 1.0)
CLEAR_GAIN = 0.05  # of mAP
WIDTH_ROWS, WIDTH_ANCHORS, WIDTH_BITS = 6000, 400, 32  # a third of the rows is held out
NO_DISTANCE = 1e-5  # squared distances of unit vectors in float32 that may as well be 0


def fit_kernel_map(
    X: Any,
    y: Array,
    n_anchors: int,
    anchors: Any,
    kernel_width: Any,
    rng: np.random.RandomState,
    kernel: str = "rbf",
    keys: Array | None = None,
) -> KernelMap:
    """The kernel map for rows ``X`` with class numbers ``y``; the other parameters are those of `SIH`.

    ``keys`` name the rows that anchors are made of. Only the rows that are drawn for anchors and width are
    normalised here, never all of ``X``.
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {kernel!r}.")
    mean = mean_of_rows(X) if isinstance(X, np.ndarray) else X.mean(axis=0, dtype=np.float64)
    if not np.isfinite(mean).all():
        from sklearn.utils import assert_all_finite  # not at every start

        assert_all_finite(X, input_name="X")
    if kernel == "linear":
        return KernelMap(mean, np.empty((0, X.shape[1]), np.float32), 1.0, kernel)
    width = _pick_width(X, mean, y, kernel_width, rng)
    if not isinstance(anchors, str):
        given = np.asarray(anchors, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != X.shape[1] or not np.isfinite(given).all():
            raise ValueError(
                f"anchors must be finite, with {X.shape[1]} columns like X, got shape {given.shape}."
            )
        return KernelMap(mean, normalise(given, mean).astype(np.float32), width, kernel)
    if anchors not in ANCHORS:
        raise ValueError(f"anchors must be {', '.join(map(repr, ANCHORS))} or an array, got {anchors!r}.")
    check_count("n_anchors", n_anchors)
    n = min(int(n_anchors), len(X))
    if n < n_anchors:
        warnings.warn(
            f"{n_anchors} anchors were asked for, but there are {n} rows: every row becomes an anchor.",
            UserWarning,
            stacklevel=2,
        )
    shares = shares_of_classes(np.bincount(y), n)
    points, classes, made_of = class_anchors(X, mean, y, shares, anchors, rng, keys)
    return KernelMap(mean, points, width, kernel, classes, made_of)


def _pick_width(X: Array, mean: Array, y: Array, kernel_width: Any, rng: np.random.RandomState) -> float:
    if isinstance(kernel_width, str):
        if kernel_width != "auto":
            raise ValueError(f"kernel_width must be 'auto' or a number, got {kernel_width!r}.")
        rows = rng.permutation(len(X))[:WIDTH_ROWS]
        return choose_width(normalise(X[rows], mean).astype(np.float32, copy=False), y[rows], rng)
    if isinstance(kernel_width, bool) or not NARROWEST_KERNEL <= kernel_width <= WIDEST_KERNEL:
        raise ValueError(
            f"kernel_width must be 'auto' or a number from {NARROWEST_KERNEL:g} to {WIDEST_KERNEL:g}, "
            f"got {kernel_width!r}."
        )
    return float(kernel_width)


def choose_width(Z: Array, y: Array, rng: np.random.RandomState) -> float:
    """The usual share of the median distance, unless another retrieves clearly better on held-out rows.

    ``Z`` are normalised rows, ``y`` class numbers. For every width a ridge regression onto random words of
    the classes stands in for the hash functions: cheap, and near enough to the SVMs.
    """
    sample = rng.permutation(len(Z))[:WIDTH_ROWS]
    n_valid = len(sample) // 3
    valid, train = sample[:n_valid], sample[n_valid:]
    anchors = Z[train[:WIDTH_ANCHORS]]
    median = _median_distance(Z[valid[:500]], anchors)
    if len(sample) < 20 or np.bincount(y[valid]).max(initial=0) < 2:
        return USUAL * median
    words = np.where(rng.uniform(size=(int(y.max()) + 1, WIDTH_BITS)) < 0.5, -1.0, 1.0)

    def score(share: float) -> float:
        E = extended_anchors(anchors, share * median)
        W = _ridge(rbf(Z[train], E), words[y[train]])
        packed = codes.pack(codes.sign(rbf(Z[valid], E) @ W))
        return leave_one_out(packed, y[valid]).mAP

    usual, *others = map_threads(score, (USUAL, *OTHERS))
    best = int(np.argmax(others))
    return (OTHERS[best] if others[best] > usual + CLEAR_GAIN else USUAL) * median


def _median_distance(P: Array, Q: Array) -> float:
    """Of rows that differ: a collection may hold one vector many times, an empty image, say."""
    squares = np.sum(P**2, axis=1)[:, None] - 2 * P @ Q.T + np.sum(Q**2, axis=1)
    differ = squares[squares > NO_DISTANCE]
    return float(np.sqrt(np.median(differ))) if len(differ) else 1.0


def _ridge(Phi: Array, targets: Array) -> Array:
    gram = Phi.T.astype(np.float64) @ Phi
    gram[np.diag_indices(len(gram))] += 1e-6 * np.trace(gram)
    return np.linalg.solve(gram, Phi.T @ targets)
