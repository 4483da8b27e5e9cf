"""The line search against the slopes on both sides of what it finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sihash.svm import linesearch

SHARE = 0.05


def lines(seed, n, m):
    """Margins and rates of m bits, with the numbers of their quadratic terms."""
    rng = np.random.RandomState(seed)
    Z = rng.standard_normal((n, m))
    V = rng.standard_normal((n, m)) + rng.uniform(-1, 2, m)
    return Z, V, rng.standard_normal(m), rng.uniform(0.01, 3, m)


def assert_nearly_least(seed, n, C):
    """Just before the step the line does not rise steeply, just behind it does not fall so."""
    m = 3
    Z, V, w_dot_d, d_dot_d = lines(seed, n, m)

    def value(j, t):
        return t * w_dot_d[j] + 0.5 * t * t * d_dot_d[j] + C * np.maximum(1 - Z[:, j] - t * V[:, j], 0).sum()

    def slope(j, t):
        return w_dot_d[j] + t * d_dot_d[j] - C * V[Z[:, j] + t * V[:, j] < 1, j].sum()

    def slopes(t):
        return np.array([slope(j, t[j]) for j in range(m)])

    t = linesearch.search(slopes, slopes(np.zeros(m)), d_dot_d, SHARE)
    for j in range(m):
        if slope(j, 0) >= 0:
            assert t[j] == 0, "uphill: the bit stays"
            continue
        assert value(j, t[j]) <= value(j, 0) + 1e-6 * abs(value(j, 0))
        allowed = 2 * SHARE * abs(slope(j, 0))  # the hinge has kinks
        assert slope(j, 0.95 * t[j]) <= allowed
        assert slope(j, 1.05 * t[j]) >= -allowed


@given(seed=st.integers(0, 10**6), C=st.sampled_from([0.01, 1.0, 50.0]))
@settings(max_examples=80)
def test_the_slope_changes_sign_near_the_step(seed, C):
    assert_nearly_least(seed, 3000, C)


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.parametrize("C", [1.0, 50.0])
def test_few_rows_make_sharp_kinks(n, C):
    """Fixed seeds: twelve passes do not suffice for every line, but plain secants crept on many of these."""
    for seed in range(60):
        assert_nearly_least(seed, n, C)


def test_by_hand():
    """One row at margin 0 that gains 1 a step: ½t² + C·max(0, 1 − t) has its minimum at min(C, 1)."""
    for C, where in ((0.25, 0.25), (1.0, 1.0), (8.0, 1.0)):
        t = linesearch.search(lambda t, C=C: t - C * (t < 1), np.array([-C]), np.ones(1), SHARE)
        assert abs(t[0] - where) < 0.05
