"""Cosines between a query and stored vectors, both centred."""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array


def direction(x: Array, mean: Array) -> Array:
    """A centred vector at unit length, float64; one equal to the mean has no direction and is zero."""
    z = x.astype(np.float64) - mean
    length = np.linalg.norm(z)
    return z / length if length > 0 else z


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def cosines(vectors, rows, mean, query, out):  # type: ignore[no-untyped-def]
    """Write the cosine of ``query``, a `direction`, to some ``rows`` of ``vectors`` to ``out``.

    Read where they lie: a copy of the rows would cost more than the products. Two vectors without a direction
    are one; others have the cosine 0 to them.
    """
    somewhere = False
    for e in range(len(query)):
        somewhere |= query[e] != 0
    for i in range(len(rows)):
        x = vectors[rows[i]]
        product, square = 0.0, 0.0
        for e in range(len(query)):
            z = np.float64(x[e]) - np.float64(mean[e])
            product += z * query[e]
            square += z * z
        if square > 0:
            out[i] = product / np.sqrt(square)
        else:
            out[i] = 0.0 if somewhere else 1.0
