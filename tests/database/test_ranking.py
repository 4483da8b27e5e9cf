"""The three rankings: hand-worked scores, agreement of the roads to them, and what they are worth."""

from __future__ import annotations

import os

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sihash import SIH, datasets
from sihash.codes import hamming, pack, sign, unpack
from sihash.database import ranking
from sihash.evaluation import against_database, ranked
from sihash.index import ScanIndex


@pytest.fixture(scope="module")
def digits():
    """A hasher of twelve bits, the codes of its training rows, margins of others."""
    X, y = load_digits(return_X_y=True)
    hasher = SIH(n_bits=12, n_anchors=60, random_state=0).fit(X[:1000], y[:1000])
    return hasher, hasher.transform(X[:1000]), y[:1000], hasher.decision_function(X[1000:1100]), y[1000:1100]


@pytest.fixture(scope="module")
def ranker(digits):
    hasher, codes = digits[:2]
    index, semantic = ScanIndex(12), ranking.semantic_index(hasher)
    ids = np.arange(1000) * 3
    for each in (index, semantic):
        each.add(ids, codes)
    return ranking.Ranker(hasher, index, lambda wanted: codes[wanted // 3], semantic)


def test_scores_by_hand(digits):
    hasher = digits[0]
    margins = np.full((1, 12), 2.0)
    margins[0, 3] = -0.1
    codes = pack(np.where(np.arange(12) < [[12], [11], [3]], 1, -1))
    np.testing.assert_array_equal(ranking.scores("hamming", hasher, margins, codes), [[-1, -2, -8]])
    sure, doubt = np.tanh(2.0), np.tanh(0.1)
    np.testing.assert_allclose(
        ranking.scores("asymmetric", hasher, margins, codes),
        [[11 * sure - doubt, 9 * sure + sure - doubt - sure, 3 * sure - 8 * sure + doubt]],
        rtol=1e-5,
    )
    p = hasher.code_proba(np.tanh(margins))[0]
    expected = [
        hasher.code_proba(unpack(code[None], 12))[0] @ p * np.exp(-2 * d / 12)
        for code, d in zip(codes, (1, 2, 8), strict=True)
    ]
    np.testing.assert_allclose(ranking.scores("semantic", hasher, margins, codes)[0], expected, rtol=1e-5)


@pytest.mark.parametrize("rank", ranking.RANKS)
def test_the_nearest_are_the_best_of_all(digits, ranker, rank):
    hasher, codes, _, margins, _ = digits
    # All thousand are candidates, so re-ranking goes over all as well.
    for row, (scores, ids) in zip(margins[:20], ranker.nearest(rank, margins[:20], 15), strict=True):
        every = ranking.scores(rank, hasher, row[None], codes)[0]
        np.testing.assert_allclose(scores, -np.sort(-every)[:15], rtol=1e-5)
        np.testing.assert_allclose(scores, every[ids // 3], rtol=1e-5)
        assert (np.lexsort((ids, -scores)) == np.arange(15)).all()


@pytest.mark.parametrize("rank", ranking.RANKS)
def test_a_ball_holds_the_same_items_in_every_order(digits, ranker, rank):
    hasher, codes, _, margins, _ = digits
    near = hamming(pack(sign(margins[:20])), codes)
    for row, distances, (scores, ids) in zip(
        margins, near, ranker.within(rank, margins[:20], 2), strict=False
    ):
        assert sorted(ids.tolist()) == (3 * np.flatnonzero(distances <= 2)).tolist()
        assert (np.diff(scores) <= 0).all()
        np.testing.assert_allclose(
            scores, ranking.scores(rank, hasher, row[None], codes[ids // 3])[0], rtol=1e-5
        )


@pytest.mark.parametrize("rank", ranking.RANKS)
def test_only_allowed_items_are_ranked(digits, ranker, rank):
    margins, allowed = digits[3], np.arange(0, 3000, 21)
    for (_, nearest), (_, ball) in zip(
        ranker.nearest(rank, margins, 5, allowed), ranker.within(rank, margins, 3, allowed), strict=True
    ):
        assert len(nearest) == 5
        assert not (nearest % 21).any()
        assert not (ball % 21).any()


def test_semantic_ranking_without_a_table_orders_candidates(digits, ranker):
    margins = digits[3]
    plain = ranking.Ranker(ranker.hasher, ranker.index, ranker.codes_of)
    for (scores, _), (expected, _) in zip(
        plain.nearest("semantic", margins, 8), ranker.nearest("semantic", margins, 8), strict=True
    ):
        np.testing.assert_allclose(scores, expected, rtol=1e-5)


@pytest.mark.parametrize("rank", ranking.RANKS)
def test_more_than_there_are(digits, ranker, rank):
    ((_, ids),) = ranker.nearest(rank, digits[3][:1], 10**12)
    assert sorted(ids.tolist()) == (np.arange(1000) * 3).tolist()


def test_names():
    assert ranking.check_rank(None) == ranking.DEFAULT
    assert ranking.check_rank("asymmetric") == "asymmetric"
    with pytest.raises(ValueError, match="'hamming', 'asymmetric', 'semantic', got 'best'"):
        ranking.check_rank("best")


def test_semantic_ranking_adds_to_hamming_on_real_images():
    if "SIHASH_DATA" not in os.environ:
        pytest.skip("SIHASH_DATA does not name the data sets")
    data = datasets.load("cifar10", features="gist")
    hasher = SIH(n_bits=32, n_anchors=300, random_state=0).fit(data.X_train[::8], data.y_train[::8])
    margins, asked = hasher.decision_function(data.X_test[::20]), np.asarray(data.y_test)[::20]
    codes, stored = hasher.transform(data.X_test[1::2]), np.asarray(data.y_test)[1::2]

    def mAP(rank):
        scores = ranking.scores(rank, hasher, margins, codes)
        return ranked.mean_average_precision(scores, asked[:, None] == stored)

    by_radius = against_database(pack(sign(margins)), asked, codes, stored).mAP
    assert mAP("hamming") == pytest.approx(by_radius, abs=1e-9)
    assert mAP("asymmetric") > by_radius + 0.005
    assert mAP("semantic") > by_radius + 0.03
