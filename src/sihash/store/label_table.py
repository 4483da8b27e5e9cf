"""The table of classes: what the class number of an item means, which is a set of labels.

An item has one class number, however many labels it has: the number of its label set. Sets are numbered in
the order in which they came. Most are sets of one label; then sets and labels are the same, number for
number. In the catalogue a set of one is its label, a larger one a list of labels.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.store.labels import LabelSet


def to_json(labels: LabelSet) -> str:
    return json.dumps(labels[0] if len(labels) == 1 else labels)


def from_json(text: str) -> LabelSet:
    value = json.loads(text)
    return tuple(value) if isinstance(value, list) else (value,)


class LabelTable:
    """Label sets by class number, and the labels in them by place, in the order in which they came."""

    def __init__(self, rows: Iterable[Sequence[Any]] = ()) -> None:
        self.sets: list[LabelSet] = []
        self.labels: list[str | int] = []
        self._number: dict[LabelSet, int] = {}
        self._place: dict[str | int, int] = {}
        self._apart = (np.empty(0, dtype=np.intp), np.zeros(1, dtype=np.intp), 0)
        self.take(rows)

    def take(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take up rows of the catalogue's table: numbers, in their order, and JSON."""
        for _, text in rows:
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
            flat = np.array([self._place[label] for own in self.sets for label in own], dtype=np.intp)
            counts = np.array([*(len(own) for own in self.sets), 0], dtype=np.intp)  # the last is −1's
            self._apart = flat, counts, len(self.sets)
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
