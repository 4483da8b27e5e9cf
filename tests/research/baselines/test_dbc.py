"""DBC: its descent against pairs written out, its splits whole and balanced, its planes of maximum margin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from sihash import codes
from sihash.research.baselines import DBC
from sihash.research.baselines.dbc import descend, principal_signs


def all_pairs(bit, numbers, separation):
    """Distances within classes less ``separation`` times those between, of one bit."""
    differ = np.triu(bit[:, None] != bit, 1)
    same = numbers[:, None] == numbers
    return (differ & same).sum() - separation * (differ & ~same).sum()


@given(
    seed=st.integers(0, 10**6), n_classes=st.integers(1, 5), separation=st.sampled_from([0.0, 0.1, 1.0, 3.0])
)
@settings(max_examples=80)
def test_descent_never_rises_and_ends_where_nothing_gains(seed, n_classes, separation):
    rng = np.random.RandomState(seed)
    numbers = rng.randint(0, n_classes, 30)
    B = rng.choice(np.array([-1, 1], dtype=np.int8), (30, 3))
    before = B.copy()
    descend(B, numbers, n_classes, separation)
    for old, bit in zip(before.T, B.T, strict=True):
        reached = all_pairs(bit, numbers, separation)
        assert reached <= all_pairs(old, numbers, separation) + 1e-9
        moves = [np.arange(30) == i for i in range(30)] + [numbers == c for c in range(n_classes)]
        for move in moves:
            assert all_pairs(np.where(move, -bit, bit), numbers, separation) >= reached - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_splits_keep_classes_whole_and_are_balanced_within_a_class(seed):
    rng = np.random.RandomState(seed)
    numbers = rng.permutation(np.repeat(np.arange(9), rng.randint(10, 40, 9)))
    B = rng.choice(np.array([-1, 1], dtype=np.int8), (len(numbers), 8))
    descend(B, numbers, 9, 1.0)
    sizes = np.bincount(numbers)
    for bit in B.T:
        sums = np.bincount(numbers, bit)
        np.testing.assert_array_equal(np.abs(sums), sizes)
        total = sums.sum()
        heavier = np.sign(total) * sums > 0
        assert total == 0 or abs(total) <= sizes[heavier].min()


def test_first_splits_are_those_of_the_principal_components():
    rng = np.random.RandomState(0)
    Z = rng.standard_normal((200, 4)) * [1, 5, 2, 3]
    signs = principal_signs(Z, 3, rng)
    centred = Z - Z.mean(axis=0)
    _, _, Vt = np.linalg.svd(centred)
    expected = codes.sign(centred @ Vt[:3].T)
    agree = np.abs((signs * expected).mean(axis=0))
    np.testing.assert_array_equal(agree, 1.0)
    assert principal_signs(Z, 10, rng).shape == (200, 10)


def test_planes_have_the_largest_margin_for_their_splits():
    X, y = load_digits(return_X_y=True)
    X, y = X[:500], y[:500]
    hasher = DBC(6, n_anchors=60, kernel_width=0.8, C=5.0, random_state=0).fit(X, y)
    Phi = hasher.kernel_(X)
    for plane, split in zip(hasher.coef_.T, hasher.splits_[y].T, strict=True):

        def risk(w, split=split):
            return 0.5 * w @ w + 5.0 * np.maximum(0, 1 - split * (Phi @ w)).sum()

        oracle = LinearSVC(C=5.0, loss="hinge", fit_intercept=False, tol=1e-6, max_iter=200_000)
        oracle.fit(Phi, split)
        assert risk(plane) <= 1.04 * risk(oracle.coef_[0])
        assert np.mean(split * (Phi @ plane) > 0) > 0.95, "most rows lie on the side of their class"
