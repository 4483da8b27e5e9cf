"""The codes that learning leaves behind are those that `transform` computes."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sihash import SIH

PARAMS = {"n_bits": 24, "n_anchors": 120, "random_state": 0}


def assert_same_as_transform(hasher, at_least=0.9):
    X, _, _ = hasher.training_set()
    packed, certain = hasher.training_.hashes()
    np.testing.assert_array_equal(packed[certain], hasher.transform(X)[certain])
    assert len(packed) == len(hasher.ids_)
    assert certain.mean() >= at_least


@pytest.mark.parametrize("solver", ["smooth", "ocas"])
@pytest.mark.parametrize("C", [0.1, 32.0, 1e4])
def test_after_a_fit(solver, C):
    X, y = load_digits(return_X_y=True)
    assert_same_as_transform(SIH(**PARAMS, solver=solver, C_x=C, tol=0.2).fit(X, y))


@pytest.mark.parametrize("solver", ["smooth", "ocas"])
def test_after_updates_and_a_file(solver, tmp_path):
    X, y = load_digits(return_X_y=True)
    hasher = SIH(**PARAMS, solver=solver).fit(X[:1500], y[:1500])
    assert_same_as_transform(hasher.add(X[1500:1600], y[1500:1600]))
    assert_same_as_transform(hasher.remove(range(100)))
    assert_same_as_transform(hasher.remove_classes([7]))
    again = np.flatnonzero(y[1600:] == 7) + 1600
    assert_same_as_transform(hasher.add(X[again], y[again]))
    hasher.save(tmp_path / "model.safetensors")
    assert_same_as_transform(SIH.load(tmp_path / "model.safetensors"))
    assert_same_as_transform(hasher.relearn())


def test_few_classes_and_float64():
    """Repeated bits, and rows whose scores are computed in another type by `transform`."""
    X, y = load_digits(n_class=3, return_X_y=True)
    hasher = SIH(**PARAMS).fit(X, y)
    packed, certain = hasher.training_.hashes()
    np.testing.assert_array_equal(packed[certain], hasher.transform(X.astype(np.float64))[certain])


def test_scores_next_to_zero_are_not_certain():
    """A row that appears in two classes alike has no margin worth the name."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5)).astype(np.float32)
    hasher = SIH(8, 10, random_state=0, max_iter=1).fit(np.concatenate([X, X]), np.repeat([0, 1], 40))
    _, certain = hasher.training_.hashes()
    margins = np.abs(hasher.decision_function(np.concatenate([X, X]))).min(axis=1)
    assert np.all(certain[margins > 1e-3 * np.linalg.norm(hasher.bit_coef_, axis=1).max()])
    assert not certain[margins == 0].any()
