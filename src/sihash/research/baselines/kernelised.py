"""Hashers that are linear in the RBF features of `sihash.kernel`: SDH and KSH."""

from __future__ import annotations

from typing import Any

from sihash import labels
from sihash._typing import Array
from sihash.hasher import Hasher
from sihash.kernel import KernelMap
from sihash.modelfile import Entries, check_shapes


class KernelHasher(Hasher):
    """Scores ``φ(x)ᵀ P`` with the kernel map ``kernel_`` and the matrix ``coef_`` = P.

    A subclass sets ``classes_``, ``kernel_`` and ``coef_`` (shape (n_anchors + 1, n_bits), the last row being
    the bias) in ``fit``.
    """

    classes_: Array
    kernel_: KernelMap
    coef_: Array

    def _scores(self, X: Array) -> Array:
        return self.kernel_(X) @ self.coef_.astype(X.dtype, copy=False)

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        header = {"classes": labels.to_json(self.classes_), "width": self.kernel_.width}
        tensors = {"mean": self.kernel_.mean, "anchors": self.kernel_.anchors, "coef": self.coef_}
        return header, tensors

    def _set_state(self, header: Entries, tensors: Entries) -> None:
        self.classes_ = labels.from_json(header["classes"])
        self.kernel_ = KernelMap(tensors["mean"], tensors["anchors"], header.number("width"))
        check_shapes(tensors, {"coef": (self.kernel_.n_features_out, self.n_bits)})
        self.coef_ = tensors["coef"]
