"""FastHash: cuts against all 2ⁿ signs, trees against LightGBM's own answer, and life without the extra."""

import importlib.util
import itertools
import sys

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from sihash.research.baselines import FastHash
from sihash.research.baselines.graph_cuts import (
    best_signs,
    class_blocks,
    infer_bit,
    leading_eigenvector,
    minimum_cut,
)
from sihash.research.baselines.label_residue import LabelResidue
from sihash.research.baselines.trees import TreeBooster


def value(R, pull, z):
    off = R - np.diag(np.diagonal(R))
    return z @ off @ z + 2 * pull @ z


@given(seed=st.integers(0, 10**6), n=st.integers(1, 9), scale=st.sampled_from([0, 3, 20, 200]))
@settings(max_examples=80)
def test_cuts_are_the_best_of_all_signs(seed, n, scale):
    rng = np.random.RandomState(seed)
    R = rng.randint(0, 12, (n, n)).astype(float)
    R += R.T
    pull = rng.randint(-scale, scale + 1, n).astype(float)
    best = max(value(R, pull, np.array(z)) for z in itertools.product([-1.0, 1.0], repeat=n))
    start = rng.choice([-1.0, 1.0], n)
    assert value(R, pull, best_signs(R, pull, start)) == best
    assert value(R, pull, minimum_cut(R, pull)) == best


def residue_of_noisy_bits(n=300, n_classes=4, n_bits=6, seed=0):
    rng = np.random.RandomState(seed)
    numbers = rng.randint(0, n_classes, n)
    residue = LabelResidue(numbers, n_bits)
    for _ in range(n_bits - 2):
        words = rng.choice([-1.0, 1.0], n_classes)
        residue.subtract(np.where(rng.rand(n) < 0.2, -1, 1) * words[numbers])
    R = n_bits * np.where(numbers[:, None] == numbers, 1.0, -1.0) - residue.B @ residue.B.T
    return residue, R


def test_leading_eigenvector_is_that_of_the_matrix():
    for n_bits in (2, 6):
        residue, R = residue_of_noisy_bits(n_bits=n_bits)
        v = leading_eigenvector(residue)
        top = np.linalg.eigvalsh(R)[-1]
        np.testing.assert_allclose(R @ v, top * v, atol=1e-6 * top)
        np.testing.assert_allclose(v @ v, 1)


@pytest.mark.parametrize("block_size", [1, 7, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_sweeps_never_lower_the_agreement(block_size, seed):
    residue, R = residue_of_noisy_bits(seed=seed)
    z = np.where(leading_eigenvector(residue) >= 0, 1.0, -1.0)
    values = [z @ R @ z]
    for n_sweeps in range(1, 4):
        z = infer_bit(residue, np.random.RandomState(seed), n_sweeps=n_sweeps, block_size=block_size)
        assert set(np.unique(z)) <= {-1.0, 1.0}
        values.append(z @ R @ z)
    assert np.all(np.diff(values) >= 0)


def test_blocks_hold_every_row_once_and_one_class_each():
    numbers = np.random.RandomState(0).randint(0, 5, 333)
    blocks = list(class_blocks(numbers, 20, np.random.RandomState(1)))
    assert sorted(np.concatenate(blocks)) == list(range(333))
    for rows in blocks:
        assert len(rows) <= 20
        assert len(set(numbers[rows])) == 1


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forest_scores_are_those_of_lightgbm(depth, dtype):
    X, y = load_digits(return_X_y=True)
    X = X.astype(dtype) + np.random.RandomState(0).rand(*X.shape).astype(dtype)
    z = np.where(y < 5, 1.0, -1.0)
    booster = TreeBooster(X, n_trees=20, depth=depth, learning_rate=0.3, feature_share=0.5)
    forest = booster.fit(z, seed=3)
    params = {**booster.params, "seed": 3}
    expected = lightgbm.train(params, lightgbm.Dataset(X, z > 0, params=params), 20).predict(
        X, raw_score=True
    )
    np.testing.assert_allclose(forest(X)[:, 0], expected, rtol=1e-12)
    assert np.mean(np.sign(expected) == z) > 0.85


def test_trees_that_cannot_split_still_answer():
    X = np.ones((30, 2))
    forest = TreeBooster(X, n_trees=3, depth=2, learning_rate=0.3, feature_share=1.0).fit(np.ones(30), seed=0)
    assert np.all(forest(X) >= 0)


def test_later_bits_make_up_for_what_the_trees_got_wrong():
    """Digits by shallow trees: the codes of all bits tell the classes better than those of the first."""
    X, y = load_digits(return_X_y=True)
    hasher = FastHash(16, n_trees=30, feature_share=0.3, random_state=0).fit(X[:900], y[:900])
    scores = hasher.decision_function(X[900:])
    B = np.where(scores >= 0, 1, -1)
    same = y[900:, None] == y[900:]

    def separation(B):
        agreement = B @ B.T / B.shape[1]
        return agreement[same].mean() - agreement[~same].mean()

    assert separation(B) > 0.5
    assert len(np.unique(B, axis=0)) > 16


def test_without_the_extra_fit_says_what_to_install(monkeypatch):
    X, y = load_digits(n_class=2, return_X_y=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"lightgbm and maxflow.*sihash\[fasthash\]"):
        FastHash(4).fit(X, y)


def test_a_saved_model_needs_no_extra(monkeypatch, tmp_path):
    X, y = load_digits(n_class=3, return_X_y=True)
    hasher = FastHash(8, n_trees=5, random_state=0).fit(X, y)
    hasher.save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    monkeypatch.setitem(sys.modules, "maxflow", None)
    np.testing.assert_array_equal(FastHash.load(tmp_path / "model").transform(X), hasher.transform(X))
