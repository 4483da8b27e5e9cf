"""Search by meaning against the formula over all items, through changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_checks import random_codes

from sihash.codes import unpack
from sihash.index import SemanticIndex, semantic_scores
from sihash.index.semantic import BLOCK


def classes_of(n_bits, n_classes=4, sharpness=0.3):
    """Class probabilities of codes by a random linear second stage."""
    W = np.random.default_rng(n_bits).normal(size=(n_bits, n_classes)) * sharpness

    def probabilities(codes):
        T = np.exp(unpack(codes, n_bits) @ W)
        return T / T.sum(axis=1, keepdims=True)

    return probabilities


def assert_the_best(answer, items, queries, probabilities, classes, n_bits):
    """Scores are the highest of all by the formula, to rounding, and each id has the score it comes with."""
    scores, ids = answer
    n = min(scores.shape[1], len(items))
    assert (ids[:, n:] == -1).all()
    assert (scores[:, n:] == 0).all()
    if not n:
        return
    names, stored = np.array(list(items)), np.array(list(items.values()))
    formula = semantic_scores((queries, probabilities), (stored, classes(stored)), n_bits)
    np.testing.assert_allclose(scores[:, :n], -np.sort(-formula, axis=1)[:, :n], rtol=1e-5)
    for row, own_scores, own_ids in zip(formula, scores[:, :n], ids[:, :n], strict=True):
        score_of = dict(zip(names.tolist(), row.tolist(), strict=True))
        assert len(set(own_ids.tolist())) == n
        np.testing.assert_allclose(own_scores, [score_of[i] for i in own_ids.tolist()], rtol=1e-5)
        in_order = np.lexsort((own_ids, -own_scores))
        np.testing.assert_array_equal(in_order, np.arange(n))


def test_a_case_by_hand():
    # Two bits; bit 0 is class 0 or 1 for certain, bit 1 says nothing. exp(-2 d / 2) = 1, 1/e, 1/e².
    def classes(codes):
        first = (codes[:, 0] & 1).astype(float)
        return np.column_stack([first, 1 - first])

    index = SemanticIndex(2, classes)
    index.add(np.array([4, 2, 9, 1]), np.array([[0b00], [0b01], [0b11], [0b01]], np.uint8))
    scores, ids = index.search(np.array([[0b01]], np.uint8), np.array([[0.75, 0.25]]), 5)
    e = np.exp(-1)
    assert ids.tolist() == [[1, 2, 9, 4, -1]]
    np.testing.assert_allclose(scores, [[0.75, 0.75, 0.75 * e, 0.25 * e, 0]], rtol=1e-6)


@pytest.mark.parametrize("n_bits", [12, 40, 70])
@pytest.mark.parametrize("n_words", [5, 300, 40 * BLOCK])
def test_equals_the_formula_over_all(n_bits, n_words):
    rng = np.random.default_rng(n_words)
    classes = classes_of(n_bits)
    codes = random_codes(rng, 20_000, n_bits, n_words)
    index = SemanticIndex(n_bits, classes)
    index.add(np.arange(20_000), codes)
    queries = random_codes(rng, 5, n_bits)
    probabilities = rng.dirichlet(np.ones(4), 5).astype(np.float32)
    items = dict(enumerate(codes))
    for k in (1, 10, 700):
        answer = index.search(queries, probabilities, k)
        assert_the_best(answer, items, queries, probabilities, classes, n_bits)


def test_more_items_of_the_best_code_than_asked_for_and_some_of_them_gone():
    """The best code has to make up for those that are gone, or unwanted, before a worse one comes in."""
    index = SemanticIndex(12, classes_of(12))
    codes = np.array([[190, 14]] + [[132, 8]] * 9, np.uint8)
    index.add(np.arange(10), codes)
    index.remove(np.array([1]))
    query, probabilities = np.array([[132, 8]], np.uint8), np.full((1, 4), 0.25, np.float32)
    assert index.search(query, probabilities, 6)[1].tolist() == [[2, 3, 4, 5, 6, 7]]
    allowed = np.array([0, 2, 4, 6, 7, 8, 9])
    assert index.search(query, probabilities, 4, allowed)[1].tolist() == [[2, 4, 6, 7]]


def test_items_with_one_code_are_ordered_by_id():
    rng = np.random.default_rng(0)
    index = SemanticIndex(16, classes_of(16))
    codes = random_codes(rng, 3, 16)
    ids = rng.permutation(60)
    index.add(ids, codes[ids % 3])
    scores, found = index.search(codes[:1], classes_of(16)(codes[:1]), 60)
    for score in np.unique(scores):
        assert (np.diff(found[scores == score]) > 0).all()
    assert len(np.unique(scores)) == 3


steps = st.lists(
    st.tuples(st.booleans(), st.sets(st.integers(0, 40), max_size=15), st.integers(0, 2**32 - 1)), max_size=10
)


@settings(max_examples=40, deadline=None)
@given(n_words=st.integers(1, 30), steps=steps, allowed=st.none() | st.sets(st.integers(0, 50)))
def test_any_changes_leave_the_same_as_the_formula(n_words, steps, allowed):
    classes = classes_of(12)
    index, items = SemanticIndex(12, classes), {}
    for add, wanted, seed in steps:
        rng = np.random.default_rng(seed)
        ids = rng.permutation(np.array([i for i in sorted(wanted) if (i in items) != add], dtype=np.int64))
        if add:
            codes = random_codes(rng, len(ids), 12, n_words)
            index.add(ids, codes)
            items.update(zip(ids.tolist(), codes, strict=True))
        else:
            index.remove(ids)
            items = {i: code for i, code in items.items() if i not in set(ids.tolist())}
        assert len(index) == len(items)
        queries = random_codes(rng, 2, 12)
        probabilities = rng.dirichlet(np.ones(4), 2).astype(np.float32)
        kept = items if allowed is None else {i: code for i, code in items.items() if i in allowed}
        filter_ids = None if allowed is None else np.array(sorted(allowed), dtype=np.int64)
        answer = index.search(queries, probabilities, 6, filter_ids)
        assert_the_best(answer, kept, queries, probabilities, classes, 12)


def test_there_are_few_parts():
    rng = np.random.default_rng(1)
    index = SemanticIndex(24, classes_of(24))
    for start in range(0, 2000, 10):
        index.add(np.arange(start, start + 10), random_codes(rng, 10, 24))
    assert len(index) == 2000
    assert len(index._parts) <= 10
    index.remove(np.arange(1999))
    assert sum(len(part.ids) for part in index._parts) <= 3


def test_a_refused_change_changes_nothing():
    index = SemanticIndex(12, classes_of(12))
    codes = random_codes(np.random.default_rng(2), 4, 12)
    index.add(np.arange(4), codes)
    with pytest.raises(ValueError, match="id 3 is there already"):
        index.add(np.array([8, 3]), codes[:2])
    with pytest.raises(KeyError, match="id 7"):
        index.remove(np.array([1, 7]))
    with pytest.raises(KeyError, match="id 7"):
        SemanticIndex(12, classes_of(12)).remove(np.array([7]))
    assert len(index) == 4
