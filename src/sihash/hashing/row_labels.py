"""Labels of rows as `SIH` takes them, one per row, several, or none, and in the same form back.

docs/labels.md is the place where this is written down for users.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from sihash import labels
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
class RowLabels:
    """Labels of rows: all of them in one array, and how many each row has (0: it is not labelled)."""

    flat: Array
    counts: Array
    form: Form | None  # None where no row says: none has a label

    def in_form(self, form: Form) -> RowLabels:
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


def read_labels(y: Any, n: int) -> RowLabels:
    """The labels of ``n`` rows: one each (a tuple is one), lists or sets of them, or an indicator matrix."""
    if sparse.issparse(y):
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
    return _one_each(labels.one_each(y, n))


def _is_list(row: Any) -> bool:
    return isinstance(row, list | set | frozenset) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _indicators(Y: Array, n: int) -> RowLabels:
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
    return RowLabels(columns, np.bincount(rows, minlength=n), Form("indicators", Y.shape[1]))


def _lists(rows: list[Any], n: int) -> RowLabels:
    if len(rows) != n:
        raise ValueError(f"Expected a list of labels for each row, got {len(rows)} lists for {n} rows.")
    flat: list[Hashable] = []
    counts = np.zeros(n, dtype=np.intp)
    for number, row in enumerate(rows):
        if not _is_list(row):
            if labels.is_missing(row) or _is_minus_one(row):
                continue
            raise ValueError(
                f"Row {number} has the label {row!r} where others have lists of labels; give every row a "
                "list, or every row one label."
            )
        own = row.tolist() if isinstance(row, np.ndarray) else row
        for label in own:
            if isinstance(label, list | set | frozenset | dict):
                raise ValueError(f"Row {number} has {label!r} among its labels; a label is no list.")
            if labels.is_missing(label) or _is_minus_one(label):
                raise ValueError(
                    f"Row {number} has {label!r} among its labels; a row without a label is an empty list."
                )
        distinct = dict.fromkeys(own)
        flat += distinct
        counts[number] = len(distinct)
    return RowLabels(labels.one_each(flat, len(flat)), counts, Form("lists"))


def _one_each(y: Array) -> RowLabels:
    missing = labels.missing(y)
    if y.dtype.kind == "i":
        missing = missing | (y == -1)
    elif y.dtype.kind == "f":
        if np.isinf(y).any():
            raise ValueError(f"Input y contains infinity, in row {np.argmax(np.isinf(y))}: that is no label.")
        missing = missing | (y == -1)
    elif y.dtype == object:
        missing = missing | np.fromiter(map(_is_minus_one, y), bool, len(y))
    if not missing.any():
        return RowLabels(y, np.ones(len(y), dtype=np.intp), Form("labels"))
    form = None if missing.all() else Form("labels")
    return RowLabels(y[~missing], (~missing).astype(np.intp), form)


def _is_minus_one(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and value == -1
