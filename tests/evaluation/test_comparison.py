"""Learned codes beside the alternatives: against slow twins, by hand, and whatever the order of the items."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from sihash.evaluation import AlternativeScore, Comparison, compare, ranked
from sihash.evaluation.advice import ERROR_RATE, TOLERANCE, paired_interval
from sihash.evaluation.alternatives import (
    N_RESCORED,
    ByClass,
    ByClassThenCosine,
    Cosine,
    ProductQuantisation,
    RescoredSignBits,
    SignBits,
    Unavailable,
    linear_discriminants,
    nearest_class_mean,
)
from sihash.evaluation.ranked import ranked_scores

SIHASH = AlternativeScore("sihash", 4, 0.5, 0.5, 0.5, 0.1)


def made_data(n=600, n_classes=5, d=20, n_queries=40, seed=0):
    """Classes as clouds, stored class by class as folders come."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n_classes, d))
    y, asked = np.sort(rng.integers(0, n_classes, n)), rng.integers(0, n_classes, n_queries)
    X, Q = means[y] + rng.normal(size=(n, d)), means[asked] + rng.normal(size=(n_queries, d))
    return X.astype(np.float32), y, Q.astype(np.float32), asked


def rows_of(compared: Comparison) -> dict[str, tuple[float, ...]]:
    return {row.name: (row.bytes_per_item, row.p_at_1, row.p_at_10, row.map) for row in compared.rows}


def slow_scores(scores, y, asked):
    """P@1, P@10 and mAP of scores without ties, query by query."""
    found = []
    for row, label in zip(scores, asked, strict=True):
        right = y[np.argsort(-row)] == label
        precision = [right[: i + 1].mean() for i in np.flatnonzero(right)]
        found.append((right[0], right[:10].mean(), np.mean(precision)))
    return np.mean(found, axis=0)


def compared_with(X, y, Q, labels, code_bytes, **options) -> Comparison:
    """Beside a first row that has half of the queries right, by chance."""
    if "own" not in options or options["own"] is None:
        options["own"] = np.full(len(Q), -1)
    by_chance = ranked_scores(lambda block: np.sin(1e4 * block @ X.T), y, Q, labels, options["own"])
    return compare(SIHASH, by_chance, X, y, Q, labels, code_bytes, **options)


def test_cosine_is_what_a_slow_twin_finds():
    X, y, Q, asked = made_data()
    X[3] = 0  # has no direction: like nothing
    unit = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    expected = slow_scores(Q @ unit.T, y, asked)
    row = compared_with(X, y, Q, asked, 4).rows[1]
    assert (row.name, row.bytes_per_item) == ("cosine", 80)
    assert (row.p_at_1, row.p_at_10, row.map) == pytest.approx(tuple(expected), abs=1e-9)


def test_sign_bits_by_hand():
    X = np.array([[0, 0], [0, 2], [2, 0], [2, 2]], np.float32)  # the mean is (1, 1)
    bits = SignBits(X)
    assert bits.distances(np.array([[5, 5], [1, 0]], np.float32)).tolist() == [[2, 1, 1, 0], [1, 2, 0, 1]]
    assert bits.bytes_per_item == 1


def test_rescoring_puts_the_nearest_by_bits_in_the_order_of_cosine():
    X, _, Q, _ = made_data(n=900)
    bits, cosine = SignBits(X), Cosine(X)
    distances, cosines = bits.distances(Q), cosine.scores(Q)
    rescored = RescoredSignBits(bits, cosine)
    order = np.argsort(-rescored.scores(Q), axis=1, kind="stable")
    for near, row, found in zip(distances, cosines, order, strict=True):
        candidates = np.argsort(near, kind="stable")[:N_RESCORED]
        assert found[:N_RESCORED].tolist() == candidates[np.argsort(-row[candidates])].tolist()
        assert (np.diff(near[found[N_RESCORED:]].astype(int)) >= 0).all()


@pytest.mark.parametrize("code_bytes", [4, 6])  # 20 numbers are no multiple of 6: padded
def test_product_quantisation_scores_as_faiss_does(code_bytes):
    X, _, Q, _ = made_data()
    quantised = ProductQuantisation(X, code_bytes)
    scores = quantised.scores(Q)
    for query, row in zip(Q, scores, strict=True):
        found = row[quantised.first(query, 10)]
        assert found == pytest.approx(np.sort(row)[::-1][:10], abs=1e-5)


def test_lda_is_that_of_scikit_learn_with_the_same_shrinkage():
    X, y, Q, _ = made_data()
    means = np.array([X[y == label].mean(axis=0) for label in range(5)])
    share = ledoit_wolf_shrinkage(X - means[y], assume_centered=True)
    twin = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=share).fit(X, y)
    ours = linear_discriminants(X, y, np.ones(len(X), bool))(Q)
    assert ours == pytest.approx(twin.predict_log_proba(Q), rel=1e-3, abs=1e-3)


def test_the_nearest_class_mean_is_three_lines_of_numpy():
    X, y, Q, _ = made_data()
    Z = X / np.linalg.norm(X, axis=1, keepdims=True)
    means = np.array([(Z - Z.mean(axis=0))[y == label].mean(axis=0) for label in range(5)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    q = Q / np.linalg.norm(Q, axis=1, keepdims=True) - Z.mean(axis=0)
    assert nearest_class_mean(X, y, np.ones(len(X), bool))(Q) == pytest.approx(q @ means.T, abs=1e-5)


def test_a_label_ranks_items_by_the_probability_of_their_class():
    X, y, Q, _ = made_data()
    y = y.copy()
    y[::7], y[5] = -1, 9  # unlabelled ones; a class of one item, that may not be learned from
    learned = np.arange(len(X)) != 5
    lda = ByClass("LDA's label", linear_discriminants(X, y, learned), y)
    never = np.flatnonzero((y < 0) | (y == 9))
    for query, row in zip(Q, lda.scores(Q), strict=True):
        assert row[lda.first(query, 10)] == pytest.approx(np.sort(row)[::-1][:10])
        assert set(np.argsort(-row)[-len(never) :]) == set(never)
    assert lda.bytes_per_item == 1


def test_the_first_answers_are_the_best_by_score():
    X, y, Q, _ = made_data(n=500)
    bits, cosine = SignBits(X), Cosine(X)
    everything = np.ones(len(X), bool)
    lda = ByClass("LDA's label", linear_discriminants(X, y, everything), y)
    for way in (bits, cosine, RescoredSignBits(bits, cosine), lda, ByClassThenCosine(lda, cosine)):
        for query, row in zip(Q, way.scores(Q), strict=True):
            assert row[way.first(query, 10)] == pytest.approx(np.sort(row)[::-1][:10], abs=1e-5)
    assert len(cosine.first(Q[0], 1000)) == 500


@pytest.mark.parametrize("own", [False, True])
def test_the_order_in_which_items_are_stored_changes_nothing(own):
    X, y, Q, asked = made_data()
    X = np.round(X)  # many ties
    X[1::3] = X[::3]  # equal vectors, some of them of other classes
    mine = np.arange(40) * 15 if own else None
    Q, asked = (X[mine], y[mine]) if own else (Q, asked)
    before = compared_with(X, y, Q, asked, 4, own=mine)
    shuffled = np.random.default_rng(1).permutation(len(X))
    moved = None if mine is None else np.argsort(shuffled)[mine]
    after = compared_with(X[shuffled], y[shuffled], Q, asked, 4, own=moved)
    assert rows_of(before) == rows_of(after)


def test_ties_do_not_favour_a_class():
    X, y = np.ones((1000, 4), np.float32), np.repeat([0, 1], 500)
    row = compared_with(X, y, X[:2], np.array([0, 1]), 2).rows[1]
    assert row.map == pytest.approx(0.5, abs=0.01)  # by the order of storage: 1 and 0.31
    assert row.p_at_10 == pytest.approx(0.5, abs=1e-9)


def test_a_query_is_no_answer_to_itself():
    X = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], np.float32)
    y, own = np.array([0, 1, 1, 1]), np.array([0, 1, -1])
    queries, labels = np.concatenate([X[:2], X[3:]]), np.array([0, 1, 1])
    compared = compared_with(X, y, queries, labels, 1, own=own)
    assert (compared.n_queries, compared.n_left_out) == (2, 1)  # class 0 has but that one item
    # The second finds 0, 3, 2: right at two places. The third asks from outside: 3, 2, 1, 0.
    assert compared.rows[1].p_at_1 == pytest.approx(1 / 2)
    assert compared.rows[1].map == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1) / 2)


def test_unlabelled_items_are_found_and_never_right():
    X = np.array([[1, 0], [1, 0.2], [0, 1]], np.float32)
    compared = compared_with(X, np.array([-1, 0, 1]), X[:2], np.array([0, -1]), 1)
    assert (compared.n_queries, compared.n_left_out) == (1, 1)  # a query without a label asks for nothing
    assert compared.rows[1].map == pytest.approx(1 / 2)


def test_what_cannot_be_had_is_skipped_with_the_reason(monkeypatch):
    X, y, Q, asked = made_data(n=100)
    compared = compared_with(X, y, Q, asked, 4)
    assert compared.skipped == {"PQ, 4 bytes": "it learns 256 centres a byte, and there are 100 items"}
    assert "20 numbers" in compared_with(X, y, Q, asked, 21).skipped["PQ, 21 bytes"]
    lonely = compared_with(X, np.zeros(100, int), Q, np.zeros(40, int), 4)
    assert "two classes" in lonely.skipped["LDA's label"]
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert "FAISS is not installed" in compared_with(X, y, Q, asked, 4).skipped["PQ, 4 bytes"]


def test_one_item_a_class_leaves_lda_nothing_to_learn():
    X, _, _, _ = made_data(n=10)
    with pytest.raises(Unavailable, match="no spread"):
        linear_discriminants(X, np.arange(10), np.ones(10, bool))


def test_refusals():
    X, y, Q, labels = made_data()
    found = ranked_scores(Cosine(X).scores, y, Q, labels, np.full(40, -1))
    with pytest.raises(ValueError, match="of one width"):
        compare(SIHASH, found, X, y, Q[:, :3], labels, 4)
    with pytest.raises(ValueError, match="one class number"):
        compare(SIHASH, found, X, y[:-1], Q, labels, 4)
    with pytest.raises(ValueError, match="None of the 40 queries"):
        compared_with(X, y, Q, labels + 100, 4)


def test_blocks_change_no_score(monkeypatch):
    X, y, Q, asked = made_data()
    own = np.full(len(Q), -1)
    whole = ranked_scores(Cosine(X).scores, y, Q, asked, own)
    monkeypatch.setattr(ranked, "BLOCK_SCORES", 3 * len(X))
    parts = ranked_scores(Cosine(X).scores, y, Q, asked, own)
    assert parts.map == pytest.approx(whole.map, abs=1e-6)
    assert [one.n_queries for one in parts.per_class] == [one.n_queries for one in whole.per_class]


def advice_of(*others):
    """A row each: name, bytes, P@1, P@10, and how far luck reaches."""
    rows = [
        AlternativeScore(
            name, size, p, q, 0.5, 2.0, (p - 0.5 - luck, p - 0.5 + luck), (q - 0.5 - luck, q - 0.5 + luck)
        )
        for name, size, p, q, luck in others
    ]
    return Comparison((SIHASH, *rows), {}, 100, 1000, 0).advice()


def test_advice():
    assert advice_of(("cosine", 1536, 0.6, 0.7, 0.01)) == (
        "Cosine answers better here than sihash (P@1 0.600 against 0.500, P@10 0.700 against 0.500): use it "
        "if 1.5 kB per item instead of 4 bytes, and 2 ms per query instead of 0.1, are affordable."
    )
    assert advice_of(("cosine", 1536, 0.55, 0.7, 0.01), ("LDA's label", 1, 0.6, 0.7, 0.01)) == (
        "LDA's label answers better here than sihash (P@1 0.600 against 0.500, P@10 0.700 against 0.500) and "
        "takes no more room (1 byte per item): use it."
    )
    assert advice_of(("cosine", 1536, 0.6, 0.4, 0.01), ("sign bits", 48, 0.2, 0.2, 0.01)) == (
        "Cosine more often puts the right thing first, sihash has more right ones among ten (P@1 0.600 "
        "against 0.500, P@10 0.400 against 0.500; 1.5 kB per item against 4 bytes): take what you need."
    )
    assert advice_of(("LDA's label", 1, 0.499, 0.5, 0.005)) == (
        "LDA's label answers as well here as sihash, or worse by less than 0.01 (P@1 0.499 against 0.500, "
        "P@10 0.500 against 0.500), with 1 byte per item instead of 4 bytes: it will do."
    )
    assert advice_of(("LDA's label", 1, 0.51, 0.5, 0.03)) == (
        "Use sihash: none of the others surely answers better with these queries; next is LDA's label "
        "(P@1 0.500 against 0.510, P@10 0.500 against 0.500; 4 bytes per item against 1 byte)."
    )
    assert advice_of(("cosine", 1536, 0.4, 0.4, 0.01)).startswith(
        "Use sihash: it answers best here; next is cosine"
    )


@pytest.mark.parametrize("n", [12, 100, 1000])
def test_what_is_equal_is_seldom_called_better_and_few_queries_tell_nothing(n):
    """Two ways that are right equally often, at the same and at other queries."""
    rng, n_claims = np.random.default_rng(0), 14
    intervals = []
    for _ in range(1000):
        p = rng.random(n)  # what makes a query easy for both
        differences = (rng.random(n) < p).astype(float) - (rng.random(n) < p)
        intervals.append(paired_interval(differences, n_claims))
    wrong = np.mean([low > 0 or high < 0 for low, high in intervals])
    assert wrong <= 3 * ERROR_RATE / n_claims
    low = paired_interval(np.zeros(n), n_claims)[0]
    assert (low <= -TOLERANCE) == (n < 500), "that all agree says little if they are few"


def test_what_differs_is_found_sooner_in_pairs():
    rng = np.random.default_rng(0)
    same = rng.random(1000) < 0.5
    other = same | (rng.random(1000) < 0.04)  # as good on all, better on a few
    assert paired_interval(other.astype(float) - same, 14)[0] > 0


def test_every_row_but_the_first_has_its_lead():
    X, y, Q, labels = made_data(n=900, n_queries=300)
    compared = compared_with(X, y, Q, labels, 4)
    assert compared.rows[0].lead_at_1 is None
    names = [row.name for row in compared.rows[1:]]
    assert names == [
        "cosine", "sign bits", "sign bits, rescored", "PQ, 4 bytes",
        "nearest class mean", "LDA's label", "LDA's label and cosine",
    ]  # fmt: skip
    for row in compared.rows[1:]:
        assert row.lead_at_1[0] > 0, "all are better than chance"
    more = [("one more", lambda: ByClass("one more", nearest_class_mean(X, y, y >= 0), y))]
    assert compared_with(X, y, Q, labels, 4, more=more).rows[-1].name == "one more"
