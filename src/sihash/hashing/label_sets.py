"""The label sets of rows, numbered: most rows have one label, some have several.

A row's code word belongs to its label set, as the word of a plain class belongs to that class. Every class
has a set of its own, so with one label per row sets and classes are the same, number for number.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy import sparse

from sihash._typing import Array


class LabelSets:
    """Label sets by number: ``members[s]`` are class numbers, the *home* class first.

    The home class is the rarest of a set's labels when the set was first seen. Where a row has to stand for
    one class, for anchors and samples, it is that one.
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
        """The number of a set; if it is new, ``sizes`` (rows of every class) tell its home class."""
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
    def home(self) -> Array:
        """The home class of every set."""
        return np.array([classes[0] for classes in self.members], dtype=np.intp)

    def apart(self, sets: Array) -> tuple[Array, Array, Array]:
        """Sets taken apart: a place in ``sets``, a class number and its share of the row, one per label."""
        own = [self.members[s] for s in sets.tolist()]
        counts = np.array([len(classes) for classes in own], dtype=np.intp)
        classes = np.array([k for each in own for k in each], dtype=np.intp)
        return np.repeat(np.arange(len(sets)), counts), classes, np.repeat(1 / np.maximum(counts, 1), counts)

    def shares(self, n_classes: int) -> sparse.csr_array:
        """Classes × sets: what each class has of the rows of a set."""
        sets, classes, shares = self.apart(np.arange(len(self.members)))
        return sparse.csr_array((shares, (classes, sets)), shape=(n_classes, len(self.members)))

    def hold(self, sets: Array, class_numbers: Array) -> Array:
        """Which of the ``class_numbers`` each of these sets has (len(sets) × len(class_numbers), bool)."""
        which, classes, _ = self.apart(sets)
        place = np.full(1 + max([-1, *classes.tolist(), *class_numbers.tolist()]), -1)
        place[class_numbers] = np.arange(len(class_numbers))
        asked = place[classes] >= 0
        held = np.zeros((len(sets), len(class_numbers)), dtype=bool)
        held[which[asked], place[classes[asked]]] = True
        return held


def words_of_sets(class_words: Array) -> Array:
    """The word of a set of classes from theirs (±1): the majority of every bit.

    A bit that is tied goes to the first of the classes, the next tied one to the second, and so on: the word
    of two classes is as far from one as from the other. On held-out rows of GoEmotions that is as good as any
    other rule: mAP 0.374, by the rarest label 0.373, by the most frequent 0.370.
    """
    sums = class_words.sum(axis=0, dtype=np.int64)
    tied = np.flatnonzero(sums == 0)
    word = np.sign(sums)
    word[tied] = class_words[np.arange(len(tied)) % len(class_words), tied]
    return word.astype(np.int8)
