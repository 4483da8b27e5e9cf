"""Checks of parameters that several modules share."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from sihash._typing import Array

ROUNDING_LOSS = 0.01  # of what tells rows apart, at which rounding to float32 counts as a loss
EQUAL = 1e-24  # of the squares of all numbers: rows that differ by less are equal in float64, too


def check_real(X: Any, what: str = "X") -> None:
    """Refuse arrays that numpy would turn into other numbers without a word: masked, complex, of text."""
    is_masked = "numpy.ma" in sys.modules and isinstance(X, np.ma.MaskedArray)  # not imported to look
    if is_masked and (n := int(np.ma.getmaskarray(X).sum())):
        raise ValueError(
            f"{what} has {n:,} masked cells; leave their rows out, or fill the cells with X.filled(0)."
        )
    kind = getattr(getattr(X, "dtype", None), "kind", "f")
    if kind in "cSUMm":
        names = {"c": "complex numbers", "S": "bytes", "U": "text"}
        start = "Complex data not supported: " if kind == "c" else ""  # as scikit-learn expects it
        raise ValueError(
            f"{start}{what} must hold real numbers, got {names.get(kind, 'dates or durations')}."
        )


def as_numbers(X: Any, what: str = "X") -> Array:
    """``X`` as an array of real numbers, refused if it holds anything else."""
    check_real(X, what)
    X = np.asarray(X)
    check_real(X, what)
    if X.dtype.kind not in "fiub":
        raise ValueError(f"{what} must hold real numbers, got an array of type {X.dtype}.")
    return X


def check_float32(X: Array) -> None:
    """Refuse rows in float64 that float32, in which rows are kept, cannot hold or tell apart."""
    if X.dtype != np.float64 or not len(X):
        return
    largest = np.abs(X).max()
    if largest > np.finfo(np.float32).max:
        raise ValueError("X holds numbers beyond 3e38, the range of float32; scale its columns down first.")
    scale = largest or 1.0  # squares of the smallest numbers would vanish
    mean, sums = X.mean(axis=0), np.zeros(3)
    for start in range(0, len(X), 4096):
        part = X[start : start + 4096]
        rounded = part.astype(np.float32).astype(np.float64)
        sums += [np.sum((each / scale) ** 2) for each in (part - rounded, part - mean, part)]
    lost, spread, total = sums
    if spread > EQUAL * total and lost > ROUNDING_LOSS * spread:
        raise ValueError(
            "X holds numbers whose differences are lost in float32, in which rows are kept; subtract the "
            "mean of each column, or scale the columns, first."
        )


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is not a whole number ≥ ``least``."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
