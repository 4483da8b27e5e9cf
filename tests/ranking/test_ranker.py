"""Two stages against one: a ranker must answer as if it had scored every item."""

from __future__ import annotations

import numpy as np
import pytest

from sihash.codes import hamming, pack, sign
from sihash.index import ScanIndex
from sihash.logistic import log_softmax
from sihash.ranking import RANKS, Ranker, Sketcher, Weights, check_rank, nearness
from sihash.ranking.ranker import N_CANDIDATES, Query
from sihash.ranking.score import ItemLabels
from sihash.ranking.sketch import SKETCH_BITS

D, BITS, K = 12, 16, 4


def one_each(classes):
    return ItemLabels(classes[classes >= 0], (classes >= 0).astype(int))


class Collection:
    """Vectors around class means, with codes, labels (−1: none) and ids; ``order`` says how they came."""

    def __init__(self, n, seed, ids=None, order=None, unlabelled=0.2):
        rng = np.random.default_rng(seed)
        self.means = 2 * rng.standard_normal((K, D))
        self.y = rng.integers(K, size=n)
        self.X = (self.means[self.y] + rng.standard_normal((n, D))).astype(np.float32)
        self.W = rng.standard_normal((D, BITS))
        self.labels = np.where(rng.random(n) < unlabelled, -1, self.y)
        self.ids = np.arange(n) if ids is None else ids
        if order is not None:
            self.X, self.y, self.labels = self.X[order], self.y[order], self.labels[order]
        self.codes = pack(sign(self.margins(self.X)))
        self.sketcher = Sketcher.made(np.zeros(D))
        self.place = {int(i): k for k, i in enumerate(self.ids)}

    def margins(self, X):
        return X @ self.W

    def ranker(self):
        index, near = ScanIndex(BITS), ScanIndex(BITS + SKETCH_BITS)
        index.add(self.ids, self.codes)
        near.add(self.ids, np.concatenate([self.codes, self.sketcher(self.X)], axis=1))
        rows = lambda ids: np.array([self.place[int(i)] for i in ids], dtype=int)  # noqa: E731

        def log_proba(X, margins):
            return log_softmax(-np.abs(margins @ np.ones((BITS, K)) / 9 - np.arange(K)))

        def cosines(query, ids):
            towards = nearness.direction(query, self.sketcher.mean)
            return nearness.cosines(self.X[rows(ids)], self.sketcher.mean, towards)

        return Ranker(
            index=index,
            near=near,
            sketcher=self.sketcher,
            weights=Weights(0.6, 0.4, 10.0, familiar_from=0.0),
            class_log_proba=log_proba,
            n_learned=K,
            codes_of=lambda ids: self.codes[rows(ids)],
            sketches_of=lambda ids: self.sketcher(self.X)[rows(ids)],
            labels_of=lambda ids: one_each(self.labels[rows(ids)]),
            few_items_of=lambda k, most: own if len(own := self.ids[self.labels == k]) <= most else own[:0],
            vectors_of=lambda ids: self.X[rows(ids)],
            cosines_of=cosines,
        )

    def query(self, seed, own=-1):
        rng = np.random.default_rng(seed)
        x = (self.means[seed % K] + rng.standard_normal(D)).astype(np.float32)
        return Query(self.margins(x[None])[0], x, own)


@pytest.fixture(scope="module")
def small():
    """So few that all are candidates."""
    return Collection(300, seed=0)


@pytest.fixture(scope="module")
def large():
    return Collection(6000, seed=1)


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("rank", RANKS)
def test_answers_are_in_the_order_of_their_scores(small, rank):
    found = small.ranker().nearest(rank, small.query(3), 300)
    assert sorted(found.ids.tolist()) == list(range(300))
    assert (np.diff(found.scores) <= 1e-6).all()


def test_vector_ranking_is_cosine_by_brute_force(small):
    query = small.query(1)
    found = small.ranker().nearest("vector", query, 20)
    every = np.array([cosine(query.vector, x) for x in small.X])
    np.testing.assert_array_equal(found.ids, np.argsort(-every)[:20])
    np.testing.assert_allclose(found.scores, np.sort(every)[::-1][:20], rtol=1e-5)


def test_hamming_ranking_breaks_ties_by_cosine(large):
    query = large.query(2)
    found = large.ranker().nearest("hamming", query, 25)
    away = hamming(pack(sign(query.margins[None])), large.codes)[0].astype(int)
    every = np.array([cosine(query.vector, x) for x in large.X])
    expected = np.lexsort((-every, away))[:25]
    np.testing.assert_array_equal(away[found.ids], away[expected])
    np.testing.assert_array_equal(found.ids, expected)


@pytest.mark.parametrize("rank", RANKS)
def test_few_answers_begin_as_many_do(large, rank):
    ranker, query = large.ranker(), large.query(5)
    many = ranker.nearest(rank, query, 100)
    for k in (1, 7, 50):
        np.testing.assert_array_equal(ranker.nearest(rank, query, k).ids, many.ids[:k])


@pytest.mark.parametrize("rank", RANKS)
def test_the_order_in_which_items_came_changes_nothing(large, rank):
    order = np.random.default_rng(9).permutation(6000)
    other = Collection(6000, seed=1, order=order)
    for seed in range(8):
        query = large.query(seed)
        a, b = large.ranker().nearest(rank, query, 30), other.ranker().nearest(rank, query, 30)
        np.testing.assert_array_equal(a.ids, order[b.ids])
        np.testing.assert_allclose(a.scores, b.scores, rtol=1e-5)


def test_an_item_finds_itself_first_among_thousands_with_its_code(large):
    crowd = Collection(6000, seed=1)
    crowd.codes[:] = crowd.codes[0]
    ranker = crowd.ranker()
    margins = np.where(np.unpackbits(crowd.codes[0], bitorder="little")[:BITS], 1.0, -1.0)
    for number in (0, 17, 5999):
        found = ranker.nearest("combined", Query(margins, crowd.X[number]), 3)
        assert found.ids[0] == number
        assert found.scores[0] == 1
        assert number not in ranker.nearest("combined", Query(margins, crowd.X[number], number), 50).ids


def test_only_allowed_items_are_found(large):
    allowed = np.arange(0, 6000, 7)
    ranker = large.ranker()
    for rank in RANKS:
        found = ranker.nearest(rank, large.query(1), 40, allowed)
        assert len(found.ids) == 40
        assert not (found.ids % 7).any()
        assert found.familiar is None
        assert not (ranker.within(rank, large.query(1), 5, allowed).ids % 7).any()


def test_a_ball_holds_all_within_it_and_k_bounds_it(large):
    query = large.query(4)
    away = hamming(pack(sign(query.margins[None])), large.codes)[0]
    ranker = large.ranker()
    for rank in RANKS:
        ball = ranker.within(rank, query, 4)
        assert sorted(ball.ids.tolist()) == np.flatnonzero(away <= 4).tolist()
        some = ranker.within(rank, query, 16, k=9)
        assert len(some.ids) == 9
        assert (away[ranker.within(rank, query, 3, k=9).ids] <= 3).all()
    assert len(ranker.within("combined", query, 16).ids) == 6000


def test_more_than_there_are(small):
    assert len(small.ranker().nearest("combined", small.query(0), 10**9).ids) == 300


def test_candidates_take_rings_whole(large):
    ranker, query = large.ranker(), large.query(3)
    chosen = ranker.candidates(query)
    both = np.concatenate([pack(sign(query.margins[None])), large.sketcher(query.vector[None])], axis=1)
    stored = np.concatenate([large.codes, large.sketcher(large.X)], axis=1)
    away = hamming(both, stored)[0]
    assert len(chosen) >= N_CANDIDATES // 2
    assert set(chosen.tolist()) == set(np.flatnonzero(away <= away[chosen].max()).tolist())


def test_a_query_is_familiar_if_its_best_candidates_score_enough(small):
    ranker, query = small.ranker(), small.query(2)
    best = float(ranker.nearest("combined", query, 5).scores.mean())
    for threshold, familiar in ((best - 1e-3, True), (best + 1e-3, False)):
        ranker.weights = Weights(0.6, 0.4, 10.0, familiar_from=threshold)
        assert ranker.nearest("combined", query, 1).familiar is familiar
    assert ranker.nearest("vector", query, 1).familiar is None


def test_an_empty_collection():
    empty = Collection(0, seed=0)
    found = empty.ranker().nearest("combined", Query(np.ones(BITS), np.ones(D, np.float32)), 5)
    assert len(found.ids) == 0


def test_names():
    assert check_rank(None) == "combined"
    assert check_rank("vector") == "vector"
    with pytest.raises(ValueError, match=r"'combined', 'hamming', 'vector', got 'best'"):
        check_rank("best")


def test_cosines_of_vectors_without_a_direction():
    X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    mean = np.array([1.0, 2.0], np.float32)
    np.testing.assert_array_equal(nearness.cosines(X, mean, nearness.direction(X[0], mean)), [1, 0])
    np.testing.assert_allclose(nearness.cosines(X, mean, nearness.direction(X[1], mean)), [0, 1])


@pytest.mark.parametrize("rank", RANKS)
def test_reasons_are_what_the_score_is_made_of(small, rank):
    ranker, query = small.ranker(), small.query(2)
    found = ranker.nearest(rank, query, 300)
    why = ranker.reasons(rank, query, found)
    np.testing.assert_allclose(why.vector, [cosine(query.vector, small.X[k]) for k in found.ids], rtol=1e-5)
    assert (why.same_class >= 0).all()
    assert (why.same_class <= 1).all()
    if rank == "combined":
        np.testing.assert_allclose(np.log(why.same_class) + why.vector, found.scores, rtol=1e-4, atol=1e-5)
    agreeing = hamming(pack(sign(query.margins[None])), small.codes)[0][found.ids] == 0
    np.testing.assert_array_equal(why.margin > 1 - 1e-9, agreeing)
    assert (np.abs(why.margin) <= 1 + 1e-9).all()


def test_a_filter_makes_no_class_likelier(large):
    """Items of one class alone would outvote what the class model says."""
    ranker, query = large.ranker(), large.query(0)
    allowed = large.ids[large.labels == 3]
    among_them = ranker.nearest("combined", query, 5, allowed)
    by_model = ranker.reasons("vector", query, among_them)
    why = ranker.reasons("combined", query, among_them, allowed)
    np.testing.assert_array_equal(why.same_class, by_model.same_class)


def test_the_query_itself_is_of_its_class(small):
    query = Query(small.margins(small.X[:1])[0], small.X[0])
    found = small.ranker().nearest("combined", query, 3)
    why = small.ranker().reasons("combined", query, found)
    assert (found.ids[0], why.same_class[0]) == (0, 1)


def test_items_of_likely_classes_that_have_few_are_candidates_wherever_their_codes_lie():
    rare = Collection(6000, seed=1)
    ranker = rare.ranker()
    query = rare.query(0)
    k = int(ranker.log_proba(query).argmax())
    rare.labels[rare.labels == k] = (k + 1) % K
    far = np.argsort(hamming(pack(sign(query.margins[None])), rare.codes)[0])[-3:]
    rare.labels[far] = k
    assert set(far.tolist()) <= set(rare.ranker().candidates(query).tolist())


def test_the_vector_wins_where_its_weight_is_large(large):
    ranker, query = large.ranker(), large.query(0)
    ranker.weights = Weights(0.6, 0.4, 10.0, vector=1e6)
    found = ranker.nearest("combined", query, 20)
    every = large.ranker().nearest("vector", query, 20)
    np.testing.assert_array_equal(found.ids, every.ids)
