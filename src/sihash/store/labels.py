"""Labels: what users call classes. How they are written, which ones a text stands for, and their numbers.

An item has one class number, however many labels it has: the number of its label set. Sets are numbered in
the order in which they came. Most are sets of one label; then sets and labels are the same, number for
number. In the catalogue a set of one is its label, a larger one a list of labels.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.store.errors import DatabaseError

Label = str | int | None
LabelSet = tuple[str | int, ...]  # of an item: sorted, each once; empty without a label

WHOLE_NUMBER = re.compile(r"-?[0-9]{1,15}")
LONGEST_TEXT = 1000  # characters of a name, a label or an id


def only_label(labels: LabelSet) -> Label:
    """The label of an item that has exactly one; None where it has none or several."""
    return labels[0] if len(labels) == 1 else None


def label_words(labels: LabelSet) -> str:
    """Labels for people to read."""
    return ", ".join(map(str, labels)) or "no label"


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


def to_json(labels: LabelSet) -> str:
    return json.dumps(labels[0] if len(labels) == 1 else labels)


def from_json(text: str) -> LabelSet:
    value = json.loads(text)
    return tuple(value) if isinstance(value, list) else (value,)


class LabelTable:
    """Label sets by class number, and the labels in them by place, in the order in which they came.

    It only grows, and may do so while others read it: what a number means never changes.
    """

    def __init__(self, rows: Iterable[Sequence[Any]] = ()) -> None:
        self.sets: list[LabelSet] = []
        self.labels: list[str | int] = []
        self._number: dict[LabelSet, int] = {}
        self._place: dict[str | int, int] = {}
        self._apart = (np.empty(0, dtype=np.intp), np.zeros(1, dtype=np.intp), 0)
        self._taking = Lock()
        self.take(rows)

    def take(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take up those rows of the catalogue's table, numbers in their order and JSON, that are new here."""
        with self._taking:
            for number, text in rows:
                if number == len(self.sets):
                    self.enter(from_json(text))

    def enter(self, labels: LabelSet) -> int:
        """Number a set that is new here."""
        for label in labels:
            if label not in self._place:
                self._place[label] = len(self.labels)
                self.labels.append(label)
        self._number[labels] = len(self.sets)
        self.sets.append(labels)
        return self._number[labels]

    def lookalikes(self, first: int) -> list[tuple[str, str]]:
        """Labels from place ``first`` on that differ from another only in case or blanks, each with that."""
        seen: dict[str, str] = {}
        out = []
        for place, label in enumerate(self.labels):
            if isinstance(label, str):
                other = seen.setdefault(" ".join(label.split()).casefold(), label)
                if other != label and place >= first:
                    out.append((label, other))
        return out

    def __len__(self) -> int:
        return len(self.sets)

    def __getitem__(self, number: int) -> LabelSet:
        """The labels behind a class number; −1 stands for none."""
        return self.sets[number] if number >= 0 else ()

    def number_of(self, labels: LabelSet) -> int | None:
        return self._number.get(labels)

    def place_of(self, label: str | int) -> int | None:
        return self._place.get(label)

    @property
    def several(self) -> bool:
        """Whether there is a set of more than one label."""
        return any(len(labels) > 1 for labels in self.sets)

    def holding(self, labels: Iterable[str | int]) -> list[int]:
        """Numbers of the sets that have one of these labels."""
        wanted = set(labels)
        return [number for number, own in enumerate(self.sets) if wanted.intersection(own)]

    def apart(self, numbers: Array) -> tuple[Array, Array]:
        """The places of the labels of items, one item after the other, and how many each has."""
        if self._apart[2] != len(self.sets):
            sets = self.sets.copy()  # more may come meanwhile
            flat = np.array([self._place[label] for own in sets for label in own], dtype=np.intp)
            counts = np.array([*map(len, sets), 0], dtype=np.intp)  # the last is −1's
            self._apart = flat, counts, len(sets)
        flat, every, _ = self._apart
        return flat[runs(np.cumsum(every) - every, every, numbers)], every[numbers]

    def sizes(self, numbers: Array) -> Array:
        """How many of some items have each label, by its place."""
        return np.bincount(self.apart(numbers)[0], minlength=len(self.labels))

    def homes(self, numbers: Array) -> Array:
        """For every item the place of the rarest of its labels among these items; all must be labelled.

        Where an item has to stand for one class, it is that one.
        """
        if not self.several:
            return self.apart(numbers)[0]
        sizes = self.sizes(numbers)
        rarest = [min((self._place[x] for x in own), key=lambda k: (sizes[k], k)) for own in self.sets]
        return np.array(rarest, dtype=np.intp)[numbers]

    def indicators(self, numbers: Array) -> Array:
        """Which item has which label (n × number of labels, bool)."""
        flat, counts = self.apart(numbers)
        out = np.zeros((len(numbers), len(self.labels)), dtype=bool)
        out[np.repeat(np.arange(len(numbers)), counts), flat] = True
        return out


def runs(starts: Array, counts: Array, numbers: Array) -> Array:
    """Places ``starts[k]``, ``starts[k] + 1``, … (``counts[k]`` of them) for every k in ``numbers``."""
    n = counts[numbers]
    return np.repeat(starts[numbers] - (np.cumsum(n) - n), n) + np.arange(n.sum())


def relevance_labels(sets: Sequence[LabelSet]) -> Any:
    """Labels as the measures of `sihash.evaluation` take them: one each, or indicators if some have more."""
    if all(len(own) == 1 for own in sets):
        return [str(own[0]) for own in sets]
    place = {label: k for k, label in enumerate(dict.fromkeys(label for own in sets for label in own))}
    out = np.zeros((len(sets), max(2, len(place))), dtype=bool)
    for row, own in zip(out, sets, strict=True):
        row[[place[label] for label in own]] = True
    return out
