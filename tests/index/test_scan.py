"""The exact scan: batches, groups, and what its changes cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_checks import random_codes, same_balls

from sihash.codes import hamming
from sihash.index import ScanIndex


def by_sorting(queries, codes, k):
    """The k nearest rows by a stable sort of all distances."""
    distances = hamming(queries, codes).astype(np.int32)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), order


@pytest.mark.parametrize("k", [1, 10, 700, 8000])
def test_many_codes(k):
    n, rng = 5000, np.random.default_rng(k)
    codes, queries = random_codes(rng, n, 40, n_words=900), random_codes(rng, 6, 40)
    index = ScanIndex(40)
    index.add(np.arange(n), codes)
    near, ids = index.search(queries, k)
    expected_near, expected_ids = by_sorting(queries, codes, k)
    np.testing.assert_array_equal(near[:, :n], expected_near)
    np.testing.assert_array_equal(ids[:, :n], expected_ids)


def test_a_batch_over_threads_equals_query_after_query():
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 12_000, 32), random_codes(rng, 300, 32)
    index = ScanIndex(32)
    index.add(np.arange(len(codes)), codes)
    near, ids = index.search(queries, 4)
    balls = index.radius(queries, 6)
    for q in range(0, 300, 23):
        one_near, one_ids = index.search(queries[q : q + 1], 4)
        np.testing.assert_array_equal(near[q], one_near[0])
        np.testing.assert_array_equal(ids[q], one_ids[0])
        same_balls(balls[q : q + 1], index.radius(queries[q : q + 1], 6))


@settings(max_examples=60, deadline=None)
@given(
    n_bits=st.sampled_from([8, 70]),
    batches=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    n=st.integers(1, 100),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_nearest_of_some_groups_are_whole_rings(n_bits, batches, n, seed):
    rng = np.random.default_rng(seed)
    total, n_groups = sum(batches), 5
    ids = rng.permutation(2 * total)[:total]
    codes, groups = random_codes(rng, total, n_bits), rng.integers(-1, n_groups, total)
    index, start = ScanIndex(n_bits), 0
    for size in batches:
        part = slice(start, start + size)
        index.add(ids[part], codes[part], groups[part])
        start += size
    gone = rng.random(total) < 0.3
    index.remove(ids[gone])
    live = np.flatnonzero(~gone)
    sizes = index.group_sizes(n_groups)
    np.testing.assert_array_equal(sizes, np.bincount(groups[live] % (n_groups + 1), minlength=n_groups + 1))
    query, chosen = random_codes(rng, 1, n_bits), rng.random(n_groups + 1) < 0.5
    seen = live[chosen[groups[live]]]
    near = hamming(query, codes[seen])[0] if len(seen) else np.empty(0, int)
    found = index.nearest(query, n, groups=chosen)
    assert len(set(found.tolist())) == len(found)
    inside = np.isin(ids[seen], found)
    assert inside.sum() == len(found)
    if len(seen) and not inside.all():
        assert near[inside].max() < near[~inside].min()  # whole rings
        assert len(found) >= min(n, len(seen)) or len(found) >= n // 2
    else:
        assert len(found) == len(seen)


def test_small_additions_leave_few_parts_and_removed_items_no_room():
    rng = np.random.default_rng(2)
    index = ScanIndex(64)
    for start in range(0, 40_000, 100):
        index.add(np.arange(start, start + 100), random_codes(rng, 100, 64))
        if start:
            index.remove(np.arange(start - 100, start))
    assert len(index) == 100
    assert sum(len(part.ids) for part in index._parts) < 1000
    for start in range(100_000, 140_000, 100):
        index.add(np.arange(start, start + 100), random_codes(rng, 100, 64))
    assert len(index._parts) < 12
