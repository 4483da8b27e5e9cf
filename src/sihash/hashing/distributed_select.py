"""The k-th smallest of numbers that lie on several machines."""

from __future__ import annotations

import numpy as np

from sihash._typing import Array
from sihash.svm.blocks import RowBlocks

DIGIT = 16  # bits per round: four rounds, each of which sends 65,536 counts


def kth_smallest(rows: RowBlocks, name: str, k: int) -> float:
    """The ``k``-th smallest (from 1) of the float64 arrays that the scratch of the parts holds as ``name``.

    Digit by digit from the highest: the parts count how many numbers have each digit, of those that agree
    with the digits found so far. What is sent does not depend on how many numbers there are.
    """
    found = 0
    for shift in range(64 - DIGIT, -1, -DIGIT):
        counts = sum(rows.parts(_digit_counts, name, found, shift))
        upto = np.cumsum(counts)
        digit = int(np.searchsorted(upto, k))
        k -= int(upto[digit] - counts[digit])
        found = (found << DIGIT) | digit
    return float(_number(np.array([found], dtype=np.uint64))[0])


def _digit_counts(rows: RowBlocks, name: str, found: int, shift: int) -> Array:
    """Counts of the digit at ``shift`` among the numbers whose higher digits are ``found``."""
    if shift == 64 - DIGIT:
        rows.scratch["ordered"] = _ordered(rows.scratch[name])
    else:
        higher = rows.scratch["ordered"] >> np.uint64(shift + DIGIT)
        rows.scratch["ordered"] = rows.scratch["ordered"][higher == np.uint64(found)]
    digits = (rows.scratch["ordered"] >> np.uint64(shift)) & np.uint64((1 << DIGIT) - 1)
    return np.bincount(digits.astype(np.intp), minlength=1 << DIGIT)


def _ordered(numbers: Array) -> Array:
    """uint64 in the order of the float64: the sign bit turned round, all bits of negative ones."""
    bits = (numbers + 0.0).view(np.uint64)  # −0 and 0 are one number
    negative = bits >> np.uint64(63) == 1
    return np.where(negative, ~bits, bits | np.uint64(1 << 63))


def _number(ordered: Array) -> Array:
    negative = ordered >> np.uint64(63) == 0
    return np.where(negative, ~ordered, ordered & np.uint64((1 << 63) - 1)).view(np.float64)
