"""Hashers that are linear in the RBF features of `sihash.kernel`: SDH and KSH."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from sihash import labels
from sihash._typing import Array
from sihash.baselines.training import check_count
from sihash.hasher import Hasher
from sihash.kernel import KernelMap, choose_anchors, normalise
from sihash.kernel_width import choose_width


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

    def _set_state(self, header: dict[str, Any], tensors: dict[str, Array]) -> None:
        self.classes_ = labels.from_json(header["classes"])
        self.kernel_ = KernelMap(tensors["mean"], tensors["anchors"], header["width"])
        self.coef_ = tensors["coef"]


def fit_kernel_map(
    X: Array,
    numbers: Array,
    n_anchors: int,
    anchors: Literal["random", "kmeans"] | Array,
    kernel_width: float | str,
    rng: np.random.RandomState,
) -> KernelMap:
    """The kernel map of a training set with class ``numbers``; the other parameters are those of SIH."""
    mean = X.mean(axis=0, dtype=np.float64)
    Z = normalise(X, mean)
    A = resolve_anchors(anchors, n_anchors, Z, mean, rng)
    return KernelMap(mean, A, resolve_width(kernel_width, Z, numbers, rng))


def resolve_anchors(
    anchors: Literal["random", "kmeans"] | Array,
    n_anchors: int,
    Z: Array,
    mean: Array,
    rng: np.random.RandomState,
) -> Array:
    """Anchors in normalised coordinates: chosen from normalised rows ``Z``, or given in those of the data."""
    check_count("n_anchors", n_anchors)
    if isinstance(anchors, str):
        if anchors not in ("random", "kmeans"):
            raise ValueError(f'anchors must be "random", "kmeans" or an array, got {anchors!r}.')
        return choose_anchors(Z, n_anchors, anchors, rng)
    given = np.asarray(anchors, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != Z.shape[1] or not np.isfinite(given).all():
        raise ValueError(
            f"anchors must be finite, with {Z.shape[1]} columns like X, got shape {given.shape}."
        )
    return normalise(given, mean).astype(Z.dtype)


def resolve_width(width: float | str, Z: Array, numbers: Array, rng: np.random.RandomState) -> float:
    """σ as given, or for ``"auto"`` chosen from normalised rows ``Z`` and their class numbers."""
    if isinstance(width, str) and width == "auto":
        return choose_width(Z, numbers, rng)
    if isinstance(width, bool | str) or not np.isfinite(width) or width <= 0:
        raise ValueError(f'kernel_width must be "auto" or a positive number, got {width!r}.')
    return float(width)
