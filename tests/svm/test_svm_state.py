"""What outlives changes: sums, planes and bounds after any sequence of row changes are those of the rows."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from svm_problems import (
    METHODS,
    ROUNDING,
    SVMS,
    assert_planes_below_risk,
    assert_solved,
    blocks_with_room,
    hinge_risk,
    planes_from_shares,
    problem,
)

from sihash.svm import ocas, smooth
from sihash.svm.binary import solve_svms
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.smooth import SmoothSVMs
from sihash.svm.svm_state import add_arrays

D, M_BITS, C = 4, 3, 2.0


def enter(svms, block, rows):
    svms.count(RowBlocks([block]).total(svms.counter().enter, rows))


def leave(svms, block, rows):
    svms.count(RowBlocks([block]).total(svms.counter().leave, rows), -1)


def few_steps(svms, tol, max_steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return (smooth if isinstance(svms, SmoothSVMs) else ocas).solve(svms, tol, max_steps=max_steps)


def all_rows(svms):
    return svms.rows.column("Phi"), svms.rows.column("Y")


def assert_consistent(svms, rng):
    """Sums are those that the rows give: by the slow, obvious way."""
    Phi, Y = all_rows(svms)
    close = {"atol": ROUNDING * (10 + len(Phi)), "rtol": 1e-4}
    np.testing.assert_allclose(svms.risk, hinge_risk(svms.W, Phi, Y), atol=1e-3, rtol=1e-4)
    if isinstance(svms, SmoothSVMs):
        u = 1 - Y * (Phi.astype(float) @ svms.W.T)
        p = np.clip(0.5 + u / svms.width, 0, 1)
        np.testing.assert_allclose(svms.g, (p * Y).T @ Phi, **close)
        smoothed = np.where(np.abs(u) < svms.width / 2, svms.width / 2 * p**2, np.maximum(u, 0))
        np.testing.assert_allclose(svms.price, smoothed.sum(axis=0) - svms.risk, atol=1e-3)
        np.testing.assert_allclose(svms.tilt, svms.risk - (p * u).sum(axis=0) - svms.price, atol=2e-3)
        np.testing.assert_allclose(svms.spread, (p * (1 - p)).sum(axis=0), **close)
    else:
        g, a = planes_from_shares(svms)
        np.testing.assert_allclose(svms.bundle.a, a, **close)
        np.testing.assert_allclose(svms.bundle.g, g, **close)
        for scale in (0.1, 1, 10):
            assert_planes_below_risk(svms, scale * rng.standard_normal(svms.W.shape))
        assert_planes_below_risk(svms, svms.W)


class Changes:
    """The changes that a collection goes through, done to svms as the learner does them."""

    def __init__(self, method, rng):
        self.rng = rng
        Phi, Y = self.new_rows(20)
        rows = blocks_with_room(Phi, Y, sizes=(12, 8), room=6)
        self.svms = SVMS[method](rows, C)

    def new_rows(self, n):
        Phi = np.column_stack([self.rng.standard_normal((n, D - 1)), np.ones(n)]).astype(np.float32)
        noise = self.rng.standard_normal((n, M_BITS))
        return Phi, np.where(Phi[:, :M_BITS] + noise > 0, 1, -1).astype(np.int8)

    def some(self, block):
        return np.flatnonzero(self.rng.uniform(size=block.n) < self.rng.choice([0.1, 0.5]))

    def a_block(self):
        return self.svms.rows.blocks[self.rng.randint(len(self.svms.rows.blocks))]

    def append(self):
        block = self.a_block()
        Phi, Y = self.new_rows(self.rng.randint(block.room + 1))
        first = block.n
        block.append({"Phi": Phi, "Y": Y})
        enter(self.svms, block, slice(first, block.n))

    def drop(self):
        block = self.a_block()
        rows = self.some(block)
        leave(self.svms, block, rows)
        block.drop(rows)

    def flip(self):
        self.svms.before_sign_flip()
        block = self.a_block()
        rows = self.some(block)
        leave(self.svms, block, rows)
        block.arrays["Y"] = block.arrays["Y"].copy()
        block["Y"][rows] *= self.rng.choice([-1, 1], (len(rows), M_BITS)).astype(np.int8)
        enter(self.svms, block, rows)

    def new_block(self):
        Phi, Y = self.new_rows(5)
        block = Block(0, Phi=np.zeros((9, D), np.float32), Y=np.zeros((9, M_BITS), np.int8))
        add_arrays(RowBlocks([block]), self.svms.row_arrays())
        self.svms.rows.blocks.append(block)
        block.append({"Phi": Phi, "Y": Y})
        enter(self.svms, block, slice(0, 5))

    def drop_block(self):
        """All rows of a block go, and it with them."""
        rows, block = self.svms.rows, self.a_block()
        if len(rows) > block.n:
            leave(self.svms, block, np.arange(block.n))
            block.n = 0
            rows.tidy()

    def solve(self):
        if len(self.svms.rows):
            few_steps(self.svms, 0.01, int(self.rng.choice([1, 3, 300])))

    def twin(self):
        self.svms = self.svms.copy()


CHANGES = ("append", "drop", "flip", "new_block", "drop_block", "solve", "twin")


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 10**6), sequence=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=10))
@settings(max_examples=25)
def test_after_any_changes_sums_are_those_of_the_rows(method, seed, sequence):
    rng = np.random.RandomState(seed)
    changes = Changes(method, rng)
    few_steps(changes.svms, 0.05, 300)
    for change in sequence:
        getattr(changes, change)()
        assert_consistent(changes.svms, rng)
    svms = changes.svms
    Phi, Y = all_rows(svms)
    if not len(Phi):
        return
    if method == "ocas":
        tight = few_steps(SVMS[method](RowBlocks.of(Phi, Y=Y.copy()), C), 1e-3, 300)
        slack = ROUNDING * C * len(Phi)
        assert np.all(svms.lower() <= tight.upper + slack), "before a step is taken the bounds hold already"
        assert np.all(tight.lower <= svms.upper() + slack)
    assert_solved(few_steps(svms, 0.01, 300), Phi, Y, C, 0.01)


@pytest.mark.parametrize("method", METHODS)
def test_added_then_removed_is_as_before(method):
    Phi, Y = problem(40, D, M_BITS)
    svms = SVMS[method](blocks_with_room(Phi, Y, (25, 15), room=30), C)
    solve_svms(svms, 0.01)
    upper = svms.upper()
    more_Phi, more_Y = problem(30, D, M_BITS, seed=1)
    block = svms.rows.blocks[0]
    block.append({"Phi": more_Phi, "Y": more_Y})
    enter(svms, block, slice(25, 55))
    assert np.all(svms.upper() >= upper)
    leave(svms, block, np.arange(25, 55))
    block.drop(np.arange(25, 55))
    np.testing.assert_allclose(svms.upper(), upper, rtol=1e-5)
    assert not solve_svms(svms, 0.01).n_steps.any()


@pytest.mark.parametrize("method", METHODS)
def test_a_twin_that_is_thrown_away_leaves_no_trace(method):
    Phi, Y = problem(60, D, M_BITS)
    svms = SVMS[method](blocks_with_room(Phi, Y, (40, 20), room=20), C)
    before = solve_svms(svms, 0.01)
    twin = svms.copy()
    block = twin.rows.blocks[0]
    leave(twin, block, np.arange(5, 30))
    block.drop(np.arange(5, 30))
    solve_svms(twin, 0.001)
    # The rows may lie in another order now, together with their shares.
    assert_consistent(svms, np.random.RandomState(0))
    np.testing.assert_array_equal(svms.W, before.W)
    after = solve_svms(svms, 0.01)
    assert not after.n_steps.any()
    np.testing.assert_allclose(after.upper, before.upper)


@pytest.mark.parametrize("method", METHODS)
def test_state_is_all_that_is_needed(method):
    Phi, Y = problem(300, 6, M_BITS)
    svms = SVMS[method](RowBlocks.of(Phi, Y=Y), C)
    solution = solve_svms(svms, 0.01)
    restored = SVMS[method](RowBlocks.of(Phi, Y=Y), C)
    restored.set_state(svms.state())
    assert_consistent(restored, np.random.RandomState(0))
    again = solve_svms(restored, 0.01)
    assert not again.n_steps.any()
    np.testing.assert_array_equal(again.W, solution.W)
    np.testing.assert_allclose(again.upper, solution.upper, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_columns_come_and_go(method):
    Phi, Y = problem(300, 6, M_BITS)
    more = problem(300, 3, M_BITS, seed=1)[0][:, :2]
    kept, at = np.array([0, 2, 3, 5]), 3
    after = np.ascontiguousarray(np.column_stack([Phi[:, kept[:at]], more, Phi[:, kept[at:]]]))
    svms = SVMS[method](RowBlocks.of(Phi, Y=Y), C)
    solve_svms(svms, 0.01)

    def with_columns(block, store):
        changed = block.copy()
        changed.arrays["Phi"] = after
        return changed

    changed = svms.with_columns(svms.rows.derive(with_columns), kept, at, 2)
    if method == "ocas":
        assert changed.bundle.is_cut().any(), "planes are kept"
        assert_consistent(changed, np.random.RandomState(0))
    assert_solved(solve_svms(changed, 0.01), after, Y, C, 0.01)
    assert_consistent(changed, np.random.RandomState(0))
    assert_consistent(svms, np.random.RandomState(0))
