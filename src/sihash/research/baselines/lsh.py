"""LSH: random hyperplanes through the mean; no learning."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from sihash.research.baselines.base import LinearHasher, check_rows


class LSH(LinearHasher):
    """Random hyperplane hashing (Charikar; STOC 2002), the simplest baseline.

    A bit is the side of a random hyperplane through the mean of the training rows. Two rows differ in a bit
    with probability ``angle / π``, the angle being that between them as seen from the mean.

    Parameters
    ----------
    n_bits : int
        Length of a code.
    random_state : int, RandomState or None
        Draws the hyperplanes.

    Attributes
    ----------
    mean_, coef_, intercept_ : ndarray
        The hash functions (see `LinearHasher`); the intercept is zero.
    """

    _needs_labels = False

    def __init__(self, n_bits: int = 32, *, random_state: Any = None) -> None:
        self.n_bits = n_bits
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Take the mean of the rows ``X`` and draw the hyperplanes; ``y`` is ignored."""
        X = check_rows(self, X)
        rng = check_random_state(self.random_state)
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        self.coef_ = rng.standard_normal((X.shape[1], self.n_bits)).astype(X.dtype)
        self.intercept_ = np.zeros(self.n_bits, dtype=X.dtype)
        return self
