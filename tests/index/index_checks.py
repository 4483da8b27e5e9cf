"""One list of promises, kept by every index: `CHECKS`, functions of ``make``.

``make(n_bits)`` gives an empty index; ``make.widths``, if there, are the numbers of bits to try. Where no
numbers are worked out by hand, `NumpyIndex` is the oracle.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy_index import NumpyIndex

from sihash.codes import n_bytes


def random_codes(rng, n, n_bits, n_words=None):
    """Packed codes, drawn from ``n_words`` different ones if given, so that many are tied."""
    bits = rng.integers(0, 2, (n_words or n, n_bits), dtype=np.uint8)
    packed = np.packbits(bits, axis=1, bitorder="little")
    return packed if n_words is None else packed[rng.integers(0, n_words, n)]


def same_answers(index, oracle, rng, n_words=None):
    """Search and radius agree with the oracle, ids, distances and order."""
    queries = random_codes(rng, 5, index.n_bits, n_words)
    assert len(index) == len(oracle)
    for k in (1, 3, len(oracle) + 2):
        same_nearest(index, oracle, queries, k)
    for r in (0, 2, index.n_bits // 2, index.n_bits):
        same_balls(index.radius(queries, r), oracle.radius(queries, r))


def same_nearest(index, oracle, queries, k, allowed=None):
    """Same distances, same ids; where the index does not promise which of the last ties it gives, any."""
    distances, ids = index.search(queries, k, allowed)
    expected_distances, expected_ids = oracle.search(queries, k, allowed)
    np.testing.assert_array_equal(distances, expected_distances)
    assert (distances.dtype, ids.dtype) == (np.int32, np.int64)
    if index.ties_by_id:
        np.testing.assert_array_equal(ids, expected_ids)
        return
    for q, last in enumerate(distances[:, -1]):
        sure = (distances[q] < last) | (last < 0)
        np.testing.assert_array_equal(ids[q, sure], expected_ids[q, sure])
        if last >= 0:
            [(near, inside)] = oracle.radius(queries[q : q + 1], int(last), allowed)
            tied = ids[q, ~sure]
            assert (np.diff(tied) > 0).all()
            assert set(tied.tolist()) <= set(inside[near == last].tolist())


def same_balls(got, expected):
    assert len(got) == len(expected)
    for (near, ids), (oracle_near, oracle_ids) in zip(got, expected, strict=True):
        np.testing.assert_array_equal(ids, oracle_ids)
        np.testing.assert_array_equal(near, oracle_near)
        assert (near.dtype, ids.dtype) == (np.int32, np.int64)


def a_case_by_hand(make):
    index = make(8)
    index.add(np.array([7, 3, 5]), np.array([[0b0001], [0b0011], [0b1000]], np.uint8))
    distances, ids = index.search(np.array([[0b0000], [0b0011]], np.uint8), 4)
    assert distances.tolist() == [[1, 1, 2, -1], [0, 1, 3, -1]]
    assert ids.tolist() == [[5, 7, 3, -1], [3, 7, 5, -1]]
    [(near, inside)] = index.radius(np.array([[0]], np.uint8), 1)
    assert (near.tolist(), inside.tolist()) == ([1, 1], [5, 7])


def an_empty_index_answers_nothing(make):
    index = make(12)
    query = np.zeros((2, 2), np.uint8)
    distances, ids = index.search(query, 3)
    assert (distances == -1).all()
    assert (ids == -1).all()
    same_balls(index.radius(query, 12), [(np.empty(0, np.int32), np.empty(0, np.int64))] * 2)


def nothing_to_do_is_fine(make):
    index = make(8)
    none, no_codes = np.empty(0, np.int64), np.empty((0, 1), np.uint8)
    index.add(none, no_codes)
    index.remove(none)
    index.replace(none, no_codes)
    assert len(index) == 0
    distances, ids = index.search(no_codes, 2)
    assert distances.shape == ids.shape == (0, 2)
    assert index.radius(no_codes, 1) == []


def any_number_of_bits(make):
    rng = np.random.default_rng(0)
    for n_bits in getattr(make, "widths", (1, 7, 8, 9, 33, 64, 65, 130)):
        index, oracle = make(n_bits), NumpyIndex(n_bits)
        codes = random_codes(rng, 60, n_bits)
        for each in (index, oracle):
            each.add(np.arange(60), codes)
        same_answers(index, oracle, rng)


def many_changes_leave_the_same_as_the_oracle(make):
    rng = np.random.default_rng(1)
    index, oracle = make(20), NumpyIndex(20)
    present: set[int] = set()
    for _ in range(12):
        new = np.array(sorted(set(rng.integers(0, 200, 40).tolist()) - present))
        new = rng.permutation(new)
        codes = random_codes(rng, len(new), 20, n_words=6)
        for each in (index, oracle):
            each.add(new, codes)
        present |= set(new.tolist())
        going = rng.permutation(sorted(present))[: rng.integers(0, 50)]
        for each in (index, oracle):
            each.remove(going)
        present -= set(going.tolist())
        changed = rng.permutation(sorted(present))[:10]
        codes = random_codes(rng, len(changed), 20, n_words=6)
        for each in (index, oracle):
            each.replace(changed, codes)
        same_answers(index, oracle, rng, n_words=6)


def ties_go_to_the_smallest_ids(make):
    index = make(16)
    ids = np.random.default_rng(2).permutation(50)
    index.add(ids, np.zeros((50, 2), np.uint8))
    index.remove(np.array([1, 4]))
    distances, found = index.search(np.ones((1, 2), np.uint8), 5)
    assert distances.tolist() == [[2] * 5]
    if index.ties_by_id:
        assert found.tolist() == [[0, 2, 3, 5, 6]]
    else:
        assert (np.diff(found) > 0).all()
        assert not set(found[0].tolist()) - (set(range(50)) - {1, 4})


def removed_ids_never_return(make):
    rng = np.random.default_rng(3)
    index = make(16)
    index.add(np.arange(100), random_codes(rng, 100, 16))
    gone = rng.permutation(100)[:40]
    index.remove(gone)
    assert len(index) == 60
    _, ids = index.search(random_codes(rng, 10, 16), 100)
    assert not np.isin(ids, gone).any()
    for _, inside in index.radius(random_codes(rng, 10, 16), 16):
        assert len(inside) == 60
        assert not np.isin(inside, gone).any()


def replacing_is_removing_and_adding(make):
    rng = np.random.default_rng(4)
    codes, new = random_codes(rng, 30, 12), random_codes(rng, 10, 12)
    one, other = make(12), make(12)
    for each in (one, other):
        each.add(np.arange(30), codes)
    one.replace(np.arange(5, 15), new)
    other.remove(np.arange(5, 15))
    other.add(np.arange(5, 15), new)
    queries = random_codes(rng, 4, 12)
    for a, b in zip(one.search(queries, 30), other.search(queries, 30), strict=True):
        np.testing.assert_array_equal(a, b)


def a_wider_radius_holds_the_narrower(make):
    rng = np.random.default_rng(5)
    index = make(24)
    index.add(np.arange(80), random_codes(rng, 80, 24))
    queries = random_codes(rng, 3, 24)
    narrow: list[set[int]] = [set(), set(), set()]
    for r in range(0, 25, 3):
        wide = [set(ids.tolist()) for _, ids in index.radius(queries, r)]
        assert all(a <= b for a, b in zip(narrow, wide, strict=True))
        narrow = wide
    assert all(len(ball) == 80 for ball in narrow)


def only_allowed_ids_answer(make):
    rng = np.random.default_rng(6)
    index, oracle = make(16), NumpyIndex(16)
    codes = random_codes(rng, 90, 16, n_words=10)
    for each in (index, oracle):
        each.add(np.arange(90), codes)
        each.remove(np.arange(0, 90, 9))
    queries = random_codes(rng, 4, 16, n_words=10)
    for allowed in (np.arange(0, 90, 3)[::-1], np.array([9, 500, 10]), np.empty(0, np.int64)):
        same_nearest(index, oracle, queries, 8, allowed)
        same_balls(index.radius(queries, 5, allowed), oracle.radius(queries, 5, allowed))


def the_same_filter_after_changes(make):
    """An index may keep what it makes of a filter that cannot change, but not past a change of its own."""
    rng = np.random.default_rng(6)
    index, oracle = make(16), NumpyIndex(16)
    codes = random_codes(rng, 90, 16, n_words=10)
    queries = random_codes(rng, 4, 16, n_words=10)
    allowed, changing = np.arange(0, 90, 3), np.arange(0, 90, 3)
    allowed.flags.writeable = False

    def both(change):
        change(index)
        change(oracle)
        same_nearest(index, oracle, queries, 8, allowed)
        same_nearest(index, oracle, queries, 8, allowed)

    both(lambda each: each.add(np.arange(60), codes[:60]))
    both(lambda each: each.remove(np.arange(10, 40)))
    both(lambda each: each.add(np.arange(60, 90), codes[60:]))
    both(lambda each: each.add(np.arange(12, 20), codes[12:20]))
    both(lambda each: each.replace(np.arange(12, 20), codes[60:68]))
    same_nearest(index, oracle, queries, 8, changing)
    changing += 1
    same_nearest(index, oracle, queries, 8, changing)


def a_refused_change_changes_nothing(make):
    rng = np.random.default_rng(7)
    index, oracle = make(12), NumpyIndex(12)
    codes = random_codes(rng, 6, 12)
    for each in (index, oracle):
        each.add(np.arange(6), codes)
    with pytest.raises(ValueError, match="id 5 is there already"):
        index.add(np.array([9, 5]), codes[:2])
    with pytest.raises(ValueError, match="id 8 is given twice"):
        index.add(np.array([8, 8]), codes[:2])
    with pytest.raises(ValueError, match="not be negative"):
        index.add(np.array([-1]), codes[:1])
    with pytest.raises(ValueError, match="whole numbers"):
        index.add(np.array([1.5]), codes[:1])
    with pytest.raises(ValueError, match="as many codes as ids"):
        index.add(np.array([10]), codes)
    with pytest.raises(ValueError, match="2 bytes for 12 bits"):
        index.add(np.array([10]), np.zeros((1, 3), np.uint8))
    with pytest.raises(ValueError, match="must be zero"):
        index.add(np.array([10]), np.full((1, 2), 255, np.uint8))
    with pytest.raises(KeyError, match="id 77"):
        index.remove(np.array([1, 77]))
    with pytest.raises(ValueError, match="given twice"):
        index.remove(np.array([1, 1]))
    with pytest.raises(KeyError, match="id 77"):
        index.replace(np.array([1, 77]), codes[:2])
    same_answers(index, oracle, rng)


def nonsense_is_refused(make):
    index = make(12)
    query = np.zeros((1, 2), np.uint8)
    with pytest.raises(ValueError, match="k must be"):
        index.search(query, 0)
    with pytest.raises(ValueError, match="r must be"):
        index.radius(query, -1)
    with pytest.raises(ValueError, match="packed uint8"):
        index.search(np.zeros((1, 12)), 1)
    with pytest.raises(ValueError, match="packed uint8"):
        index.radius(np.zeros(2, np.uint8), 1)
    with pytest.raises(ValueError, match="n_bits must be"):
        make(0)


def it_describes_itself(make):
    index = make(12)
    index.add(np.arange(4), np.zeros((4, n_bytes(12)), np.uint8))
    about = index.describe()
    assert about["size"] == 4
    assert about["n_bits"] == 12
    assert about["recall"] == 1.0


CHECKS = [
    a_case_by_hand,
    an_empty_index_answers_nothing,
    nothing_to_do_is_fine,
    any_number_of_bits,
    many_changes_leave_the_same_as_the_oracle,
    ties_go_to_the_smallest_ids,
    removed_ids_never_return,
    replacing_is_removing_and_adding,
    a_wider_radius_holds_the_narrower,
    only_allowed_ids_answer,
    the_same_filter_after_changes,
    a_refused_change_changes_nothing,
    nonsense_is_refused,
    it_describes_itself,
]
