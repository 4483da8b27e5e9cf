"""Bits that are one and the same problem: equal columns of signs, or opposite ones.

Few classes can be split in few ways: two in one, four in seven. Longer codes repeat the splits, and what is
learned of one bit holds for its repeats, with the sign turned where their columns are opposite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.svm.blocks import Block
from sihash.svm.smooth_machines import SmoothMachines

_SAME = ("risk", "width", "latest", "fresh", "scale", "rho", "known_lower")  # one entry a bit ...
_TURNED = ("W", "pairs_s", "pairs_y")  # ... and those that turn with the sign


@dataclass(frozen=True)
class Repeats:
    """``bits`` that need no solving, the bit that each one follows, and with which sign."""

    bits: Array
    leaders: Array
    signs: Array

    def follow(self, machines: SmoothMachines) -> None:
        """Give the repeats everything that their leaders have learned."""
        for name in _SAME:
            values = getattr(machines, name)
            values[self.bits] = values[self.leaders]
        for name in _TURNED:
            values = getattr(machines, name)
            values[self.bits] = self._turned(values)
        bundle = machines.bundle
        bundle.take(
            self.bits,
            self._turned(bundle.g),
            bundle.a[self.leaders],
            bundle.b[self.leaders],
            bundle.newest[self.leaders],
        )
        machines.rows.map(_follow, self.bits, self.leaders, self.signs, bundle.n_slots)

    def _turned(self, values: Array) -> Array:
        return values[self.leaders] * self.signs.reshape(-1, *[1] * (values.ndim - 1))


def find_repeats(words: Array, W: Array, bits: Array) -> Repeats:
    """Repeats among ``bits``, each after its leader: by the words that the rows have (n × m), and weights."""
    # The weights of repeats are equal too, unless the bits have become repeats only now.
    found: dict[tuple[bytes, bytes], tuple[int, float]] = {}
    repeats = []
    for j in bits.tolist():
        sign = float(words[0, j])
        key = (sign * words[:, j]).tobytes(), (sign * W[j] + 0.0).tobytes()  # + 0.0: there is but one zero
        leader, own = found.setdefault(key, (j, sign))
        if leader != j:
            repeats.append((j, leader, sign * own))
    columns = np.array(repeats, dtype=float).reshape(-1, 3).T
    return Repeats(columns[0].astype(np.intp), columns[1].astype(np.intp), columns[2])


def _follow(block: Block, bits: Array, leaders: Array, signs: Array, n_slots: int) -> None:
    block["S"][:, bits] = block["S"][:, leaders] * signs.astype(np.float32)
    for slot in range(n_slots):
        shares = block[f"pi{slot}"]
        shares[:, bits] = shares[:, leaders]
