"""Names and labels as the database keeps them, and which labels a text stands for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from sihash.store.errors import DatabaseError

Label = str | int | None
LabelSet = tuple[str | int, ...]  # of an item: sorted, each once; empty without a label

WHOLE_NUMBER = re.compile(r"-?[0-9]{1,15}")
LONGEST_TEXT = 1000  # characters of a name, a label or an id


def only_label(labels: LabelSet) -> Label:
    """The label of an item that has exactly one; None where it has none or several."""
    return labels[0] if len(labels) == 1 else None


def printable(name: str) -> str:
    """A file's name as text; bytes that are none are spelt out."""
    try:
        text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        raise _half(name) from None
    return _not_too_long(text)


def check_text(text: str) -> str:
    """Text that is kept exactly as it came."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _half(text) from None
    return _not_too_long(text)


def _half(text: str) -> DatabaseError:
    return DatabaseError(
        "Names, labels and ids must be Unicode text, "
        f"got {text[:50]!r}, which holds half a character; correct it."
    )


def _not_too_long(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise DatabaseError(
            f"Names, labels and ids have at most {LONGEST_TEXT:,} characters; got one of {len(text):,} that "
            f"begins with {text[:40]!r}."
        )
    return text


def plain_label(label: Any) -> Label:
    """A label as the database keeps it: text, a whole number, or None; −1 and "" are None, too.

    Text in the form NFC: an "é" of one character and an "é" of two look the same, and are the same class.
    """
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, float):
        if label != label:
            return None
        if label.is_integer():
            label = int(label)
    if isinstance(label, str):
        return unicodedata.normalize("NFC", printable(label)) or None
    if label == -1:
        return None
    if label is None or (isinstance(label, int) and not isinstance(label, bool)):
        return label
    raise DatabaseError(f"Labels must be text or whole numbers, or None for unlabelled; got {label!r}.")


def label_set(value: Any) -> LabelSet:
    """The labels of one item: of one label, of a list of them (a tuple or set is one, too), or of none."""
    if is_list(value):
        return joined_labels([_label_in_list(label) for label in value])
    label = plain_label(value)
    return () if label is None else (label,)


def is_list(value: Any) -> bool:
    """Whether this is several labels, or none, of one item."""
    return isinstance(value, list | tuple | set | frozenset) or (
        isinstance(value, np.ndarray) and value.ndim == 1
    )


def _label_in_list(value: Any) -> str | int:
    label = None if is_list(value) else plain_label(value)
    if label is None:
        raise DatabaseError(
            f"A list of labels holds {value!r}, which is no label; an item without a label has an empty list."
        )
    return label


def joined_labels(*parts: Iterable[str | int]) -> LabelSet:
    """Labels in the order in which the database keeps them: numbers, then texts; each once."""
    every = {label for part in parts for label in part}
    return tuple(sorted(every, key=lambda label: (isinstance(label, str), label)))


def label_sets(values: Iterable[Any]) -> list[LabelSet]:
    """The labels of items: a label or None for each, or a list of labels for each; not some of each kind."""
    out, lists, single = [], None, None
    for number, value in enumerate(values):
        own = label_set(value)
        if is_list(value):
            lists = number if lists is None else lists
        elif own:
            single = number if single is None else single
        out.append(own)
    if lists is not None and single is not None:
        raise DatabaseError(
            f"Item {single} has the label {only_label(out[single])!r} and item {lists} a list of labels; "
            "give every item a list, or every item one label."
        )
    return out


def written_labels(known: Collection[Label], texts: Iterable[str | None]) -> list[Label]:
    """Which of the ``known`` labels texts stand for: a class may be the number 9 where a user writes "9".

    A text that is no label yet is a number if all labels are, and it looks like one.
    """
    by_text = {str(label): label for label in known}
    by_text |= {label: label for label in known if isinstance(label, str)}  # "9" is itself before it is 9
    all_numbers = bool(known) and all(isinstance(label, int) for label in known)

    def label_of(text: str | None) -> Label:
        if text is None or text in by_text:
            return None if text is None else by_text[text]
        return int(text) if all_numbers and WHOLE_NUMBER.fullmatch(text) else text

    return [label_of(text) for text in texts]
