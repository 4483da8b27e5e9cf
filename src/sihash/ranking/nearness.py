"""Cosines between a query and stored vectors, both centred."""

from __future__ import annotations

import numpy as np

from sihash._typing import Array


def direction(x: Array, mean: Array) -> Array:
    """A centred vector at unit length, float64; one equal to the mean has no direction and is zero."""
    z = x.astype(np.float64) - mean
    length = np.linalg.norm(z)
    return z / length if length > 0 else z


def cosines(vectors: Array, mean: Array, query: Array) -> Array:
    """Cosines of ``query``, a `direction`, to vectors (n × d).

    Two vectors without a direction are one; others have the cosine 0 to them. Sums row by row: a product of
    matrices may round equal rows differently, which breaks ties.
    """
    Z = vectors - mean.astype(np.float64)
    products, squares = np.einsum("ij,j->i", Z, query), np.einsum("ij,ij->i", Z, Z)
    nowhere = 0.0 if query.any() else 1.0
    return np.where(squares > 0, products / np.sqrt(np.where(squares > 0, squares, 1)), nowhere)
