"""Certificates that outlive changes: planes, risk and bounds after any sequence of row changes."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from svm_problems import (
    MACHINES,
    METHODS,
    ROUNDING,
    assert_certificate,
    assert_planes_below_risk,
    blocks_with_room,
    hinge_risk,
    planes_from_shares,
    problem,
)

from sihash.svm import ocas, smooth
from sihash.svm.binary import solve_machines
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.counting import add_arrays
from sihash.svm.smooth_machines import SmoothMachines

D, M_BITS, C = 4, 3, 2.0


def enter(machines, block, rows):
    machines.bundle.grow(block.group + 1)
    snapshot, n_groups = machines.snapshot(), machines.bundle.n_groups
    machines.count(RowBlocks([block]).by_group(n_groups, snapshot.enter, rows))


def leave(machines, block, rows):
    snapshot, n_groups = machines.snapshot(), machines.bundle.n_groups
    machines.count(RowBlocks([block]).by_group(n_groups, snapshot.leave, rows), -1)


def few_steps(machines, tol, max_steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return (smooth if isinstance(machines, SmoothMachines) else ocas).solve(machines, tol, max_steps)


def all_rows(machines):
    return machines.rows.column("Phi"), machines.rows.column("Y")


def assert_consistent(machines, rng):
    """Planes and risk are those that the rows and their shares give, and no plane rises above the risk."""
    Phi, Y = all_rows(machines)
    n = len(Phi)
    g, a = planes_from_shares(machines)
    np.testing.assert_allclose(machines.bundle.a, a, atol=ROUNDING * (10 + n))
    np.testing.assert_allclose(machines.bundle.g, g, atol=ROUNDING * (10 + n))
    np.testing.assert_allclose(machines.risk, hinge_risk(machines.W, Phi, Y), rtol=1e-4, atol=1e-3)
    for block in machines.rows:
        np.testing.assert_allclose(machines.snapshot().scores(block), block["Phi"] @ machines.W.T, atol=1e-3)
    for scale in (0.1, 1, 10):
        assert_planes_below_risk(machines, scale * rng.standard_normal(machines.W.shape))
    assert_planes_below_risk(machines, machines.W)


class Changes:
    """The changes that a collection goes through, done to machines as the learner does them."""

    def __init__(self, method, rng):
        self.rng = rng
        Phi, Y = self.new_rows(20)
        rows = blocks_with_room(Phi, Y, sizes=(12, 8), groups=(0, 1), room=6)
        self.machines = MACHINES[method](rows, C)

    def new_rows(self, n):
        Phi = np.column_stack([self.rng.standard_normal((n, D - 1)), np.ones(n)]).astype(np.float32)
        noise = self.rng.standard_normal((n, M_BITS))
        return Phi, np.where(Phi[:, :M_BITS] + noise > 0, 1, -1).astype(np.int8)

    def some(self, block):
        return np.flatnonzero(self.rng.uniform(size=block.n) < self.rng.choice([0.1, 0.5]))

    def a_block(self):
        return self.machines.rows.blocks[self.rng.randint(len(self.machines.rows.blocks))]

    def append(self):
        block = self.a_block()
        Phi, Y = self.new_rows(self.rng.randint(block.room + 1))
        first = block.n
        block.append({"Phi": Phi, "Y": Y})
        enter(self.machines, block, slice(first, block.n))

    def drop(self):
        block = self.a_block()
        rows = self.some(block)
        leave(self.machines, block, rows)
        block.drop(rows)

    def flip(self):
        self.machines.own_arrays()
        block = self.a_block()
        rows = self.some(block)
        leave(self.machines, block, rows)
        block.arrays["Y"] = block.arrays["Y"].copy()
        block["Y"][rows] *= self.rng.choice([-1, 1], (len(rows), M_BITS)).astype(np.int8)
        enter(self.machines, block, rows)

    def new_block(self):
        Phi, Y = self.new_rows(5)
        group = self.rng.randint(4)
        block = Block(0, group, Phi=np.zeros((9, D), np.float32), Y=np.zeros((9, M_BITS), np.int8))
        add_arrays(RowBlocks([block]), self.machines.row_arrays())
        self.machines.rows.blocks.append(block)
        block.append({"Phi": Phi, "Y": Y})
        enter(self.machines, block, slice(0, 5))

    def drop_group(self):
        """All rows of a group go, and its planes with them."""
        rows = self.machines.rows
        group = self.a_block().group
        if len({block.group for block in rows}) == 1:
            return
        for block in rows:
            if block.group == group:
                leave(self.machines, block, np.arange(block.n))
        rows.blocks = [block for block in rows if block.group != group]
        self.machines.bundle.empty_groups([group])

    def solve(self):
        if len(self.machines.rows):
            few_steps(self.machines, 0.01, int(self.rng.choice([1, 3, 300])))

    def twin(self):
        self.machines = self.machines.copy()


CHANGES = ("append", "drop", "flip", "new_block", "drop_group", "solve", "twin")


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 10**6), sequence=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=10))
@settings(max_examples=25, deadline=None)
def test_after_any_changes_planes_and_bounds_are_those_of_the_rows(method, seed, sequence):
    rng = np.random.RandomState(seed)
    changes = Changes(method, rng)
    few_steps(changes.machines, 0.05, 300)
    for change in sequence:
        getattr(changes, change)()
        assert_consistent(changes.machines, rng)
    machines = changes.machines
    Phi, Y = all_rows(machines)
    if not len(Phi):
        return
    cold = MACHINES[method](RowBlocks.of(Phi, Y=Y.copy()), C)
    tight = few_steps(cold, 1e-3, 300)
    slack = ROUNDING * C * len(Phi)
    assert np.all(machines.lower() <= tight.upper + slack), "before a step is taken the bounds hold already"
    assert np.all(tight.lower <= machines.upper() + slack)
    again = few_steps(machines, 0.01, 300)
    assert_certificate(again, Phi, Y, C, 0.01)
    assert np.all(again.lower <= tight.upper + slack)
    assert np.all(tight.lower <= again.upper + slack)


@pytest.mark.parametrize("method", METHODS)
def test_added_then_removed_is_as_before(method):
    Phi, Y = problem(40, D, M_BITS)
    machines = MACHINES[method](blocks_with_room(Phi, Y, (25, 15), (0, 1), room=30), C)
    solve_machines(machines, 0.01)
    upper, lower = machines.upper(), machines.lower()
    more_Phi, more_Y = problem(30, D, M_BITS, seed=1)
    block = machines.rows.blocks[0]
    block.append({"Phi": more_Phi, "Y": more_Y})
    enter(machines, block, slice(25, 55))
    assert np.all(machines.upper() >= upper)
    leave(machines, block, np.arange(25, 55))
    block.drop(np.arange(25, 55))
    np.testing.assert_allclose(machines.upper(), upper, rtol=1e-5)
    np.testing.assert_allclose(machines.lower(), lower, rtol=1e-3)
    assert not solve_machines(machines, 0.01).n_steps.any()


@pytest.mark.parametrize("method", METHODS)
def test_a_twin_that_is_thrown_away_leaves_no_trace(method):
    Phi, Y = problem(60, D, M_BITS)
    machines = MACHINES[method](blocks_with_room(Phi, Y, (40, 20), (0, 1), room=20), C)
    before = solve_machines(machines, 0.01)
    twin = machines.copy()
    block = twin.rows.blocks[0]
    leave(twin, block, np.arange(5, 30))
    block.drop(np.arange(5, 30))
    solve_machines(twin, 0.001)
    # The rows may lie in another order now, together with their shares.
    assert_consistent(machines, np.random.RandomState(0))
    np.testing.assert_array_equal(machines.W, before.W)
    after = solve_machines(machines, 0.01)
    assert not after.n_steps.any()
    np.testing.assert_allclose(after.upper, before.upper)


@pytest.mark.parametrize("method", METHODS)
def test_state_is_all_that_is_needed(method):
    Phi, Y = problem(300, 6, M_BITS)
    machines = MACHINES[method](RowBlocks.of(Phi, Y=Y), C)
    solution = solve_machines(machines, 0.01)
    restored = MACHINES[method](RowBlocks.of(Phi, Y=Y), C)
    restored.set_state(machines.state())
    assert_consistent(restored, np.random.RandomState(0))
    again = solve_machines(restored, 0.01)
    assert not again.n_steps.any()
    np.testing.assert_array_equal(again.W, solution.W)
    np.testing.assert_allclose(again.upper, solution.upper, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_scores_follow_weights_taken_from_other_rows(method):
    """Also those of a bit that is done before its first step, as one with a constant column is."""
    Phi, Y = problem(6000, D, 2)
    Y[:, 0] = 1
    first = MACHINES[method](RowBlocks.of(Phi, Y=Y), 200.0)
    solve_machines(first, 0.01)
    other_Phi, _ = problem(6000, D, 2, seed=1)
    second = MACHINES[method](RowBlocks.of(other_Phi, Y=Y), 200.0)
    second.start_from(first)
    solve_machines(second, 0.01)
    for block in second.rows:
        np.testing.assert_allclose(second.snapshot().scores(block), block["Phi"] @ second.W.T, atol=1e-3)
