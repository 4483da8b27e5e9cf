"""Retrieval measures against hand-worked cases, a slow twin, and the laws they obey."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sihash import codes as codes_module
from sihash.evaluation import against_database, leave_one_out, retrieval


def packed(*bits: str) -> np.ndarray:
    """Codes from strings of 0 and 1."""
    return codes_module.pack(np.array([[1 if b == "1" else -1 for b in row] for row in bits]))


class TestHandWorked:
    """A query 0000 0000 of class a, and items at distances chosen by hand."""

    def scores(self, distances, labels, **options):
        items = packed(*("1" * d + "0" * (8 - d) for d in distances))
        return against_database(packed("0" * 8), ["a"], items, labels, **options)

    def test_by_radius(self):
        # distance: 0 a, 1 b, 1 a, 3 a  ->  balls 1/1, 2/3, 2/3, 3/4
        s = self.scores([0, 1, 1, 3], ["a", "b", "a", "a"])
        assert s.precision[:4] == pytest.approx([1, 2 / 3, 2 / 3, 3 / 4])
        assert s.recall[:4] == pytest.approx([1 / 3, 2 / 3, 2 / 3, 1])
        assert s.mAP == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)

    def test_an_empty_ball_has_precision_0(self):
        s = self.scores([2, 3], ["a", "b"])
        assert s.precision[:4].tolist() == [0, 0, 1, 0.5]
        assert s.recall[:3].tolist() == [0, 0, 1]

    def test_a_query_with_nothing_relevant_is_left_out_and_counted(self):
        queries = packed("0" * 8, "0" * 8)
        s = against_database(queries, ["a", "z"], packed("0" * 8, "1" * 8), ["a", "b"], k=[1])
        assert (s.n_queries, s.n_left_out) == (1, 1)
        assert s.mAP == 1
        assert s.precision_at == {1: 1}

    def test_no_query_at_all_gives_nan(self):
        s = self.scores([0, 1], ["b", "c"], k=[1])
        assert (s.n_queries, s.n_left_out) == (0, 1)
        assert np.isnan([s.mAP, s.mAP_at[1], s.precision_at[1]]).all()
        assert np.isnan(s.precision).all()

    def test_a_rank_among_ties_counts_their_expectation(self):
        # one of two tied items is relevant: half a hit is expected first, and P@1 = P@2 = 1/2
        s = self.scores([1, 1], ["a", "b"], k=[1, 2])
        assert s.precision_at == {1: 0.5, 2: 0.5}
        # AP@2: relevant first (AP 1) or second (AP 1/2), equally likely
        assert s.mAP_at == {1: 0.5, 2: 0.75}

    def test_average_precision_at_k_is_divided_by_the_relevant_that_could_be_there(self):
        # ranking a b a: AP@2 = (1/1) / min(2, 2); AP@3 = (1 + 2/3) / min(3, 2)
        s = self.scores([0, 1, 2], ["a", "b", "a"], k=[2, 3])
        assert s.mAP_at == pytest.approx({2: 1 / 2, 3: (1 + 2 / 3) / 2})

    def test_fewer_items_than_k(self):
        s = self.scores([0, 1], ["a", "b"], k=[4])
        assert s.precision_at == {4: 0.25}
        assert s.mAP_at == {4: 1}

    def test_several_labels_one_in_common_is_enough(self):
        items = packed("0" * 8, "1" + "0" * 7, "1" * 8)
        s = against_database(packed("0" * 8), [[1, 1, 0]], items, [[0, 0, 1], [0, 1, 1], [1, 1, 0]])
        assert s.precision[[0, 1, 8]] == pytest.approx([0, 1 / 2, 2 / 3])
        assert s.n_queries == 1

    def test_more_labels_in_common_gain_more(self):
        # in order: one label in common (gain 1), two (gain 3), none; the best order begins with the second
        items = packed("0" * 8, "1" + "0" * 7, "1" * 8)
        labels = [[1, 0, 0], [1, 1, 1], [0, 0, 1]]
        s = against_database(packed("0" * 8), [[1, 1, 0]], items, labels, k=[1, 2, 3])
        second = 1 / np.log2(3)
        ndcg = (1 + 3 * second) / (3 + second)
        assert s.NDCG_at == pytest.approx({1: 1 / 3, 2: ndcg, 3: ndcg})

    def test_gains_of_ties_are_shared(self):
        # two labels in common or none, equally likely in the first place
        items = packed("1" + "0" * 7, "0" * 7 + "1")
        s = against_database(packed("0" * 8), [[1, 1, 0]], items, [[1, 1, 0], [0, 0, 1]], k=[1, 2])
        assert s.NDCG_at == pytest.approx({1: 0.5, 2: (1 + 1 / np.log2(3)) / 2})

    def test_with_one_label_the_gain_is_that_of_a_hit(self):
        # ranking b a a: 1/log2(3) of the best, 1; then 1/log2(3) + 1/log2(4) of 1 + 1/log2(3)
        s = self.scores([0, 1, 2], ["b", "a", "a"], k=[2, 3])
        second, third = 1 / np.log2(3), 1 / 2
        assert s.NDCG_at == pytest.approx({2: second / (1 + second), 3: (second + third) / (1 + second)})

    def test_the_query_is_left_out_but_its_copy_is_not(self):
        s = leave_one_out(packed("0" * 8, "0" * 8, "1" * 8), [1, 1, 2])
        assert (s.mAP, s.n_queries, s.n_left_out) == (1, 2, 1)
        assert s.precision[0] == 1


def twin(queries, query_labels, database, database_labels, relevant, skip=False):
    """Average precision, precision and recall by radius, in the words of their definition."""
    distances = codes_module.hamming(queries, database)
    radii = 8 * queries.shape[1] + 1
    rows = []
    for q in range(len(queries)):
        others = [i for i in range(len(database)) if not (skip and i == q)]
        good = {i for i in others if relevant(query_labels[q], database_labels[i])}
        if not good:
            continue
        precision, recall = np.zeros(radii), np.zeros(radii)
        for r in range(radii):
            ball = {i for i in others if distances[q, i] <= r}
            precision[r] = len(ball & good) / len(ball) if ball else 0
            recall[r] = len(ball & good) / len(good)
        ap = sum(precision[r] * (recall[r] - (recall[r - 1] if r else 0)) for r in range(radii))
        rows.append((ap, precision, recall))
    return [np.mean([row[j] for row in rows], axis=0) for j in range(3)]


def same(a, b):
    return a == b


def share(a, b):
    return bool(np.any(np.logical_and(a, b)))


@pytest.mark.parametrize("n_bytes", [1, 2, 9, 16])
def test_leave_one_out_equals_its_definition(n_bytes):
    rng = np.random.default_rng(n_bytes)
    codes, labels = rng.integers(0, 256, (40, n_bytes), dtype=np.uint8), rng.integers(0, 4, 40)
    s = leave_one_out(codes, labels)
    mAP, precision, recall = twin(codes, labels, codes, labels, same, skip=True)
    assert s.mAP == pytest.approx(mAP)
    assert s.precision == pytest.approx(precision)
    assert s.recall == pytest.approx(recall)


@pytest.mark.parametrize("n_labels", [2, 64, 70])
def test_several_labels_equal_their_definition(n_labels):
    rng = np.random.default_rng(n_labels)
    Q, D = (rng.integers(0, 256, (n, 2), dtype=np.uint8) for n in (20, 50))
    a, b = (rng.random((n, n_labels)) < 1.5 / n_labels for n in (20, 50))
    s = against_database(Q, a, D, b)
    mAP, precision, recall = twin(Q, a, D, b, share)
    assert s.mAP == pytest.approx(mAP)
    assert s.precision == pytest.approx(precision)
    assert s.recall == pytest.approx(recall)


def ranked(relevant, k):
    """Precision@k and average precision@k of one definite order."""
    hits = np.cumsum(relevant)
    ap = sum(hits[i] / (i + 1) for i in range(min(k, len(relevant))) if relevant[i])
    return hits[min(k, len(relevant)) - 1] / k, ap / min(k, hits[-1])


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6).filter(
        lambda items: any(good for _, good in items)
    ),
    st.integers(1, 7),
)
def test_ranks_are_the_mean_over_all_orders_of_ties(items, k):
    orders = [p for p in permutations(items) if [d for d, _ in p] == sorted(d for d, _ in items)]
    expected = np.mean([ranked([good for _, good in order], k) for order in orders], axis=0)
    codes = packed(*("1" * d + "0" * (8 - d) for d, _ in items))
    s = against_database(packed("0" * 8), ["a"], codes, ["a" if good else "b" for _, good in items], k=[k])
    assert [s.precision_at[k], s.mAP_at[k]] == pytest.approx(expected)


@given(st.integers(0, 2**32 - 1))
def test_recall_grows_with_the_radius_and_ends_at_1(seed):
    rng = np.random.default_rng(seed)
    s = leave_one_out(rng.integers(0, 256, (30, 2), dtype=np.uint8), rng.integers(0, 3, 30))
    assert (np.diff(s.recall) >= -1e-12).all()
    assert s.recall[-1] == pytest.approx(1)
    assert 0 <= s.mAP <= 1 + 1e-12


def test_order_and_blocks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(0)
    codes, labels = rng.integers(0, 4, (100, 2), dtype=np.uint8), rng.integers(0, 5, 100)
    whole = leave_one_out(codes, labels, k=[10])
    order = rng.permutation(100)
    monkeypatch.setattr(retrieval, "BLOCK_QUERIES", 7)
    for s in (leave_one_out(codes, labels, k=[10]), leave_one_out(codes[order], labels[order], k=[10])):
        assert s.mAP == pytest.approx(whole.mAP)
        assert s.precision == pytest.approx(whole.precision)
        assert s.mAP_at == pytest.approx(whole.mAP_at)


def test_labels_of_any_kind_mean_the_same():
    rng = np.random.default_rng(0)
    codes, labels = rng.integers(0, 256, (50, 1), dtype=np.uint8), rng.integers(0, 3, 50)
    words = np.array(["cat", "dog", "frog"])[labels]
    one_hot = np.eye(3, dtype=int)[labels]
    assert (
        leave_one_out(codes, labels).mAP
        == leave_one_out(codes, words).mAP
        == leave_one_out(codes, one_hot).mAP
    )


@pytest.mark.parametrize(
    ("codes", "labels", "options", "message"),
    [
        (np.ones((3, 2)), [1, 1, 2], {}, "packed uint8"),
        (np.ones((3, 2), np.uint8), [1, 1], {}, "as many labels as rows"),
        (np.ones((3, 2), np.uint8), [[1, 2], [0, 1], [1, 1]], {}, "indicators"),
        (np.ones((3, 2), np.uint8), [1, 1, 2], {"k": [0]}, "start at 1"),
    ],
)
def test_refusals(codes, labels, options, message):
    with pytest.raises(ValueError, match=message):
        leave_one_out(codes, labels, **options)


def test_code_lengths_must_agree():
    with pytest.raises(ValueError, match="cannot be compared"):
        against_database(np.ones((1, 1), np.uint8), [1], np.ones((1, 2), np.uint8), [1])


@pytest.mark.parametrize("k", [1, 2, 4, 9])
def test_ndcg_is_the_mean_over_all_orders_of_ties(k):
    rng = np.random.default_rng(k)
    distances, labels, asked = rng.integers(0, 3, 6), rng.integers(0, 2, (6, 4)), np.array([[1, 1, 1, 0]])
    labels[0] = [1, 1, 0, 0]
    items = packed(*("1" * d + "0" * (8 - d) for d in distances))
    gains = 2.0 ** (labels @ asked[0]) - 1

    def dcg(order):
        return sum(gains[i] / np.log2(2 + place) for place, i in enumerate(order[:k]))

    orders = [o for o in permutations(range(6)) if list(distances[list(o)]) == sorted(distances)]
    best = dcg(np.argsort(-gains))
    found = against_database(packed("0" * 8), asked, items, labels, k=[k])
    assert found.NDCG_at[k] == pytest.approx(np.mean([dcg(order) for order in orders]) / best)
