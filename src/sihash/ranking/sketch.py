"""A few bits of the vector itself, beside the learned code.

Learned codes bring the items of a class together, often on one word: thousands of items are equally near a
query. The signs of some random projections of the centred vector tell these apart, roughly by the angle
between vectors (Charikar, *Similarity estimation techniques from rounding algorithms*, 2002). Hamming
distance over the learned code and the sketch together finds candidates that are near in both.

The projections do not depend on labels or models, so a sketch is made once and never again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.codes import pack, sign

SKETCH_BITS = 64  # one word of the scan; 32 find fewer of the nearest vectors
SKETCH_BYTES = SKETCH_BITS // 8


@dataclass(frozen=True)
class Sketcher:
    """Centres vectors to ``mean`` (d,) and takes the signs along ``directions`` (d × SKETCH_BITS)."""

    mean: Array
    directions: Array

    @classmethod
    def made(cls, mean: Array) -> Sketcher:
        """With random directions, orthogonal as far as there is room for that."""
        d = len(mean)
        R = np.random.default_rng(0).standard_normal((max(d, SKETCH_BITS), SKETCH_BITS))
        directions = np.linalg.qr(R)[0] if d >= SKETCH_BITS else R[:d]
        return cls(mean.astype(np.float32), np.ascontiguousarray(directions, dtype=np.float32))

    def __call__(self, X: Array) -> Array:
        """Packed sketches (n × SKETCH_BYTES) of vectors (n × d)."""
        return pack(sign((X - self.mean) @ self.directions))

    def to_array(self) -> Array:
        """As one array ((1 + SKETCH_BITS) × d), for a file."""
        return np.vstack([self.mean, self.directions.T])

    @classmethod
    def from_array(cls, rows: Array) -> Sketcher:
        return cls(rows[0], np.ascontiguousarray(rows[1:].T))
