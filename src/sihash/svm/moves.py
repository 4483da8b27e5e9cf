"""Changes of the weights of many bits at once, made of few directions where these will do.

When a class goes, what every bit misses is nearly the same, a sum over the rows of that class; when one comes
it is too, and from weights 0 it is one sum a class. So the first step of a solve often lies in ten directions
or so, whatever the number of bits, and its scores cost as much as those of ten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.svm.products import product

LOST = 0.01  # of what a step gains for any bit: so much it may lose by being made of fewer directions
FEW = 0.5  # of the bits: so many directions at most, or the detour does not pay


@dataclass(frozen=True)
class Moves:
    """``directions`` (d × k) times ``mix`` (k × bits), or the directions themselves; all float32."""

    directions: Array
    mix: Array | None = None

    @classmethod
    def of(cls, D: Array) -> Moves:
        """The rows of ``D`` (bits × d)."""
        return cls(np.ascontiguousarray(D.T, dtype=np.float32))

    def times(self, lengths: Array) -> Moves:
        """Each bit's as many times as long."""
        lengths = lengths.astype(np.float32)
        if self.mix is None:
            return Moves(self.directions * lengths)
        return Moves(self.directions, self.mix * lengths)

    def scores(self, Phi: Array) -> Array:
        """How the scores of rows change, rows × bits."""
        scores = product(Phi, self.directions)
        return scores if self.mix is None else np.matmul(scores, self.mix)


def in_few_directions(D: Array, factor: Array) -> tuple[Array, Moves]:
    """Steps ``D`` (bits × d) as `Moves`, made of few directions if they may be; and the steps that these are.

    With the Hessian ``L Lᵀ``, ``L = factor``, a step ``d`` gains ``½ ‖Lᵀd‖²``. The directions are those that
    keep most of it, every bit counting alike.
    """
    gains = np.matmul(D.astype(np.float32), factor).astype(np.float64)
    size = np.maximum(np.linalg.norm(gains, axis=1, keepdims=True), 1e-300)
    strengths, U = np.linalg.eigh((gains / size) @ (gains / size).T)
    kept = np.cumsum((strengths * U**2)[:, ::-1], axis=1)  # of each bit's, by 1, 2, … directions
    enough = np.flatnonzero(kept.min(axis=0) >= 1 - LOST)
    k = enough[0] + 1 if len(enough) else len(D)
    if k > FEW * len(D):
        return D, Moves.of(D)
    U = U[:, ::-1][:, :k]
    directions, mix = (U / size).T @ D, (U * size).T
    moves = Moves(np.ascontiguousarray(directions.T, dtype=np.float32), mix.astype(np.float32))
    return mix.T @ directions, moves
