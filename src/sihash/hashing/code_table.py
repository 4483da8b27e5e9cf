"""The distinct pairs of code word and class, counted.

After initialisation every class has one word, and even after many rounds there are few. The multi-class SVM
and its half of eq. 2 depend on a row only through its pair, so they run over this table.
"""

from __future__ import annotations

import numpy as np

from sihash import codes
from sihash._typing import Array


class CodeTable:
    """Pairs by number: ``words[p]`` (int8 ±1), ``classes[p]`` (class number), ``counts[p]`` (rows)."""

    def __init__(self, n_bits: int) -> None:
        self.words = np.empty((0, n_bits), dtype=np.int8)
        self.classes = np.empty(0, dtype=np.intp)
        self.counts = np.empty(0, dtype=np.int64)
        self._number: dict[tuple[bytes, int], int] = {}

    def copy(self) -> CodeTable:
        twin = CodeTable(self.words.shape[1])
        twin.words, twin.classes, twin.counts = self.words.copy(), self.classes.copy(), self.counts.copy()
        twin._number = self._number.copy()
        return twin

    def find(self, word: Array, class_number: int) -> int:
        """The number of a pair; one not seen before is entered with count 0."""
        key = (word.astype(np.int8).tobytes(), int(class_number))
        if key not in self._number:
            self._number[key] = len(self.counts)
            self.words = np.concatenate([self.words, word[None].astype(np.int8)])
            self.classes = np.append(self.classes, class_number)
            self.counts = np.append(self.counts, 0)
        return self._number[key]

    def find_all(self, packed: Array, classes: Array) -> Array:
        """Pair numbers of many rows; their words are packed."""
        number = classes.astype(np.int64)
        for byte in packed.T:  # distinct rows by sorting numbers: sorting rows takes 35 times as long
            _, first, number = np.unique(256 * number + byte, return_index=True, return_inverse=True)
        words = codes.unpack(packed[first], self.words.shape[1])
        pairs = [self.find(word, own) for word, own in zip(words, classes[first].tolist(), strict=True)]
        return np.array(pairs, dtype=np.int32)[number]

    def count(self, pairs: Array) -> None:
        """Count rows with these pair numbers in."""
        self.counts = self.counts + np.bincount(pairs, minlength=len(self.counts))

    def count_out(self, counts: Array) -> None:
        """Count rows out, so many of each pair."""
        self.counts = self.counts - counts.astype(np.int64)

    def move(self, pair: int, other: int, count: int) -> None:
        """Count rows out of one pair and into another."""
        self.counts[pair] -= count
        self.counts[other] += count

    def live(self) -> Array:
        """Numbers of the pairs that have rows."""
        return np.flatnonzero(self.counts)

    def main_pair(self, class_number: int) -> int:
        """The most frequent pair of a class (paper: the word that new images of the class start from)."""
        own = np.flatnonzero(self.classes == class_number)
        return int(own[np.argmax(self.counts[own])])

    def main_words(self, class_numbers: Array) -> Array:
        return np.array([self.words[self.main_pair(k)] for k in class_numbers], dtype=np.int8)

    def sizes(self, class_numbers: Array) -> Array:
        """Rows of each class."""
        totals = np.bincount(
            self.classes, weights=self.counts, minlength=int(max(class_numbers, default=0)) + 1
        )
        return totals[class_numbers].astype(np.int64)

    def surplus(self) -> Array:
        """``Σ_i b_ij`` for every bit."""
        return self.counts @ self.words.astype(np.int64)
