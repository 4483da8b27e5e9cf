"""Equal and opposite columns are solved once, and all that is kept of them is as good as their own."""

import numpy as np
import pytest
from svm_problems import assert_certificate, assert_planes_below_risk, problem

from sihash.svm import smooth
from sihash.svm.blocks import RowBlocks
from sihash.svm.repeats import find_repeats
from sihash.svm.smooth_machines import SmoothMachines


def repeated(n=400, d=12, seed=0):
    """Five columns over two problems: the first, its copy, its opposite, the second and its opposite."""
    Phi, Y = problem(n, d, 2, noise=1.5, seed=seed)
    return Phi, np.ascontiguousarray(np.column_stack([Y[:, 0], Y[:, 0], -Y[:, 0], Y[:, 1], -Y[:, 1]]))


def solved(Phi, Y, tol=0.01):
    machines = SmoothMachines(RowBlocks.of(Phi, n_groups=3, Y=Y.copy()), 1.0)
    return smooth.solve(machines, tol, words=np.unique(Y, axis=0))


@pytest.mark.parametrize("seed", range(3))
def test_repeats_take_no_steps_and_have_the_certificate_of_their_leader(seed):
    Phi, Y = repeated(seed=seed)
    solution = solved(Phi, Y)
    assert_certificate(solution, Phi, Y, 1.0, 0.01)
    assert np.all(solution.n_steps[[0, 3]] > 0)
    assert np.all(solution.n_steps[[1, 2, 4]] == 0)
    np.testing.assert_array_equal(solution.W[[0, 0, 3]], solution.W[[1, 2, 4]] * [[1], [-1], [-1]])
    alone = smooth.solve(SmoothMachines(RowBlocks.of(Phi, n_groups=3, Y=Y.copy()), 1.0), 0.01)
    # When a proof is tried depends on how many other bits are open: the ways differ, the certificates hold.
    assert np.all(solution.lower <= alone.upper)
    assert np.all(alone.lower <= solution.upper)
    np.testing.assert_allclose(solution.history.upper[-1], solution.upper)


def test_the_planes_of_repeats_lie_below_their_risk():
    Phi, Y = repeated()
    machines = solved(Phi, Y).warm
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 10.0):
        assert_planes_below_risk(machines, machines.W + scale * rng.standard_normal(machines.W.shape))
    assert_planes_below_risk(machines, machines.W)


def test_repeats_may_part_and_each_goes_its_own_way():
    """A warm start in which rows change sign for one of two repeats: both end certified, and apart."""
    Phi, Y = repeated()
    machines = solved(Phi, Y).warm
    snapshot, block = machines.snapshot(), machines.rows.blocks[0]
    rows, wanted = np.arange(40), Y[:40].copy()
    wanted[:, 1] *= -1
    only = RowBlocks([block], machines.rows.store)
    machines.count(only.by_group(machines.bundle.n_groups, snapshot.turn, rows, wanted))
    Y[:40] = wanted
    again = smooth.solve(machines, 0.01, words=np.unique(Y, axis=0))
    assert_certificate(again, Phi, Y, 1.0, 0.01)
    assert not np.array_equal(again.W[0], again.W[1])
    assert_planes_below_risk(machines, machines.W)


def test_repeats_of_bits_that_need_no_step_leave_the_twin_alone():
    """The leaders are certified anew as they are; what repeats take over goes to no shared array."""
    Phi, Y = problem(6000, 60, 2, noise=6.0)
    Y = np.ascontiguousarray(np.column_stack([Y, -Y]))
    machines = solved(Phi, Y, 0.1).warm
    before = {name: machines.rows.column(name) for name in machines.row_arrays()}
    twin = machines.copy()
    block = twin.rows.blocks[-1]
    last = np.arange(block.n - 30, block.n)
    only = RowBlocks([block], twin.rows.store)
    twin.count(only.by_group(twin.bundle.n_groups, twin.snapshot().leave, last), -1)
    block.drop(last)
    assert not twin.closed(twin.upper(), twin.lower(), 0.1).any()
    solution = smooth.solve(twin, 0.1, words=np.unique(Y, axis=0))
    assert not solution.n_steps.any()
    assert_certificate(solution, Phi[:-30], Y[:-30], 1.0, 0.1)
    for name, values in before.items():
        np.testing.assert_array_equal(machines.rows.column(name), values)


def test_only_equal_columns_with_equal_weights_are_repeats():
    words = np.array([[1, 1, -1, 1], [1, 1, -1, -1], [-1, -1, 1, 1]], dtype=np.int8)
    W = np.zeros((4, 2))
    repeats = find_repeats(words, W, np.arange(4))
    assert (repeats.bits.tolist(), repeats.leaders.tolist(), repeats.signs.tolist()) == (
        [1, 2],
        [0, 0],
        [1, -1],
    )
    W[1] = 1
    assert find_repeats(words, W, np.arange(4)).bits.tolist() == [2]
    assert find_repeats(words, W, np.array([1, 3])).bits.tolist() == []
