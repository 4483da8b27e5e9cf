"""`solve_multiclass`: the optimum of Crammer and Singer, over weighted distinct rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from sihash.svm import solve_multiclass
from sihash.svm.multiclass import scaled_means
from sihash.svm.settings import SolverSettings


def objective(W, B, y, C, s=None):
    """``½ Σ_k ‖w_k‖² + C Σ_i s_i max_k (1[k ≠ y_i] + (w_k − w_{y_i})·b_i)``, row after row."""
    s = np.ones(len(B)) if s is None else s
    risk = 0.0
    for row, own, weight in zip(B, y, s, strict=True):
        scores = W @ row
        risk += weight * max((k != own) + scores[k] - scores[own] for k in range(len(W)))
    return 0.5 * np.sum(W * W) + C * risk


def codes_and_classes(n, d, n_classes, seed=0, flips=0.2):
    """±1 codes near a word for each class, with a bias column: what the second stage is trained on."""
    rng = np.random.RandomState(seed)
    y = rng.randint(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)[:n]
    words = rng.choice([-1.0, 1.0], (n_classes, d))
    B = words[y] * np.where(rng.uniform(size=(n, d)) < flips, -1, 1)
    return np.column_stack([B, np.ones(n)]), y


def assert_certificate(solution, B, y, C, tol, s=None):
    total = len(B) if s is None else np.sum(s)
    assert solution.lower <= solution.upper
    assert solution.upper == pytest.approx(objective(solution.W, B, y, C, s), rel=1e-9)
    assert solution.converged
    assert solution.upper - solution.lower <= max(tol * solution.upper, 1e-6 * C * total)


@pytest.mark.parametrize("C", [0.01, 0.1, 1.0])
@pytest.mark.parametrize(("n", "d", "n_classes"), [(100, 6, 3), (60, 12, 10), (12, 20, 4)])
@pytest.mark.parametrize("tol", [0.01, 1e-4])
def test_same_optimum_as_scikit_learn(C, n, d, n_classes, tol):
    B, y = codes_and_classes(n, d, n_classes)
    solution = solve_multiclass(B, y, C, tol=tol)
    assert_certificate(solution, B, y, C, tol)
    svc = LinearSVC(multi_class="crammer_singer", C=C, fit_intercept=False, tol=1e-8, max_iter=200_000).fit(
        B, y
    )
    reached = objective(svc.coef_, B, y, C)
    assert solution.lower <= reached * (1 + 1e-9)
    assert solution.upper <= reached / (1 - tol) * (1 + 1e-9)


@pytest.mark.parametrize(("C", "flips"), [(0.01, 0.0), (0.1, 0.1), (100.0, 0.3)])
def test_dual_and_planes_have_the_same_optimum(C, flips):
    B, y = codes_and_classes(150, 20, 60, flips=flips)
    dual = solve_multiclass(B, y, C)
    assert_certificate(dual, B, y, C, 0.01)
    planes = solve_multiclass(B, y, C, settings=SolverSettings(dual_passes=0))
    assert dual.lower <= planes.upper * (1 + 1e-9)
    assert planes.lower <= dual.upper * (1 + 1e-9)


@given(seed=st.integers(0, 10**6), n_classes=st.integers(2, 5), C=st.sampled_from([0.01, 1.0, 100.0]))
@settings(max_examples=40)
def test_integer_weights_are_repeated_rows(seed, n_classes, C):
    B, y = codes_and_classes(25, 4, n_classes, seed=seed)
    s = np.random.RandomState(seed).randint(0, 4, 25)
    s[:n_classes] = 1
    weighted = solve_multiclass(B, y, C, sample_weight=s, tol=1e-3)
    repeated = solve_multiclass(np.repeat(B, s, axis=0), np.repeat(y, s), C, tol=1e-3)
    assert_certificate(weighted, B, y, C, 1e-3, s)
    slack = 1e-9 * repeated.upper
    assert weighted.lower <= repeated.upper + slack
    assert repeated.lower <= weighted.upper + slack


def test_merging_and_order_of_rows_change_nothing():
    """Rows are merged and sorted before anything else, so their order and repetition cannot matter."""
    B, y = codes_and_classes(200, 3, 4)
    once = solve_multiclass(B, y, 0.5)
    order = np.random.RandomState(0).permutation(200)
    shuffled = solve_multiclass(B[order], y[order], 0.5)
    np.testing.assert_allclose(shuffled.W, once.W, rtol=1e-9, atol=1e-12)
    halves = solve_multiclass(np.vstack([B, B]), np.tile(y, 2), 0.5, sample_weight=np.full(400, 0.5))
    np.testing.assert_allclose(halves.W, once.W, rtol=1e-9, atol=1e-12)


def test_rows_of_one_code_and_two_classes_stay_apart():
    """The same code under two classes is a contradiction, not a repetition."""
    B, y = np.ones((4, 2)), np.array([0, 1, 0, 1])
    solution = solve_multiclass(B, y, 1.0)
    assert solution.upper == pytest.approx(4.0), "nothing beats W = 0"
    assert_certificate(solution, B, y, 1.0, 0.01)


def test_rows_of_zeros():
    solution = solve_multiclass(np.zeros((6, 2)), [0, 1] * 3, 1.0)
    assert solution.upper == pytest.approx(6)
    assert solution.converged


@pytest.mark.parametrize("y", [np.array(["b", "a"] * 10), np.array([7, -3] * 10), np.array([2.5, 1.5] * 10)])
def test_classes_come_sorted_and_belong_to_the_rows_of_W(y):
    B = np.column_stack([np.where(y == y[0], 1.0, -1.0), np.ones(20)])
    solution = solve_multiclass(B, y, 1.0)
    np.testing.assert_array_equal(solution.classes, np.unique(y))
    np.testing.assert_array_equal(solution.classes[np.argmax(B @ solution.W.T, axis=1)], y)


def test_a_warm_start_from_the_same_rows_takes_no_more_steps():
    B, y = codes_and_classes(300, 10, 5, flips=0.3)
    cold = solve_multiclass(B, y, 1.0)
    warm = solve_multiclass(B, y, 1.0, warm=cold.warm)
    assert_certificate(warm, B, y, 1.0, 0.01)
    assert warm.n_steps <= cold.n_steps
    assert warm.upper <= cold.upper


def test_a_warm_start_with_classes_that_came_and_went():
    B, y = codes_and_classes(200, 8, 6)
    some = np.isin(y, [0, 1, 2, 3])
    first = solve_multiclass(B[some], y[some], 1.0)
    later = np.isin(y, [1, 3, 4, 5])
    numbers = np.searchsorted([1, 3, 4, 5], y[later])
    solution = solve_multiclass(B[later], y[later], 1.0, warm=first.warm)
    np.testing.assert_array_equal(solution.classes, [1, 3, 4, 5])
    assert_certificate(solution, B[later], numbers, 1.0, 0.01)


def test_a_warm_start_of_other_features_is_a_cold_one():
    B, y = codes_and_classes(50, 4, 3)
    warm = solve_multiclass(B[:, 1:], y, 1.0).warm
    np.testing.assert_array_equal(solve_multiclass(B, y, 1.0, warm=warm).W, solve_multiclass(B, y, 1.0).W)


def test_too_few_steps_are_said():
    B, y = codes_and_classes(200, 10, 5, flips=0.4)
    with pytest.warns(ConvergenceWarning, match="did not reach a gap of 0.0001 in 2 steps"):
        early = solve_multiclass(B, y, 10.0, tol=1e-4, max_steps=2)
    assert not early.converged
    assert early.upper == pytest.approx(objective(early.W, B, y, 10.0))
    assert early.lower <= solve_multiclass(B, y, 10.0, tol=1e-3).upper


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"B": np.ones(4)}, "shapes"),
        ({"y": np.zeros(3)}, "shapes"),
        ({"B": np.ones((0, 2)), "y": np.ones(0)}, "n ≥ 1"),
        ({"B": np.full((4, 2), np.nan)}, "NaN or infinity"),
        ({"y": np.zeros(4)}, "at least two classes, got 1"),
        ({"sample_weight": np.ones(3)}, "sample_weight must hold 4"),
        ({"sample_weight": -np.ones(4)}, "sample_weight must hold 4"),
        ({"sample_weight": np.full(4, np.inf)}, "sample_weight must hold 4"),
        ({"C": 0.0}, "C must be positive"),
        ({"C": np.nan}, "C must be positive"),
    ],
)
def test_what_cannot_be_solved_is_refused_in_a_sentence(change, message):
    arguments = {"B": np.ones((4, 2)), "y": np.array([0, 1, 0, 1]), "C": 1.0} | change
    with pytest.raises(ValueError, match=message):
        solve_multiclass(**arguments)


@pytest.mark.parametrize(("rows", "excess"), [(1, 0.01), (5, 0.1)])
def test_scaled_means_are_near_the_optimum_and_their_bounds_hold(rows, excess):
    """What stands for the optimum with thousands of classes, on so few that the optimum can be found."""
    rng = np.random.RandomState(0)
    B = np.column_stack([np.where(rng.rand(200, 64) < 0.5, -1.0, 1.0), np.ones(200)])
    y, s = np.arange(200), np.full(200, float(rows))
    best = solve_multiclass(B, y, 1e-3, tol=1e-3, sample_weight=s)
    W, upper, lower = scaled_means(B, y, s, 200, 1e-3)
    T = B @ W.T
    losses = T - T[y, y][:, None] + 1 - np.eye(200)
    assert upper == pytest.approx(0.5 * np.sum(W * W) + 1e-3 * s @ losses.max(axis=1))
    assert lower <= best.upper
    assert best.lower <= upper <= (1 + excess) * best.upper


def test_more_classes_than_passes_can_take():
    rng = np.random.RandomState(0)
    B, y = np.where(rng.rand(90, 16) < 0.5, -1.0, 1.0), np.arange(90) % 30
    found = solve_multiclass(B, y, 1e-3, settings=SolverSettings(many_classes=20))
    assert (found.n_steps, found.W.shape) == (1, (30, 16))
    assert found.lower <= found.upper
    assert np.mean(np.argmax(B @ found.W.T, axis=1) == y) > 0.5
