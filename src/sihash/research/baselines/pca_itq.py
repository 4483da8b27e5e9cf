"""PCA-ITQ: the principal directions, rotated towards ±1; no labels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from sklearn.utils import check_random_state

from sihash.checks import check_count
from sihash.research.baselines.itq import ITQHasher
from sihash.research.baselines.training import check_rows


class PCAITQ(ITQHasher):
    """Principal component analysis, then iterative quantisation (Gong et al.; PAMI 2013).

    Projects the rows on their ``n_bits`` principal directions, ``V``, and rotates those so as to minimise
    ``‖sign(V R) − V R‖²``. It never sees a label; supervised methods should do better.

    Parameters
    ----------
    n_bits : int
        Length of a code.
    max_iter : int
        Iterations of ITQ.
    random_state : int, RandomState or None
        Draws the first rotation.

    Attributes
    ----------
    mean_, coef_, intercept_ : ndarray
        The hash functions (see `LinearHasher`).
    quantisation_errors_ : ndarray of shape (max_iter,)
        ``‖sign(V R) − V R‖²`` at each iteration; it never rises.

    Notes
    -----
    Where this differs from the authors' MATLAB code: rows are scaled to unit length first, as in all the
    paper's experiments; and more bits than features are possible, spread over all directions as CCA-ITQ does.
    """

    _needs_labels = False

    def __init__(self, n_bits: int = 32, *, max_iter: int = 50, random_state: Any = None) -> None:
        self.n_bits = n_bits
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows ``X`` (n × n_features); ``y`` is ignored."""
        check_count("max_iter", self.max_iter)
        X = check_rows(self, X)
        rng = check_random_state(self.random_state)
        Z, centre = self._centred(X)
        d = Z.shape[1]
        scatter = (Z.T @ Z).astype(np.float64)
        _, E = scipy.linalg.eigh(scatter, subset_by_index=[max(0, d - self.n_bits), d - 1])
        self._rotate(Z, centre, E, rng)
        return self
