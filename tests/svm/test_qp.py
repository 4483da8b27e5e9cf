"""The plane QP. For a concave function the Frank–Wolfe gap proves how far any point is from the maximum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from sihash.svm import qp

MOVES = 500


def value(K, c, b):
    return c @ b - 0.5 * b @ K @ b


def frank_wolfe_gap(K, c, b):
    """``max over feasible v of slope·(v − b)``, no less than the distance in value to the maximum."""
    slope = c - K @ b
    return max(0.0, slope.max()) - slope @ b


def assert_feasible(b):
    assert np.all(b >= 0)
    assert b.sum() <= 1 + 1e-9


@st.composite
def problems(draw):
    """Few or many planes, of any rank (0 too), with repeated ones among them."""
    rng = np.random.RandomState(draw(st.integers(0, 10**6)))
    n = draw(st.integers(1, 20))
    G = rng.standard_normal((n, draw(st.integers(1, 8)))) * 10.0 ** draw(st.integers(-3, 3))
    c = rng.uniform(-0.2, 1, n) * 10.0 ** draw(st.integers(-3, 3))
    kind = draw(st.sampled_from(["any", "repeated", "zero planes", "nearly parallel"]))
    if kind == "repeated":
        G[-1], c[-1] = G[0], c[0]
    elif kind == "zero planes":
        G[rng.uniform(size=len(G)) < 0.5] = 0
    elif kind == "nearly parallel":
        G = G[0] + 1e-4 * G
    b = rng.dirichlet(np.ones(n)) * rng.uniform(0, 1)
    b[rng.uniform(size=b.shape) < draw(st.sampled_from([0, 0.5, 1]))] = 0
    return G @ G.T, c, b


@given(problems())
@settings(max_examples=300)
def test_the_result_is_feasible_and_the_maximum(drawn):
    K, c, b = drawn
    start = value(K, c, b)
    reached = qp.maximise(K, c, b, MOVES)
    scale = np.abs(c).max() + K.max()
    assert_feasible(b)
    assert reached == pytest.approx(value(K, c, b), rel=1e-9, abs=1e-12 * scale)
    assert reached >= start - 1e-10 * scale
    assert frank_wolfe_gap(K, c, b) <= 1e-7 * scale


@given(problems(), st.integers(0, 5))
@settings(max_examples=100)
def test_stopped_early_it_is_feasible_and_no_worse_than_the_start(drawn, moves):
    K, c, b = drawn
    start = value(K, c, b)
    reached = qp.maximise(K, c, b, moves)
    assert_feasible(b)
    assert reached >= start - 1e-10 * (np.abs(c).max() + K.max())


@pytest.mark.parametrize("seed", range(5))
def test_same_maximum_as_scipy(seed):
    rng = np.random.RandomState(seed)
    G, c = rng.standard_normal((12, 5)), rng.uniform(0, 2, 12)
    K = G @ G.T
    sums = LinearConstraint(np.ones((1, 12)), ub=1)
    oracle = minimize(
        lambda b: -value(K, c, b), np.zeros(12), jac=lambda b: K @ b - c, bounds=[(0, None)] * 12,
        constraints=sums, method="SLSQP", options={"ftol": 1e-13, "maxiter": 1000},
    )  # fmt: skip
    assert qp.maximise(K, c, np.zeros(12), MOVES) == pytest.approx(-oracle.fun, rel=1e-6)


def test_by_hand():
    # max b − b² over 0 ≤ b ≤ 1 is ¼ at ½; with the slope 5 instead of 1 the bound stops it at 1: 5 − 1 = 4.
    for slope, best, where in ((1.0, 0.25, 0.5), (5.0, 4.0, 1.0), (-1.0, 0.0, 0.0)):
        b = np.zeros(1)
        assert qp.maximise(np.array([[2.0]]), np.array([slope]), b, MOVES) == pytest.approx(best)
        assert b[0] == pytest.approx(where)


def test_planes_without_slope():
    """Rows of zeros make planes that are constants: the QP is linear, and its maximum a corner."""
    b = np.zeros(3)
    assert qp.maximise(np.zeros((3, 3)), np.array([1.0, 3.0, 2.0]), b, MOVES) == pytest.approx(3)
    np.testing.assert_allclose(b, [0, 1, 0], atol=1e-9)
    assert qp.maximise(np.zeros((3, 3)), np.zeros(3), np.zeros(3), MOVES) == 0
