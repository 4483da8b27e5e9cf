"""Codes in slots, in the order of their ids: found by bisection, removed by a mark."""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array
from sihash.codes import as_words, n_bytes
from sihash.index.base import check_ids, refuse_missing, refuse_present

HIDDEN = np.uint16(1 << 15)  # added to a distance, it is beyond every other


class Slots:
    """Ids in ascending order, their codes, and which slots are hidden because their id was removed.

    The order makes ties go to the smallest id without a sort, and finds the slots of a batch of b ids in
    b · log n. Ids above all others are appended; room grows by doubling, hidden slots are cleared away
    when they are a third of all. So a batch costs what the batch is worth, on the average. Only ids
    added below the highest one, which happens when a removal is taken back, move what lies behind them.

    ``words`` (n_words × capacity, uint64) are the codes word by word, so that loops over slots are
    contiguous; ``hidden`` is 0 or `HIDDEN`.
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bytes = n_bytes(n_bits)
        self.n = 0  # slots in use, hidden ones among them
        self.n_hidden = 0
        self._ids = np.empty(0, dtype=np.int64)
        self._words = np.empty((-(-self.n_bytes // 8), 0), dtype=np.uint64)
        self._hidden = np.empty(0, dtype=np.uint16)
        self._asked: tuple[Array | None, Array] = (None, self._hidden)  # the last of `hidden_but`

    def __len__(self) -> int:
        return self.n - self.n_hidden

    @property
    def ids(self) -> Array:
        return self._ids[: self.n]

    @property
    def words(self) -> Array:
        """Of all slots, those not in use at the end: compiled loops are vectorised over whole arrays only."""
        return self._words

    @property
    def hidden(self) -> Array:
        return self._hidden[: self.n]

    def add(self, ids: Array, codes: Array) -> None:
        refuse_present(ids[self._find(ids) >= 0])
        order = np.argsort(ids)
        ids, words = ids[order], as_words(codes[order]).T
        if len(ids) and self.n and ids[0] <= self.ids[-1]:
            ids, words = self._merged(ids, words)
        self._append(ids, words)

    def remove(self, ids: Array) -> None:
        self._hidden[self.slots(ids)] = HIDDEN
        self._asked = (None, self._hidden)
        self.n_hidden += len(ids)
        if 3 * self.n_hidden > self.n:
            self._append(*self._taken())

    def replace(self, ids: Array, codes: Array) -> None:
        self._words[:, self.slots(ids)] = as_words(codes).T

    def codes(self, slots: Array) -> Array:
        """Packed codes (len(slots) × n_bytes) of slots."""
        words = np.ascontiguousarray(self._words[:, slots].T)
        return np.ascontiguousarray(words.view(np.uint8)[:, : self.n_bytes])

    def slots(self, ids: Array) -> Array:
        """The slot of each id; an id that is not there is refused."""
        found = self._find(ids)
        refuse_missing(ids[found < 0])
        return found

    def hidden_but(self, allowed: Array) -> Array:
        """``hidden`` for a search among some ids only; those that are not there are passed over."""
        last, hidden = self._asked
        if last is allowed:
            return hidden
        allowed = ids = np.asarray(allowed)
        if ids.dtype != np.int64 or ids.ndim != 1 or not _is_ascending(ids):
            ids = np.sort(check_ids(ids), kind="stable")
        hidden = _hidden_but_sorted(self.ids, self.hidden, ids)
        if not allowed.flags.writeable:  # who may not change it may ask by it again, as many searches do
            self._asked = (allowed, hidden)
        return hidden

    def _find(self, ids: Array) -> Array:
        """The slot of each id, −1 where it is not there."""
        if not self.n:
            return np.full(len(ids), -1)
        found = np.minimum(np.searchsorted(self.ids, ids), self.n - 1)
        there = (self._ids[found] == ids) & (self._hidden[found] == 0)
        return np.where(there, found, -1)

    def _append(self, ids: Array, words: Array) -> None:
        self._asked = (None, self._hidden)
        n = self.n + len(ids)
        if n > len(self._ids):
            room = max(n, 2 * self.n) - self.n
            self._ids = np.concatenate([self.ids, np.empty(room, np.int64)])
            self._words = np.concatenate(
                [self._words[:, : self.n], np.empty((len(words), room), np.uint64)], axis=1
            )
            self._hidden = np.concatenate([self.hidden, np.zeros(room, np.uint16)])
        self._ids[self.n : n], self._words[:, self.n : n], self._hidden[self.n : n] = ids, words, 0
        self.n = n

    def _merged(self, ids: Array, words: Array) -> tuple[Array, Array]:
        """New ids and words among those taken out, all in order."""
        old_ids, old_words = self._taken()
        places = np.searchsorted(old_ids, ids)
        return np.insert(old_ids, places, ids), np.insert(old_words, places, words, axis=1)

    def _taken(self) -> tuple[Array, Array]:
        """Take out all ids and words that are not hidden; none is left."""
        live = self.hidden == 0
        ids, words = self.ids[live], self._words[:, : self.n][:, live]
        self.n = self.n_hidden = 0
        return ids, words


@numba.njit(nogil=True, cache=True)
def _is_ascending(ids):  # type: ignore[no-untyped-def]
    """Whether ids are not negative, and each is larger than the one before."""
    last, fine = np.int64(-1), True
    for one in ids:
        fine &= one > last  # no way out: only so the loop is vectorised
        last = one
    return fine


@numba.njit(nogil=True, cache=True)
def _hidden_but_sorted(ids, hidden, wanted):  # type: ignore[no-untyped-def]
    """``hidden``, and every slot hidden that is not of the sorted ``wanted``; ``ids`` are sorted, too."""
    out = np.full(len(hidden), HIDDEN)
    n = len(ids)
    if not n:
        return out
    if ids[n - 1] - ids[0] == n - 1:  # no gap: an id says where it is
        for one in wanted:
            slot = one - ids[0]
            if 0 <= slot < n:
                out[slot] = hidden[slot]
        return out
    # Each search goes on from where the last one ended, in leaps that double: near for many, soon for few.
    low = 0  # all ids before low are smaller than what is wanted
    for one in wanted:
        leap = 1
        while low + leap <= n and ids[low + leap - 1] < one:
            low += leap
            leap *= 2
        high = min(low + leap, n)
        while low < high:
            middle = (low + high) // 2
            if ids[middle] < one:
                low = middle + 1
            else:
                high = middle
        if low == n:
            break
        if ids[low] == one:
            out[low] = hidden[low]
    return out
