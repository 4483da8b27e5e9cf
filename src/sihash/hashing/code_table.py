"""The distinct pairs of code word and label set, counted.

With one label per row a label set is a class (`LabelSets`). After initialisation every set has one word, and
even after many rounds there are few. The multi-class SVM and its half of eq. 2 depend on a row only through
its pair, so they run over this table.
"""

from __future__ import annotations

import numpy as np

from sihash import codes
from sihash._typing import Array


class CodeTable:
    """Pairs by number: ``words[p]`` (int8 ±1), ``sets[p]`` (its label set), ``counts[p]`` (rows)."""

    def __init__(self, n_bits: int) -> None:
        self.words = np.empty((0, n_bits), dtype=np.int8)
        self.sets = np.empty(0, dtype=np.intp)
        self.counts = np.empty(0, dtype=np.int64)
        self._number: dict[tuple[bytes, int], int] = {}

    def copy(self) -> CodeTable:
        table = CodeTable(self.words.shape[1])
        table.words, table.sets, table.counts = self.words.copy(), self.sets.copy(), self.counts.copy()
        table._number = self._number.copy()
        return table

    def find(self, word: Array, label_set: int) -> int:
        """The number of a pair; one not seen before is entered with count 0."""
        return int(self.find_each(word[None], np.array([label_set]))[0])

    def find_each(self, words: Array, sets: Array) -> Array:
        """The numbers of pairs; those not seen before are entered with count 0."""
        keys = [(w.tobytes(), s) for w, s in zip(words.astype(np.int8), sets.tolist(), strict=True)]
        new: list[int] = []
        for place, key in enumerate(keys):
            if key not in self._number:
                self._number[key] = len(self.counts) + len(new)
                new.append(place)
        if new:
            self.words = np.concatenate([self.words, words[new].astype(np.int8)])
            self.sets = np.concatenate([self.sets, sets[new]])
            self.counts = np.concatenate([self.counts, np.zeros(len(new), dtype=np.int64)])
        return np.array([self._number[key] for key in keys], dtype=np.int32)

    def replace(self, pairs: Array, words: Array) -> None:
        """Give pairs other words, which none of their label sets has yet."""
        for pair, word in zip(pairs.tolist(), words.astype(np.int8), strict=True):
            label_set = int(self.sets[pair])
            del self._number[self.words[pair].tobytes(), label_set]
            self._number[word.tobytes(), label_set] = pair
        self.words = self.words.copy()
        self.words[pairs] = words

    def find_all(self, packed: Array, sets: Array) -> Array:
        """Pair numbers of many rows; their words are packed."""
        number = sets.astype(np.int64)
        for byte in packed.T:  # distinct rows by sorting numbers: sorting rows takes 35 times as long
            _, first, number = np.unique(256 * number + byte, return_index=True, return_inverse=True)
        return self.find_each(codes.unpack(packed[first], self.words.shape[1]), sets[first])[number]

    def count(self, pairs: Array) -> None:
        """Count rows with these pair numbers in."""
        self.counts = self.counts + np.bincount(pairs, minlength=len(self.counts))

    def count_out(self, counts: Array) -> None:
        """Count rows out: how many leave each pair."""
        self.counts = self.counts - counts.astype(np.int64)

    def move(self, pair: int, other: int, count: int) -> None:
        """Count rows out of one pair and into another."""
        self.counts[pair] -= count
        self.counts[other] += count

    def live(self) -> Array:
        """Numbers of the pairs that have rows."""
        return np.flatnonzero(self.counts)

    def main_pair(self, label_set: int) -> int:
        """The most frequent pair of a label set (paper: the word that new images of a class start from)."""
        own = np.flatnonzero(self.sets == label_set)
        return int(own[np.argmax(self.counts[own])])

    def main_words(self, sets: Array) -> Array:
        return self.words[[self.main_pair(s) for s in sets]] if len(sets) else self.words[:0]

    def sizes(self, n_sets: int) -> Array:
        """Rows of each label set."""
        return np.bincount(self.sets, weights=self.counts, minlength=n_sets).astype(np.int64)

    def surplus(self) -> Array:
        """``Σ_i b_ij`` for every bit."""
        return self.counts @ self.words.astype(np.int64)
