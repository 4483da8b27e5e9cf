"""FAISS' lists: made when there are many codes, measured, kept through changes, dropped where they fail."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pytest
from index_checks import random_codes

from sihash.codes import hamming
from sihash.index import ScanIndex, open_index
from sihash.index.faiss_index import FaissIndex

ManyAt1000 = partial(FaissIndex, exact_up_to=1000)


def clustered_codes(rng, n, n_bits=32, n_centres=20):
    """Codes around a few words, as learned codes are."""
    words = rng.integers(0, 2, (n_centres, n_bits), dtype=np.uint8)
    bits = words[rng.integers(0, n_centres, n)] ^ (rng.random((n, n_bits)) < 0.03)
    return np.packbits(bits, axis=1, bitorder="little")


@pytest.fixture
def many():
    codes = clustered_codes(np.random.default_rng(0), 6000)
    index = ManyAt1000(32)
    index.add(np.arange(6000), codes)
    return index, codes


def test_exact_up_to_the_size_given():
    codes = clustered_codes(np.random.default_rng(0), 1001)
    index = ManyAt1000(32)
    index.add(np.arange(1000), codes[:1000])
    assert index.describe()["kind"] == "exact"
    index.add(np.array([1000]), codes[1000:])
    assert index.describe()["kind"] == "faiss lists"
    index.remove(np.arange(1))
    index.replace(np.array([1]), codes[:1])
    assert index.describe()["kind"] == "exact"


def test_the_recall_told_is_the_recall_there_is(many):
    index, codes = many
    queries = clustered_codes(np.random.default_rng(0), 7000)[6000:]
    distances, ids = index.search(queries, 10)
    exact = np.sort(hamming(queries, codes), axis=1)[:, 9]
    assert index.describe()["recall"] >= 0.99
    assert index.describe()["lists searched"] < index.describe()["lists"]
    assert np.mean(distances <= exact[:, None]) >= 0.98
    np.testing.assert_array_equal(distances, np.take_along_axis(hamming(queries, codes), ids, axis=1))
    in_order = np.lexsort((ids, distances))
    np.testing.assert_array_equal(in_order, np.broadcast_to(np.arange(10), in_order.shape))


def test_lists_follow_changes(many):
    index, codes = many
    index.remove(np.arange(0, 6000, 2))
    index.replace(np.arange(1, 400, 2), np.zeros((200, 4), np.uint8))
    index.add(np.array([9000]), np.zeros((1, 4), np.uint8))
    assert index.describe()["kind"] == "faiss lists"
    assert len(index) == index._lists.ntotal == 3001
    distances, ids = index.search(np.zeros((1, 4), np.uint8), 201)
    assert ids.tolist() == [[*range(1, 400, 2), 9000]]
    assert not distances.any()
    _, ids = index.search(codes[:100], 50)
    assert (ids % 2 == 1).sum() + (ids == 9000).sum() == ids.size


def test_radius_and_filters_are_exact(many):
    index, codes = many
    exact = ScanIndex(32)
    exact.add(np.arange(6000), codes)
    queries, allowed = codes[:20], np.arange(0, 6000, 7)
    for got, expected in zip(index.radius(queries, 3), exact.radius(queries, 3), strict=True):
        np.testing.assert_array_equal(got[1], expected[1])
    for got, expected in zip(
        index.search(queries, 5, allowed), exact.search(queries, 5, allowed), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


def test_too_few_found_is_answered_by_the_rest_being_missing(many):
    index, _ = many
    distances, ids = index.search(np.zeros((2, 4), np.uint8), 7000)
    np.testing.assert_array_equal(distances < 0, ids < 0)
    for row in distances:
        assert (row >= 0).sum() > 1
        assert (np.diff(row[row >= 0]) >= 0).all()


def test_random_codes_have_no_lists():
    index = ManyAt1000(64)
    index.add(np.arange(5000), random_codes(np.random.default_rng(1), 5000, 64))
    assert index.describe() == {"kind": "exact", "n_bits": 64, "size": 5000, "recall": 1.0}


def test_codes_all_made_anew_are_measured_anew(many):
    index, codes = many
    index.replace(np.arange(6000), random_codes(np.random.default_rng(2), 6000, 32))
    about = index.describe()
    assert (about["kind"], about["recall"]) == ("exact", 1)
    index.replace(np.arange(6000), codes)
    assert index.describe()["kind"] == "faiss lists"


def test_opening_by_name():
    assert isinstance(open_index("faiss", 12), FaissIndex)
    assert type(open_index("exact", 12)) is ScanIndex
    with pytest.raises(ValueError, match="got 'lucene'"):
        open_index("lucene", 12)


def test_without_faiss_the_exact_search_goes_on(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "faiss", None)
    codes = np.random.default_rng(0).integers(0, 256, (300, 2), dtype=np.uint8)
    index, exact = FaissIndex(16, exact_up_to=100), open_index("exact", 16)
    for each in (index, exact):
        each.add(np.arange(300), codes)
    assert "pip install 'sihash[database]'" in caplog.text
    assert all(map(np.array_equal, index.search(codes[:5], 3), exact.search(codes[:5], 3)))
    assert isinstance(open_index("auto", 16), FaissIndex)
    with pytest.raises(ImportError, match=r"sihash\[database\]"):
        open_index("faiss", 16)
