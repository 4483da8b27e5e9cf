"""The rows near the margin of a bit, which follow its steps one after another.

Where few bits are left, all rows are too many: of these the others, whose shares stay 0 or 1, need not be
read. A step that costs a bit a fortieth of a pass over Φ can be taken several times, by every row that has
room, and each shows the next one more of the bit's own curvature. What lies outside the strongest directions
is soon in balance; inside, `sihash.svm.balance` sees to it.
"""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array
from sihash.svm.balance import DualPoint, take_shares, where_share_is
from sihash.svm.blocks import Block
from sihash.svm.smooth_machines import ASCENDED, SmoothMachines

REACH = 0.75  # of the width: as far from the margin 1 a row is near; up to 0.5 its share is neither 0 nor 1


def follow(M: SmoothMachines, point: DualPoint, step: Array) -> None:
    """From a dual point to the one in slot `ASCENDED`, by a change of weights (bits × d) that rows follow."""
    width = M.width[point.bits].astype(np.float32)
    where = point.bits, point.slots, point.columns, width
    changes = M.rows.by_group(M.bundle.n_groups, _follow, step.astype(np.float32), *where)
    assert changes is not None
    M.bundle.shift(point.bits, point.slots, ASCENDED, *changes)


def _follow(
    block: Block, step: Array, bits: Array, slots: Array, columns: Array, width: Array
) -> tuple[Array, Array]:
    """Returns ``Σ y φ`` times the changes of the shares (bits × d), and the sums of these."""
    shares, Z = take_shares(block, bits, slots), block.scratch["Z"]
    g, total = np.zeros_like(step), np.zeros(len(bits))
    for k in range(len(bits)):
        margins = Z[:, columns[k]], shares[:, bits[k]], block["Y"][:, bits[k]]
        total[k] = _follow_one(block["Phi"], *margins, width[k], step[k], g[k])
    return g, total


@numba.njit(nogil=True, fastmath=True, cache=True)
def _follow_one(
    Phi: Array, Z: Array, shares: Array, Y: Array, width: np.float32, step: Array, g: Array
) -> float:
    """For one bit, in place. A row is added to ``g`` while it is in the cache."""
    zero, half, one = np.float32(0), np.float32(0.5), np.float32(1)
    total = 0.0
    for i in range(len(Phi)):
        p, row = shares[i], Phi[i]
        margin = where_share_is(p, Z[i], width)
        if abs(margin - one) >= REACH * width:
            continue
        score = zero
        for e in range(len(step)):
            score += step[e] * row[e]
        margin += Y[i] * score
        moved = min(max(half + (one - margin) / width, zero), one)
        shares[i] = moved
        change = (moved - p) * Y[i]
        for e in range(len(g)):
            g[e] += change * row[e]
        total += moved - p
    return total
