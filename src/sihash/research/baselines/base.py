"""What the baselines share: checked rows and labels; hashers linear in the rows or in kernel features."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from sihash import labels
from sihash._typing import Array
from sihash.checks import check_count, check_real
from sihash.hasher import Hasher
from sihash.kernel import KernelMap, normalise
from sihash.kernel_fit import fit_kernel_map
from sihash.modelfile import Entries, check_shapes

Anchors = Literal["random", "kmeans"] | Array


def check_rows(hasher: Hasher, X: Any) -> Array:
    """``X`` as a float32 or float64 matrix; the hasher remembers its columns."""
    check_count("n_bits", hasher.n_bits)
    check_real(X)
    return validate_data(hasher, X, dtype=[np.float32, np.float64], order="C")


def check_labelled_rows(hasher: Hasher, X: Any, y: Any) -> tuple[Array, Array, Array]:
    """``(X, classes, numbers)`` with the label of row ``i`` being ``classes[numbers[i]]``."""
    X = check_rows(hasher, X)
    classes, numbers = labels.encode(labels.as_labels(y, len(X)))
    if len(classes) < 2:
        raise ValueError(
            f"{type(hasher).__name__} learns from two or more classes, got one class; add rows of another."
        )
    return X, classes, numbers


def one_hot(numbers: Array, n_classes: int) -> scipy.sparse.csr_array:
    """The labels as a sparse 0/1 matrix, n × n_classes."""
    n = len(numbers)
    return scipy.sparse.csr_array(
        (np.ones(n, dtype=np.float32), numbers, np.arange(n + 1)), shape=(n, n_classes)
    )


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


class KernelHasher(Hasher):
    """Scores ``φ(x)ᵀ P`` with the kernel map ``kernel_`` and the matrix ``coef_`` = P.

    A subclass has further parameters, and `_learn`, which sets ``coef_`` (shape (n_anchors + 1, n_bits), the
    last row being the bias).

    Parameters
    ----------
    n_bits : int
        Length of a code.
    n_anchors : int
        Anchors of the RBF kernel.
    anchors : "random", "kmeans" or ndarray of shape (n_anchors, n_features)
        Training rows drawn at random, as in the papers; centres of k-means; or the anchors themselves.
    kernel_width : float or "auto"
        σ of the kernel.
    random_state : int, RandomState or None
        Draws the anchors, and what else is drawn.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    kernel_ : sihash.kernel.KernelMap
        The kernel features.
    """

    _counts: ClassVar[tuple[str, ...]] = ("max_iter",)  # parameters that are whole numbers from 1
    classes_: Array
    kernel_: KernelMap
    coef_: Array

    def __init__(
        self, n_bits: int, n_anchors: int, anchors: Anchors, kernel_width: float | str, random_state: Any
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.anchors = anchors
        self.kernel_width = kernel_width
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows ``X`` (n × n_features) and their labels ``y``."""
        for name in self._counts:
            check_count(name, getattr(self, name))
        X, self.classes_, numbers = check_labelled_rows(self, X, y)
        rng = check_random_state(self.random_state)
        self.kernel_ = fit_kernel_map(X, numbers, self.n_anchors, self.anchors, self.kernel_width, rng)
        self._learn(X, numbers, rng)
        return self

    def _learn(self, X: Array, numbers: Array, rng: np.random.RandomState) -> None:
        """Set ``coef_`` from checked rows and their class numbers; ``kernel_`` and ``classes_`` are set."""
        raise NotImplementedError

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
