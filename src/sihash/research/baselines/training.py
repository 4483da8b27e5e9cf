"""What the baselines do with rows and labels before they learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from sihash import labels
from sihash._typing import Array
from sihash.checks import check_count, check_real
from sihash.hasher import Hasher


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
