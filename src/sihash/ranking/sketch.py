"""Sketches: a few bytes of the vector itself, beside the learned code.

Learned codes bring the items of a class together, often on one word: thousands of items are equally near a
query. A sketch tells these apart without their vectors. It has two parts:

- Signs of 64 random projections of the centred vector, which differ roughly by the angle between vectors
  (Charikar, *Similarity estimation techniques from rounding algorithms*, 2002). Hamming distance over code
  and signs together finds candidates that are near in both.
- One or four bits for each number of r, the centred unit vector in random directions: its sign, or the
  nearest of 16 levels; these are c. For a query q in the same directions ⟨c, q⟩ / ⟨c, r⟩ estimates the cosine
  (RaBitQ, Gao and Long 2024): what c has beside r points anywhere, and seldom along q. 1 / ⟨c, r⟩ is stored.

Without the second part the signs stand for the angle. Directions do not depend on labels or models, so a
sketch is made once and never again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from sihash._typing import Array
from sihash.codes import pack, sign
from sihash.kernel import normalise

SKETCH_BITS = 64  # of the first part, one word of the scan; 32 find fewer of the nearest vectors
SKETCH_BYTES = SKETCH_BITS // 8
BITS = (0, 1, 4)  # of each number, in the second part
DEFAULT_BITS = 4  # which rank as vectors do; how much is lost with fewer depends on the collection
STEP = 0.335  # of the root mean square of r: 16 levels so far apart lose least of normal numbers
BLOCK = 1024  # numbers turned together; as many take a megaflop of each vector
NEARLY_SAME = 1 - 1e-6  # what is estimated stays below the cosine of a vector to itself


@dataclass(frozen=True)
class Sketcher:
    """Centres vectors to ``mean`` (d,), takes signs along ``directions`` (d × SKETCH_BITS), and rotates what
    has unit length, as many numbers at a time as ``rotation`` (n_blocks × b × b) has in a block.
    """

    mean: Array
    directions: Array
    rotation: Array
    bits: int

    @classmethod
    def made(cls, mean: Array, bits: int = DEFAULT_BITS) -> Self:
        """With random directions, orthogonal as far as there is room for that."""
        if bits not in BITS:
            raise ValueError(f"A sketch has {', '.join(map(str, BITS))} bits a number, got {bits!r}.")
        d = len(mean)
        rng = np.random.default_rng(0)
        R = rng.standard_normal((max(d, SKETCH_BITS), SKETCH_BITS))
        directions = np.linalg.qr(R)[0] if d >= SKETCH_BITS else R[:d]
        n_blocks = -(-d // BLOCK) if bits else 0
        b = -(-d // max(1, n_blocks))
        blocks = [np.linalg.qr(rng.standard_normal((b, b)))[0] for _ in range(n_blocks)]
        rotation = np.array(blocks, dtype=np.float32).reshape(n_blocks, b, b)
        return cls(mean.astype(np.float32), np.ascontiguousarray(directions, np.float32), rotation, bits)

    @property
    def n_bytes(self) -> int:
        """Of a whole sketch."""
        if not self.bits:
            return SKETCH_BYTES
        return SKETCH_BYTES + 4 + -(-self._n_rotated * self.bits // 8)

    @property
    def _n_rotated(self) -> int:
        """Numbers of r: those of the vector, and zeros before it was turned; an even number."""
        n_blocks, b, _ = self.rotation.shape
        return n_blocks * b + n_blocks * b % 2

    def __call__(self, X: Array) -> Array:
        """The first part (n × SKETCH_BYTES) of sketches of vectors (n × d)."""
        return pack(sign((X - self.mean) @ self.directions))

    def whole(self, X: Array) -> Array:
        """Sketches (n × n_bytes) of vectors (n × d)."""
        signs = self(X)
        if not self.bits:
            return signs
        R = self.rotated(X)
        C, packed = self._one_bit(R) if self.bits == 1 else self._four_bits(R)
        products = np.einsum("ij,ij->i", C, R)
        factors = np.divide(1, products, out=np.zeros(len(X), np.float32), where=products > 0)
        return np.concatenate([signs, factors.astype("<f4").view(np.uint8).reshape(-1, 4), packed], axis=1)

    def rotated(self, X: Array) -> Array:
        """r (n × numbers of r) of vectors (n × d); zeros for one without a direction."""
        n_blocks, b, _ = self.rotation.shape
        Z = np.zeros((len(X), n_blocks * b), dtype=np.float32)
        Z[:, : X.shape[1]] = normalise(np.asarray(X, dtype=np.float32), self.mean)
        R = np.zeros((len(X), self._n_rotated), dtype=np.float32)
        for k, turn in enumerate(self.rotation):
            R[:, k * b : (k + 1) * b] = Z[:, k * b : (k + 1) * b] @ turn
        return R

    @staticmethod
    def _one_bit(R: Array) -> tuple[Array, Array]:
        return np.where(R >= 0, np.float32(1), np.float32(-1)), pack(sign(R))

    @staticmethod
    def _four_bits(R: Array) -> tuple[Array, Array]:
        """Levels, and two of them in a byte: number j in the low half of byte j, j + half in the high one."""
        half = R.shape[1] // 2
        levels = np.floor(R * np.float32(np.sqrt(R.shape[1]) / STEP)).clip(-8, 7)
        numbers = (levels + 8).astype(np.uint8)
        return levels + np.float32(0.5), numbers[:, :half] | numbers[:, half:] << 4

    def cosines(self, sketches: Array, query: Array) -> Array:
        """Estimates (n,) of the cosines of a vector (d,) to those of sketches (n × n_bytes), both centred.

        Sums row by row, so that equal sketches tie.
        """
        if not self.bits:
            differ = np.bitwise_count(sketches[:, :SKETCH_BYTES] ^ self(query[None])).sum(axis=1)
            return np.minimum(np.cos(np.pi / SKETCH_BITS * differ), NEARLY_SAME)
        q = self.rotated(query[None])[0]
        factors = np.ascontiguousarray(sketches[:, SKETCH_BYTES : SKETCH_BYTES + 4]).view("<f4")[:, 0]
        packed, half = sketches[:, SKETCH_BYTES + 4 :], len(q) // 2
        if self.bits == 1:
            ones = np.unpackbits(packed, axis=1, count=len(q), bitorder="little").astype(np.float32)
            products = 2 * np.einsum("ij,j->i", ones, q) - q.sum()
        else:
            low, high = (packed & 15).astype(np.float32), (packed >> 4).astype(np.float32)
            products = np.einsum("ij,j->i", low, q[:half]) + np.einsum("ij,j->i", high, q[half:])
            products -= np.float32(7.5) * q.sum()
        return np.clip((products * factors).astype(np.float64), -1, NEARLY_SAME)

    def to_array(self) -> Array:
        """As one array, for a file."""
        n_blocks, b, _ = self.rotation.shape
        sizes = np.array([self.bits, len(self.mean), n_blocks, b], dtype=np.float32)
        return np.concatenate([sizes, self.mean, self.directions.ravel(), self.rotation.ravel()])

    @classmethod
    def from_array(cls, numbers: Array) -> Self:
        bits, d, n_blocks, b = (int(n) for n in numbers[:4])
        mean, directions, rotation = np.split(numbers[4:], [d, d + d * SKETCH_BITS])
        return cls(mean, directions.reshape(d, SKETCH_BITS), rotation.reshape(n_blocks, b, b), bits)
