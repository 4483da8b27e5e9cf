"""The line search against scipy, for the smoothed hinge and for the hinge itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from sihash.svm import linesearch
from sihash.svm.blocks import RowBlocks


def smoothed(z, width):
    """The hinge, quadratic where ``|1 − z| < width / 2``."""
    u = 1 - z
    hinge = np.maximum(u, 0)
    if width == 0:
        return hinge
    return np.where(np.abs(u) < width / 2, (u + width / 2) ** 2 / (2 * width), hinge)


def slope_at(z, width):
    """Minus the derivative of `smoothed`."""
    if width == 0:
        return (z < 1).astype(float)
    return np.clip(0.5 + (1 - z) / width, 0, 1)


def lines(seed, n, m):
    """Margins and rates of m bits over a few blocks, with the numbers of their quadratic terms."""
    rng = np.random.RandomState(seed)
    Z = rng.standard_normal((n, m)).astype(np.float32)
    V = (rng.standard_normal((n, m)) + rng.uniform(-1, 2, m)).astype(np.float32)
    rows = RowBlocks.of(np.zeros((n, 1), np.float32))
    for block, z, v in zip(
        rows, np.array_split(Z, len(rows.blocks)), np.array_split(V, len(rows.blocks)), strict=True
    ):
        block.scratch = {"Z": z.copy(), "V": v.copy()}
    w_dot_d, d_dot_d = rng.standard_normal(m), rng.uniform(0.01, 3, m)
    return Z.astype(float), V.astype(float), rows, w_dot_d, d_dot_d


def assert_nearly_least(seed, n, C, width):
    """Just before the step the line does not rise steeply, just behind it does not fall so."""
    m = 3
    Z, V, rows, w_dot_d, d_dot_d = lines(seed, n, m)

    def value(j, t):
        return t * w_dot_d[j] + 0.5 * t * t * d_dot_d[j] + C * smoothed(Z[:, j] + t * V[:, j], width).sum()

    def slope(j, t):
        return w_dot_d[j] + t * d_dot_d[j] - C * slope_at(Z[:, j] + t * V[:, j], width) @ V[:, j]

    start = np.array([slope(j, 0) for j in range(m)])
    t = linesearch.search(rows, w_dot_d, d_dot_d, C, np.full(m, width), start)
    for j in range(m):
        if start[j] >= 0:
            assert t[j] == 0, "uphill: the bit stays"
            continue
        assert value(j, t[j]) <= value(j, 0) + 1e-6 * abs(value(j, 0))
        allowed = (2 if width == 0 else 1.01) * linesearch.SLOPE_SHARE * abs(start[j])  # the hinge has kinks
        assert slope(j, 0.95 * t[j]) <= allowed
        assert slope(j, 1.05 * t[j]) >= -allowed


@given(
    seed=st.integers(0, 10**6),
    n=st.sampled_from([40, 3000]),
    C=st.sampled_from([0.01, 1.0, 50.0]),
    width=st.sampled_from([0.0, 0.05, 0.5]),
)
@settings(max_examples=80, deadline=None)
def test_the_slope_changes_sign_near_the_step(seed, n, C, width):
    assert_nearly_least(seed, n, C, width)


@pytest.mark.parametrize("width", [0.0, 0.05])
@pytest.mark.parametrize("C", [1.0, 50.0])
def test_three_rows_make_sharp_kinks(C, width):
    """Fixed seeds: twelve passes do not suffice for every line, but plain secants crept on many of these."""
    for seed in range(60):
        assert_nearly_least(seed, 3, C, width)


@pytest.mark.parametrize("seed", range(10))
def test_as_low_as_scipy_gets_on_a_smooth_line(seed):
    Z, V, rows, w_dot_d, d_dot_d = lines(seed, 3000, 1)
    start = w_dot_d - slope_at(Z, 0.5).T @ V[:, 0]

    def value(t):
        return t * w_dot_d[0] + 0.5 * t * t * d_dot_d[0] + smoothed(Z[:, 0] + t * V[:, 0], 0.5).sum()

    t = linesearch.search(rows, w_dot_d, d_dot_d, 1.0, np.array([0.5]), start)[0]
    best = minimize_scalar(value, bounds=(0, 100), method="bounded", options={"xatol": 1e-9}).fun
    assert value(0) - value(t) >= 0.95 * max(value(0) - best, 0)


def test_by_hand():
    """One row at margin 0 that gains 1 a step: ½t² + C·max(0, 1 − t) has its minimum at min(C, 1)."""
    rows = RowBlocks.of(np.zeros((1, 1), np.float32))
    for C, where in ((0.25, 0.25), (1.0, 1.0), (8.0, 1.0)):
        rows.blocks[0].scratch = {"Z": np.zeros((1, 1), np.float32), "V": np.ones((1, 1), np.float32)}
        t = linesearch.search(rows, np.zeros(1), np.ones(1), C, np.zeros(1), np.array([-C]))
        assert abs(t[0] - where) < 0.05


def test_derivatives_are_sums_of_slopes_and_curvatures():
    Z, V, rows, _, _ = lines(0, 5000, 4)
    t, width = np.float32([0, 0.3, 1, 2]), np.float32([0.1, 0.2, 0.5, 1])
    first, second = rows.total(linesearch.derivatives, t, width)
    for j in range(4):
        z = Z[:, j] + t[j] * V[:, j]
        band = np.abs(1 - z) <= width[j] / 2
        assert np.isclose(first[j], slope_at(z, width[j]) @ V[:, j], rtol=1e-4, atol=0.05)
        assert np.isclose(second[j], np.sum(V[band, j] ** 2) / width[j], rtol=0.01)
