"""Hashers that are linear in the normalised rows: CCA-ITQ, PCA-ITQ and LSH."""

from __future__ import annotations

from typing import Any

from sihash._typing import Array
from sihash.hasher import Hasher
from sihash.kernel import normalise
from sihash.modelfile import Entries, check_shapes


class LinearHasher(Hasher):
    """Scores ``zᵀ coef_ + intercept_`` with ``z`` the row centred to ``mean_`` and scaled to unit length.

    A subclass sets ``mean_`` (n_features,), ``coef_`` (n_features, n_bits) and ``intercept_`` (n_bits,).
    """

    _needs_labels = True
    mean_: Array
    coef_: Array
    intercept_: Array

    def _scores(self, X: Array) -> Array:
        Z = normalise(X, self.mean_)
        return Z @ self.coef_.astype(Z.dtype, copy=False) + self.intercept_.astype(Z.dtype, copy=False)

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {}, {"mean": self.mean_, "coef": self.coef_, "intercept": self.intercept_}

    def _set_state(self, header: Entries, tensors: Entries) -> None:
        bits = len(tensors["intercept"])
        check_shapes(tensors, {"coef": (self.n_features_in_, bits), "intercept": (self.n_bits,)})
        self.mean_, self.coef_, self.intercept_ = tensors["mean"], tensors["coef"], tensors["intercept"]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._needs_labels
        return tags
