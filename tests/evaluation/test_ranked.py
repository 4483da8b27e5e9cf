"""Measures of rankings by a score, against those by radius and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sihash.codes import hamming
from sihash.evaluation import against_database
from sihash.evaluation.ranked import mean_average_precision, mean_precision_at


def test_minus_the_distance_gives_the_map_of_the_paper():
    rng = np.random.default_rng(0)
    codes, queries = rng.integers(0, 256, (300, 2), np.uint8), rng.integers(0, 256, (40, 2), np.uint8)
    y, asked = rng.integers(0, 5, 300), rng.integers(0, 6, 40)  # class 5 has no item: left out
    scores = -hamming(queries, codes).astype(np.int64)
    mAP = mean_average_precision(scores, asked[:, None] == y)
    assert mAP == pytest.approx(against_database(queries, asked, codes, y).mAP, abs=1e-12)


def test_by_hand():
    scores = np.array([[0.9, 0.5, 0.5, 0.1]])
    assert mean_average_precision(scores, np.array([[0, 1, 0, 1]], bool)) == pytest.approx(
        (1 / 3 + 2 / 4) / 2
    )
    assert np.isnan(mean_average_precision(scores, np.zeros((1, 4), bool)))
    assert mean_precision_at(2, scores, np.array([[1, 0, 1, 1]], bool)) == 0.75


def test_precision_does_not_depend_on_the_order_of_ties():
    rng = np.random.default_rng(1)
    codes, queries = rng.integers(0, 256, (300, 1), np.uint8), rng.integers(0, 256, (40, 1), np.uint8)
    y, asked = np.sort(rng.integers(0, 5, 300)), rng.integers(0, 5, 40)
    scores = -hamming(queries, codes).astype(np.int64)
    expected = against_database(queries, asked, codes, y, k=[10]).precision_at[10]
    assert mean_precision_at(10, scores, asked[:, None] == y) == pytest.approx(expected, abs=1e-12)
