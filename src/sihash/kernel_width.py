"""The kernel width, by a quick cross-validation on training rows."""

from __future__ import annotations

import numpy as np

from sihash import codes
from sihash._typing import Array
from sihash.evaluation import leave_one_out
from sihash.kernel import extended_anchors, rbf
from sihash.threads import map_threads

SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 1.0, 1.5)  # widths tried, as shares of the median distance
WIDTH_ROWS, N_ANCHORS, N_BITS = 6000, 400, 32  # a third of the rows is held out
NO_DISTANCE = 1e-5  # squared distances of unit vectors in float32 that may as well be 0


def choose_width(Z: Array, y: Array, rng: np.random.RandomState) -> float:
    """The width σ whose codes retrieve best on rows held out from training.

    ``Z`` are normalised rows, ``y`` class numbers. For every width a ridge regression onto random words of
    the classes stands in for the hash functions: cheap, and its best width is near enough to that of the
    SVMs. With fewer than 20 rows, or no class of two, the median distance is taken as it is.
    """
    sample = rng.permutation(len(Z))[:WIDTH_ROWS]
    n_valid = len(sample) // 3
    valid, train = sample[:n_valid], sample[n_valid:]
    anchors = Z[train[:N_ANCHORS]]
    median = _median_distance(Z[valid[:500]], anchors)
    if len(sample) < 20 or np.bincount(y[valid]).max(initial=0) < 2:
        return median
    words = np.where(rng.uniform(size=(int(y.max()) + 1, N_BITS)) < 0.5, -1.0, 1.0)

    def score(share: float) -> float:
        E = extended_anchors(anchors, share * median)
        W = _ridge(rbf(Z[train], E), words[y[train]])
        packed = codes.pack(codes.sign(rbf(Z[valid], E) @ W))
        return leave_one_out(packed, y[valid]).mAP

    scores = map_threads(score, SHARES)
    return SHARES[int(np.argmax(scores))] * median


def _median_distance(P: Array, Q: Array) -> float:
    """Of rows that differ: a collection may hold one vector many times, an empty image, say."""
    squares = np.sum(P**2, axis=1)[:, None] - 2 * P @ Q.T + np.sum(Q**2, axis=1)
    differ = squares[squares > NO_DISTANCE]
    return float(np.sqrt(np.median(differ))) if len(differ) else 1.0


def _ridge(Phi: Array, targets: Array) -> Array:
    gram = Phi.T.astype(np.float64) @ Phi
    gram[np.diag_indices(len(gram))] += 1e-6 * np.trace(gram)
    return np.linalg.solve(gram, Phi.T @ targets)
