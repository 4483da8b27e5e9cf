"""From the items of a segment to their packed codes, by the hash functions of one version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from sihash._typing import Array
from sihash.codes import n_bytes
from sihash.hashing.hash_functions import HashFunctions
from sihash.kernel import row_blocks
from sihash.store.segments import Segment

if TYPE_CHECKING:
    from sihash.hashing.training import Training

ENCODED_ROWS = 1 << 15  # hashed at a time


class Encoder:
    """Hashes vectors, unless the codes of their items are known already: ``ids`` (ascending), ``codes``."""

    def __init__(self, hasher: HashFunctions, ids: Array | None = None, codes: Array | None = None) -> None:
        self.hasher = hasher
        width = n_bytes(hasher.n_bits)
        self._ids = np.empty(0, dtype=np.int64) if ids is None else ids
        self._codes = np.empty((0, width), dtype=np.uint8) if codes is None else codes

    @classmethod
    def after_learning(cls, learner: Training) -> Self:
        """Learning has left the codes of the items that it learned from."""
        codes, certain = learner.hashes()
        ids = np.array(learner.ids, dtype=np.int64)[certain]
        order = np.argsort(ids)
        return cls(learner.functions(), ids[order], codes[certain][order])

    def codes(self, segment: Segment) -> Array:
        """Packed codes of all items of a segment, n × n_bytes."""
        codes = np.empty((len(segment.ids), self._codes.shape[1]), dtype=np.uint8)
        places = np.minimum(self._ids.searchsorted(segment.ids), max(len(self._ids) - 1, 0))
        known = self._ids[places] == segment.ids if len(self._ids) else np.zeros(len(codes), dtype=bool)
        codes[known] = self._codes[places[known]]
        unknown = np.flatnonzero(~known)
        for part in row_blocks(len(unknown), ENCODED_ROWS):
            rows = unknown[part]
            codes[rows] = self.hasher.transform(segment.vectors[rows])
        return codes
