"""Rows in, codes out: what every hash function does, whoever learned it. Needs no scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from sihash import codes
from sihash._typing import Array
from sihash.checks import as_numbers
from sihash.kernel import row_blocks
from sihash.threads import map_threads


class EncoderMixin:
    """Turns rows into codes. A subclass gives ``_scores(X)``: n × n_bits for one block of checked rows."""

    n_bits: int
    n_features_in_: int

    def decision_function(self, X: Any) -> Array:
        """Signed scores, n × n_bits; bit ``j`` of a code is +1 where column ``j`` is ≥ 0."""
        X = self._check_rows(X)
        return np.concatenate(map_threads(lambda rows: self._scores(X[rows]), row_blocks(len(X))))

    def transform(self, X: Any) -> Any:
        """Codes as packed uint8, n × ceil(n_bits / 8); `sihash.codes` states the bit order."""
        X = self._check_rows(X)

        def encode(rows: slice) -> Array:
            return codes.pack(codes.sign(self._scores(X[rows])))

        return np.concatenate(map_threads(encode, row_blocks(len(X))))

    def _check_rows(self, X: Any) -> Array:
        X = as_numbers(X)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_ or not len(X):
            raise ValueError(
                f"Expected one row or more of {self.n_features_in_} numbers, got an array of shape {X.shape}."
            )
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float32)
        if not np.isfinite(X).all():
            raise ValueError("X holds NaN or infinite numbers; leave these rows out.")
        return X

    def _scores(self, X: Array) -> Array:
        raise NotImplementedError
