"""The rows near the margin of a bit, which follow its steps one after another.

Where few bits are left, all rows are too many: the shares of most stay 0 or 1, and these need not be read.
Every row that is near follows a step then, in a tenth of the time of a pass over Φ, and what that changes
shows the next step more of the bit's own curvature. What is out of balance outside the strongest directions
is soon little; inside, `sihash.svm.balance` sees to it.
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
    """For one bit, in place: four rows at a time, which are added to ``g`` while they are in the cache."""
    zero, half, one = np.float32(0), np.float32(0.5), np.float32(1)
    at, margin, n = np.zeros(len(Phi) + 3, np.intp), np.empty(len(Phi), np.float32), 0
    for i in range(len(Phi)):
        at[n], margin[n] = i, where_share_is(shares[i], Z[i], width)
        n += abs(margin[n] - one) < REACH * width
    at[n : n + 3] = at[0]  # they go along with the last ones, and add nothing
    total, change = 0.0, np.empty(4, np.float32)
    for k in range(0, n, 4):
        row0, row1, row2, row3 = Phi[at[k]], Phi[at[k + 1]], Phi[at[k + 2]], Phi[at[k + 3]]
        s0, s1, s2, s3 = zero, zero, zero, zero
        for e in range(len(step)):
            s0, s1 = s0 + step[e] * row0[e], s1 + step[e] * row1[e]
            s2, s3 = s2 + step[e] * row2[e], s3 + step[e] * row3[e]
        change[0], change[1], change[2], change[3] = s0, s1, s2, s3
        change[n - k :] = zero
        for q in range(min(4, n - k)):
            i = at[k + q]
            p, moved = shares[i], half + (one - margin[k + q] - Y[i] * change[q]) / width
            shares[i] = min(max(moved, zero), one)
            change[q] = (shares[i] - p) * Y[i]
            total += shares[i] - p
        c0, c1, c2, c3 = change[0], change[1], change[2], change[3]
        for e in range(len(g)):
            g[e] += c0 * row0[e] + c1 * row1[e] + c2 * row2[e] + c3 * row3[e]
    return total
