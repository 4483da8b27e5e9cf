"""The exact scan where it works block by block, and what its changes cost."""

from __future__ import annotations

import numpy as np
import pytest
from index_checks import random_codes, same_balls

from sihash.codes import hamming
from sihash.index import ScanIndex
from sihash.index.scan import BLOCK


def by_sorting(queries, codes, k):
    """The k nearest rows by a stable sort of all distances."""
    distances = hamming(queries, codes).astype(np.int32)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), order


@pytest.mark.parametrize("n", [BLOCK - 1, BLOCK, 3 * BLOCK + 5])
@pytest.mark.parametrize("k", [1, 10, 700, 2 * BLOCK])
def test_many_blocks(n, k):
    rng = np.random.default_rng(n + k)
    codes, queries = random_codes(rng, n, 40, n_words=900), random_codes(rng, 6, 40)
    index = ScanIndex(40)
    index.add(np.arange(n), codes)
    near, ids = index.search(queries, k)
    expected_near, expected_ids = by_sorting(queries, codes, k)
    np.testing.assert_array_equal(near[:, :n], expected_near)
    np.testing.assert_array_equal(ids[:, :n], expected_ids)


@pytest.mark.parametrize("k", [1, 3, 100])
def test_ever_nearer_codes_never_overflow_what_is_kept(k):
    # The worst order: each code is as near as or nearer than all before it.
    n = 6 * BLOCK
    bits = np.arange(64) < (np.arange(n)[::-1, None] * 65 // n)
    codes = np.packbits(bits, axis=1, bitorder="little")
    index = ScanIndex(64)
    index.add(np.arange(n), codes)
    near, ids = index.search(np.zeros((1, 8), np.uint8), k)
    expected_near, expected_ids = by_sorting(np.zeros((1, 8), np.uint8), codes, k)
    np.testing.assert_array_equal(near, expected_near)
    np.testing.assert_array_equal(ids, expected_ids)


def test_a_batch_over_threads_equals_query_after_query():
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 3 * BLOCK, 32), random_codes(rng, 300, 32)
    index = ScanIndex(32)
    index.add(np.arange(len(codes)), codes)
    near, ids = index.search(queries, 4)
    balls = index.radius(queries, 6)
    for q in range(0, 300, 23):
        one_near, one_ids = index.search(queries[q : q + 1], 4)
        np.testing.assert_array_equal(near[q], one_near[0])
        np.testing.assert_array_equal(ids[q], one_ids[0])
        same_balls(balls[q : q + 1], index.radius(queries[q : q + 1], 6))


def test_removing_and_replacing_move_nothing():
    rng = np.random.default_rng(1)
    index = ScanIndex(64)
    index.add(np.arange(3000), random_codes(rng, 3000, 64))
    words, ids = index._slots._words, index._slots._ids
    index.remove(np.arange(0, 3000, 4))
    index.replace(np.arange(1, 3000, 4), random_codes(rng, 750, 64))
    assert index._slots._words is words
    assert index._slots.n == 3000
    assert np.array_equal(ids[:3000], np.arange(3000))


def test_room_of_removed_ids_is_used_again():
    rng = np.random.default_rng(2)
    index = ScanIndex(64)
    for start in range(0, 40_000, 1000):
        index.add(np.arange(start, start + 1000), random_codes(rng, 1000, 64))
        if start:
            index.remove(np.arange(start - 1000, start))
    assert len(index) == 1000
    assert len(index._slots._ids) < 10_000
