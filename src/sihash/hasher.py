"""What all hashers share: codes, files, and the conventions of scikit-learn."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sihash import modelfile
from sihash._typing import Array
from sihash.checks import check_real
from sihash.encoder import EncoderMixin
from sihash.modelfile import Entries


class Hasher(EncoderMixin, TransformerMixin, BaseEstimator):
    """Base of `SIH` and the baselines.

    A subclass stores its parameters in ``__init__`` (``n_bits`` among them), learns in ``fit``, and gives
    ``_scores(X)`` (n × n_bits, one block of checked rows), ``_state()`` and ``_set_state(header, tensors)``.
    """

    def decision_function(self, X: Any) -> Array:
        """Signed scores, n × n_bits; bit ``j`` of a code is +1 where column ``j`` is ≥ 0."""
        check_is_fitted(self)
        return super().decision_function(X)

    def transform(self, X: Any) -> Any:
        """Codes as packed uint8, n × ceil(n_bits / 8); `sihash.codes` states the bit order."""
        check_is_fitted(self)
        return super().transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`: the bits in each byte."""
        check_is_fitted(self)
        first = range(0, self.n_bits, 8)
        return np.array([f"bits{b}_{min(b + 7, self.n_bits - 1)}" for b in first], dtype=object)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted hasher to one checksummed file (see `sihash.modelfile`)."""
        check_is_fitted(self)
        params, names = self.get_params(deep=False), self._feature_names()
        modelfile.write_model(path, type(self).__name__, params, self.n_features_in_, names, *self._state())

    @classmethod
    def load(cls, path: str | os.PathLike[str], **params: Any) -> Self:
        """Read a hasher written by `save`; ``params`` override those in the file."""
        with modelfile.reading(path, cls.__name__) as (header, tensors, kept):
            _check_params(cls().get_params(deep=False), header["params"])
            hasher = cls(**{**kept, **params})
            hasher.n_features_in_ = int(header.number("n_features_in"))
            if "feature_names_in" in header:
                hasher.feature_names_in_ = np.array(header["feature_names_in"], dtype=object)
            modelfile.check_shapes(tensors, {"mean": (hasher.n_features_in_,)})
            hasher._set_state(header, tensors)
        return hasher

    def _feature_names(self) -> list[str] | None:
        return self.feature_names_in_.tolist() if hasattr(self, "feature_names_in_") else None

    def _check_rows(self, X: Any) -> Array:
        check_real(X)
        return validate_data(self, X, dtype=[np.float32, np.float64], reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        raise NotImplementedError

    def _set_state(self, header: Entries, tensors: Entries) -> None:
        raise NotImplementedError


def _check_params(defaults: dict[str, Any], params: Entries) -> None:
    """Refuse parameters that the class does not have, and None or NaN where it takes neither."""
    for name, value in params.items():
        if name not in defaults:
            raise params.wrong(f"params.{name}", "there is no such parameter")
        if (value is None and defaults[name] is not None) or value != value:
            raise params.wrong(f"params.{name}", f"a value was expected, got {value!r}")
        if isinstance(value, dict):
            raise params.wrong(f"params.{name}", f"such a value was not expected: {value!r}")
