"""Class labels of any hashable kind: to numbers 0…K−1 and back, and to JSON."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from sihash._typing import Array


def several(values: Any) -> list[Any]:
    """Labels or ids as a list, also where only one was given: the letters of "dog" are no classes."""
    return (
        [values]
        if values is None or isinstance(values, str | bytes | float | int | np.generic)
        else list(values)
    )


def as_labels(y: Any, n: int) -> Array:
    """``y`` as a one-dimensional array of ``n`` labels, none of them missing."""
    y = one_each(y, n)
    gone = np.flatnonzero(missing(y) | (np.isinf(y) if y.dtype.kind == "f" else False))
    if len(gone):
        raise ValueError(
            f"Input y contains NaN, infinity or None: {len(gone)} rows have no label (the first is row "
            f"{gone[0]}); leave them out or label them."
        )
    return y


def one_each(y: Any, n: int) -> Array:
    """``y`` as a one-dimensional array of ``n`` labels, some of which may be missing.

    A list that mixes types becomes an object array: numpy alone would turn ``[1, "1"]`` into one label.
    """
    if y is None:
        raise ValueError(
            "This hasher requires y to be passed, but the target y is None: give one label per row."
        )
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    elif hasattr(y, "__array__"):
        y = np.asarray(y)
    if not isinstance(y, np.ndarray):
        y = list(y)
        y = _own_type(y) if _one_type(y) else object_array(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"Expected one label per row, as an array of shape ({n},), got shape {y.shape}.")
    if len(y) != n:
        raise ValueError(f"Expected as many labels as rows, got {len(y)} labels for {n} rows.")
    return y


def _one_type(values: Sequence[Any]) -> bool:
    return len({type(v) for v in values}) <= 1 and not isinstance(values[0] if values else 0, tuple)


def _own_type(values: Sequence[Any]) -> Array:
    """Values of one type as an array of it; integers past 64 bits as objects, for floats would merge them."""
    array = np.asarray(values)
    is_int = len(values) > 0 and isinstance(values[0], int)
    return object_array(values) if array.dtype.kind == "f" and is_int else array


def object_array(values: Sequence[Any]) -> Array:
    return np.fromiter(values, dtype=object, count=len(values))  # a list among them stays one


def missing(y: Array) -> Array:
    """Which labels are None, NaN or NA."""
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype.kind in "mM":
        return np.isnat(y)
    if y.dtype == object:
        return np.fromiter(map(is_missing, y), bool, len(y))
    return np.zeros(len(y), dtype=bool)


def is_missing(value: Any) -> bool:
    """None, NaN, and the NA of pandas, which alone of all values does not say whether it equals itself."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def encode(y: Array) -> tuple[Array, Array]:
    """``(classes, numbers)`` with ``classes[numbers] == y``; classes sorted where they can be compared."""
    if y.dtype.kind in "mM":
        raise ValueError(f"Labels of type {y.dtype} are not supported; write them as text, y.astype(str).")
    if y.dtype != object:
        classes, numbers = np.unique(y, return_inverse=True)
        return classes, numbers.reshape(-1)
    try:
        distinct = set(y)
    except TypeError as error:
        raise ValueError(f"Labels must be hashable, such as strings, numbers or tuples: {error}.") from None
    try:
        ordered = sorted(distinct)
    except TypeError:  # mixed types have no order of their own: first come, first
        ordered = list(dict.fromkeys(y))
    number = {label: k for k, label in enumerate(ordered)}
    return object_array(ordered), np.fromiter((number[v] for v in y), dtype=np.intp, count=len(y))


def numbers_of(labels: Iterable[Hashable], classes: Array) -> Array:
    """Positions of ``labels`` in ``classes``; −1 for a label that is not there."""
    number = {label: k for k, label in enumerate(classes.tolist())}
    return np.array([number.get(_plain(v), -1) for v in labels], dtype=np.intp)


def as_classes(values: list[Any]) -> Array:
    """Labels as an array: of a numpy type where all have one type, else of objects."""
    plain = values and _one_type(values) and isinstance(values[0], str | int | float | bool)
    return _own_type(values) if plain else object_array(values)


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


_PLAIN_TYPES = {str, int, float, bool, type(None)}


def to_json(values: Array) -> dict[str, Any]:
    """Labels or ids as JSON; what JSON cannot hold exactly is refused with its type."""
    items = values.tolist()
    if not set(map(type, items)) <= _PLAIN_TYPES:
        items = [_storable(item) for item in items]
    kind = "object" if values.dtype == object else values.dtype.str
    return {"dtype": kind, "values": items}


def _storable(item: Any) -> Any:
    item = _plain(item)
    if isinstance(item, tuple):
        return tuple(_storable(part) for part in item)
    if not isinstance(item, str | int | float | bool | None):
        raise TypeError(
            f"Labels and ids of type {type(item).__name__} cannot be written to a file; "
            "use strings, numbers, or tuples of them."
        )
    return item


def from_json(stored: dict[str, Any]) -> Array:
    """The inverse of `to_json`: JSON lists were tuples."""
    if not isinstance(stored["dtype"], str) or not isinstance(stored["values"], list):
        raise ValueError("'dtype' must be a type and 'values' a list of labels or ids")
    if stored["dtype"] != "object":
        return np.array(stored["values"], dtype=np.dtype(stored["dtype"]))
    return object_array([_as_tuple(v) if type(v) is list else v for v in stored["values"]])


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(v) for v in value) if isinstance(value, list) else value
