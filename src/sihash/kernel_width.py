"""The kernel width, by a quick cross-validation on training rows."""

from __future__ import annotations

import numpy as np

from sihash import codes
from sihash._typing import Array
from sihash.evaluation import leave_one_out
from sihash.kernel import extended_anchors, rbf
from sihash.threads import map_threads

# Widths as shares of the median distance. From 0.4 to 0.5, codes are within noise of the best on held-out
# rows of digits, MNIST, GIST, CLINC150 and Tiny-ImageNet, with 150 to 3,000 anchors: a finer choice would
# follow noise, and change with every collection. The others are for data that are clearly finer or coarser.
USUAL, OTHERS = 0.45, (0.2, 1.0)
CLEAR_GAIN = 0.05  # of mAP
WIDTH_ROWS, N_ANCHORS, N_BITS = 6000, 400, 32  # a third of the rows is held out
NO_DISTANCE = 1e-5  # squared distances of unit vectors in float32 that may as well be 0


def choose_width(Z: Array, y: Array, rng: np.random.RandomState) -> float:
    """The usual share of the median distance, unless another retrieves clearly better on held-out rows.

    ``Z`` are normalised rows, ``y`` class numbers. For every width a ridge regression onto random words of
    the classes stands in for the hash functions: cheap, and near enough to the SVMs.
    """
    sample = rng.permutation(len(Z))[:WIDTH_ROWS]
    n_valid = len(sample) // 3
    valid, train = sample[:n_valid], sample[n_valid:]
    anchors = Z[train[:N_ANCHORS]]
    median = _median_distance(Z[valid[:500]], anchors)
    if len(sample) < 20 or np.bincount(y[valid]).max(initial=0) < 2:
        return USUAL * median
    words = np.where(rng.uniform(size=(int(y.max()) + 1, N_BITS)) < 0.5, -1.0, 1.0)

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
