"""Sketches beside exact cosines, which they estimate."""

from __future__ import annotations

import numpy as np
import pytest

from sihash.ranking import Sketcher
from sihash.ranking.sketch import BITS, NEARLY_SAME, SKETCH_BITS, SKETCH_BYTES


def cosine_pairs(rng, n, d, mean):
    """Vectors at all angles to a query, and their cosines to it, centred."""
    query = rng.standard_normal(d)
    noise = rng.uniform(0.1, 3, (n, 1)) * rng.standard_normal((n, d))
    Z = query + noise
    cosines = Z @ query / np.linalg.norm(Z, axis=1) / np.linalg.norm(query)
    return (query + mean).astype(np.float32), (Z + mean).astype(np.float32), cosines


@pytest.mark.parametrize("d", [64, 385, 1500])
@pytest.mark.parametrize(("bits", "error"), [(1, 0.9), (4, 0.13)])
def test_cosines_are_estimated_without_bias(d, bits, error):
    """The error of RaBitQ falls with √d: about 0.7 / √d with one bit, 0.1 / √d with four."""
    rng = np.random.default_rng(d)
    query, X, cosines = cosine_pairs(rng, 2000, d, 3.0)
    sketcher = Sketcher.made(np.full(d, 3.0), bits)
    sketches = sketcher.whole(X)
    assert sketches.shape == (2000, sketcher.n_bytes)
    assert sketcher.n_bytes - SKETCH_BYTES - 4 - d * bits / 8 < 1 + d % 2
    lacks = sketcher.cosines(sketches, query) - cosines
    assert np.sqrt(np.mean(lacks**2)) < error / np.sqrt(d)
    assert abs(lacks.mean()) < 4 * error / np.sqrt(d * len(X)) + 0.1 * error / np.sqrt(d)


def test_more_bits_are_nearer_and_one_direction_is_no_exception():
    """Vectors with most of their length in a few numbers, as embeddings have them."""
    rng = np.random.default_rng(0)
    scales = np.r_[30.0, 10.0, np.ones(298)]
    query, X = rng.standard_normal(300) * scales, rng.standard_normal((500, 300)) * scales
    cosines = X @ query / np.linalg.norm(X, axis=1) / np.linalg.norm(query)
    errors = []
    for bits in BITS:
        sketcher = Sketcher.made(np.zeros(300), bits)
        found = sketcher.cosines(sketcher.whole(X.astype(np.float32)), query.astype(np.float32))
        errors.append(float(np.sqrt(np.mean((found - cosines) ** 2))))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.01


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("d", [1, 7, 64, 1025])
def test_equal_vectors_tie_whatever_stands_beside_them(d, bits):
    rng = np.random.default_rng(d)
    X = rng.standard_normal((50, d)).astype(np.float32)
    X[[0, 13, 49]] = X[7]
    sketcher = Sketcher.made(np.zeros(d), bits)
    found = sketcher.cosines(sketcher.whole(X), rng.standard_normal(d).astype(np.float32))
    assert len(set(found[[0, 7, 13, 49]].tolist())) == 1
    own = sketcher.cosines(sketcher.whole(X), X[7])
    assert own.max() <= NEARLY_SAME


@pytest.mark.parametrize("bits", BITS)
def test_what_equals_the_mean_has_no_direction(bits):
    sketcher = Sketcher.made(np.full(20, 2.0), bits)
    X = np.full((1, 20), 2.0, np.float32)
    query = np.arange(20, dtype=np.float32)
    if bits:
        assert sketcher.cosines(sketcher.whole(X), query)[0] == 0
        assert sketcher.cosines(sketcher.whole(query[None]), X[0])[0] == 0


@pytest.mark.parametrize("bits", BITS)
def test_from_a_file_comes_the_same(bits):
    rng = np.random.default_rng(0)
    sketcher = Sketcher.made(rng.standard_normal(1100), bits)
    again = Sketcher.from_array(sketcher.to_array())
    X = rng.standard_normal((5, 1100)).astype(np.float32)
    np.testing.assert_array_equal(again.whole(X), sketcher.whole(X))
    np.testing.assert_array_equal(again.whole(X)[:, :SKETCH_BYTES], again(X))


def test_signs_keep_angles():
    """Two vectors at an angle θ differ in about θ/π of the signs."""
    rng = np.random.default_rng(0)
    query, X, cosines = cosine_pairs(rng, 300, 200, 3.0)
    sketcher = Sketcher.made(np.full(200, 3.0))
    differ = np.bitwise_count(sketcher(X) ^ sketcher(query[None])).sum(axis=1) / SKETCH_BITS
    assert np.abs(differ - np.arccos(cosines) / np.pi).mean() < 0.07


def test_bits_that_there_are_not():
    with pytest.raises(ValueError, match="0, 1, 4"):
        Sketcher.made(np.zeros(3), 2)
