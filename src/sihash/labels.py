"""Labels of rows: read in every form that users give, numbered, in sets, and as JSON.

A row has one label, several, or none; docs/labels.md says so to users. `Labels` holds those of many rows in
one array. `LabelSets` numbers the distinct sets: a row's code word belongs to its label set, as the word of a
plain class belongs to that class.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sihash._typing import Array

LabelForm = Literal["labels", "lists", "indicators"]
NAMES: dict[LabelForm, str] = {
    "labels": "one label per row",
    "lists": "a list of labels for each row",
    "indicators": "an indicator matrix",
}
NOT_LABELLED = "None, NaN, −1, an empty list and a row of zeros mean that a row is not labelled"


@dataclass(frozen=True)
class Form:
    """How labels were given: one per row, lists or sets of them, or an indicator matrix (``n_columns``)."""

    kind: LabelForm
    n_columns: int = 0

    @classmethod
    def from_json(cls, value: Any) -> Form:
        """What `vars` gave; anything else is refused."""
        known = isinstance(value, dict) and value.keys() == {"kind", "n_columns"}
        if not known or value["kind"] not in get_args(LabelForm) or type(value["n_columns"]) is not int:
            raise ValueError(f"labels in the form {value!r} are not known")
        return cls(**value)

    def give(self, rows: Sequence[tuple[Hashable, ...]]) -> Any:
        """Labels of rows in this form: a list, a list of sets, or a matrix of 0 and 1."""
        if self.kind == "labels":
            return [own[0] for own in rows]
        if self.kind == "lists":
            return [set(own) for own in rows]
        Y = np.zeros((len(rows), self.n_columns), dtype=np.int8)
        places = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
        Y[places, np.array([column for own in rows for column in own], dtype=np.intp)] = 1
        return Y


@dataclass(frozen=True)
class Labels:
    """Labels of rows: all of them in one array, and how many each row has (0: it is not labelled)."""

    flat: Array
    counts: Array
    form: Form | None  # None where no row says: none has a label

    def in_form(self, form: Form) -> Labels:
        """These labels, refused if those before were given in another ``form``."""
        if self.form is None or self.form == form:
            return self
        if self.form.kind == form.kind:
            raise ValueError(
                f"Expected an indicator matrix of {form.n_columns} columns, as in fit, got "
                f"{self.form.n_columns}; for labels that come later, fit with lists of labels."
            )
        raise ValueError(
            f"Expected {NAMES[form.kind]}, as in fit, got {NAMES[self.form.kind]}; give labels in one form."
        )


def read_labels(y: Any, n: int) -> Labels:
    """The labels of ``n`` rows: one each (a tuple is one), lists or sets of them, or an indicator matrix."""
    if hasattr(y, "tocsr"):
        y = y.toarray()
    elif hasattr(y, "to_numpy"):
        y = y.to_numpy()
    elif not isinstance(y, np.ndarray | Sequence) and y is not None:
        y = np.asarray(y) if hasattr(y, "__array__") else list(y)
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] > 1:
        return _indicators(y, n)
    if not isinstance(y, np.ndarray) or y.dtype == object:
        rows = [] if y is None else list(y)
        if any(_is_list(row) for row in rows) and not (isinstance(y, np.ndarray) and y.ndim == 2):
            return _lists(rows, n)
    return _plain_labels(one_each(y, n))


def _is_list(row: Any) -> bool:
    return isinstance(row, list | set | frozenset) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _indicators(Y: Array, n: int) -> Labels:
    if len(Y) != n:
        raise ValueError(f"Expected as many rows of labels as rows, got {len(Y)} for {n} rows.")
    try:
        is_indicator = bool(np.isin(Y, (0, 1)).all()) and Y.dtype.kind not in "SU"
    except TypeError:
        is_indicator = False
    if not is_indicator:
        raise ValueError(
            f"Labels of shape {Y.shape} must be an indicator matrix, a column a label, 1 where it applies, "
            "0 elsewhere; several labels by name are lists: [['a', 'b'], ['a']]."
        )
    rows, columns = np.nonzero(Y.astype(bool))
    return Labels(columns, np.bincount(rows, minlength=n), Form("indicators", Y.shape[1]))


def _lists(rows: list[Any], n: int) -> Labels:
    if len(rows) != n:
        raise ValueError(f"Expected a list of labels for each row, got {len(rows)} lists for {n} rows.")
    flat: list[Hashable] = []
    counts = np.zeros(n, dtype=np.intp)
    for number, row in enumerate(rows):
        if not _is_list(row):
            if is_missing(row) or _is_minus_one(row):
                continue
            raise ValueError(
                f"Row {number} has the label {row!r} where others have lists of labels; give every row a "
                "list, or every row one label."
            )
        own = row.tolist() if isinstance(row, np.ndarray) else row
        for label in own:
            if isinstance(label, list | set | frozenset | dict):
                raise ValueError(f"Row {number} has {label!r} among its labels; a label is no list.")
            if is_missing(label) or _is_minus_one(label):
                raise ValueError(
                    f"Row {number} has {label!r} among its labels; a row without a label is an empty list."
                )
        distinct = dict.fromkeys(own)
        flat += distinct
        counts[number] = len(distinct)
    return Labels(one_each(flat, len(flat)), counts, Form("lists"))


def _plain_labels(y: Array) -> Labels:
    none = missing(y)
    if y.dtype.kind == "i":
        none = none | (y == -1)
    elif y.dtype.kind == "f":
        if np.isinf(y).any():
            raise ValueError(f"Input y contains infinity, in row {np.argmax(np.isinf(y))}: that is no label.")
        none = none | (y == -1)
    elif y.dtype == object:
        none = none | np.fromiter(map(_is_minus_one, y), bool, len(y))
    if not none.any():
        return Labels(y, np.ones(len(y), dtype=np.intp), Form("labels"))
    form = None if none.all() else Form("labels")
    return Labels(y[~none], (~none).astype(np.intp), form)


def _is_minus_one(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and value == -1


class LabelSets:
    """Label sets by number: ``members[s]`` are class numbers, the *primary* class first.

    The primary class is the rarest of a set's labels when the set was first seen. Where a row has to stand
    for one class, for anchors and samples, it is that one. Every class has a set that is it alone, so with
    one label per row sets and classes are the same, number for number.
    """

    def __init__(self, members: Iterable[tuple[int, ...]] = ()) -> None:
        self.members: list[tuple[int, ...]] = []
        self._number: dict[tuple[int, ...], int] = {}
        for classes in members:
            self._enter(classes)

    def copy(self) -> LabelSets:
        return LabelSets(self.members)

    def _enter(self, members: tuple[int, ...]) -> int:
        number = self._number[tuple(sorted(members))] = len(self.members)
        self.members.append(members)
        return number

    def of_class(self, class_number: int) -> int:
        """The set of one class alone."""
        number = self._number.get((class_number,))
        return self._enter((class_number,)) if number is None else number

    def of_classes(self, class_numbers: Array) -> Array:
        return np.array([self.of_class(k) for k in class_numbers.tolist()], dtype=np.intp)

    def find(self, class_numbers: Iterable[int], sizes: Array) -> int:
        """The number of a set; if it is new, ``sizes`` (rows of every class) tell its primary class."""
        key = tuple(sorted(set(class_numbers)))
        number = self._number.get(key)
        if number is None:
            number = self._enter(tuple(sorted(key, key=lambda k: (sizes[k], k))))
        return number

    def of_rows(self, class_numbers: Array, counts: Array, sizes: Array) -> Array:
        """The sets of rows that have ``counts[i]`` of the ``class_numbers`` each; −1 for rows without."""
        alone = np.array([self.of_class(k) for k in range(len(sizes))], dtype=np.intp)
        found = np.full(len(counts), -1, dtype=np.intp)
        starts = np.cumsum(counts) - counts
        single = counts == 1
        found[single] = alone[class_numbers[starts[single]]]
        for row in np.flatnonzero(counts > 1):
            own = class_numbers[starts[row] : starts[row] + counts[row]]
            found[row] = self.find(own.tolist(), sizes)
        return found

    @property
    def primary(self) -> Array:
        """The primary class of every set."""
        return np.array([classes[0] for classes in self.members], dtype=np.intp)

    def explode(self, sets: Array) -> tuple[Array, Array, Array]:
        """The labels of sets one by one: a place in ``sets``, a class number, its share of the row."""
        own = [self.members[s] for s in sets.tolist()]
        counts = np.array([len(classes) for classes in own], dtype=np.intp)
        classes = np.array([k for each in own for k in each], dtype=np.intp)
        return np.repeat(np.arange(len(sets)), counts), classes, np.repeat(1 / np.maximum(counts, 1), counts)

    def shares(self, n_classes: int) -> Any:
        """Classes × sets: what each class has of the rows of a set."""
        from scipy import sparse  # only learning needs it

        sets, classes, shares = self.explode(np.arange(len(self.members)))
        return sparse.csr_array((shares, (classes, sets)), shape=(n_classes, len(self.members)))

    def membership(self, sets: Array, class_numbers: Array) -> Array:
        """Which of the ``class_numbers`` each of these sets has (len(sets) × len(class_numbers), bool)."""
        which, classes, _ = self.explode(sets)
        place = np.full(1 + max([-1, *classes.tolist(), *class_numbers.tolist()]), -1)
        place[class_numbers] = np.arange(len(class_numbers))
        wanted = place[classes] >= 0
        held = np.zeros((len(sets), len(class_numbers)), dtype=bool)
        held[which[wanted], place[classes[wanted]]] = True
        return held


# Plain labels, one per row.


def several(values: Any) -> list[Any]:
    """Labels or ids as a list, also where only one was given: the letters of "dog" are no classes."""
    if values is None or isinstance(values, str | bytes | float | int | np.generic):
        return [values]
    try:
        return list(values)
    except TypeError:
        raise ValueError(f"Expected one value or a list of them, got {values!r:.80}.") from None


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
