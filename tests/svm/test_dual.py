"""Dual coordinate ascent: the bound never falls, the planes stay planes."""

from __future__ import annotations

import numpy as np
import pytest
from svm_problems import assert_true_planes, value_of_planes

from sihash.svm import dual
from sihash.svm.blocks import RowBlocks
from sihash.svm.smooth import _Run
from sihash.svm.smooth_machines import ASCENDED, SmoothMachines
from sihash.threads import team


def after_some_steps(seed, n_steps=2, n=5000, d=12, m=5, C=4.0):
    rng = np.random.RandomState(seed)
    Phi = rng.uniform(size=(n, d)).astype(np.float32)
    Y = np.where(Phi @ rng.normal(size=(d, m)) + 0.5 * rng.normal(size=(n, m)) > 0, 1, -1).astype(np.int8)
    machines = SmoothMachines(RowBlocks.of(Phi, Y=Y), C)
    run = _Run(machines, 1e-3)
    for _ in range(n_steps):
        run.step()
    return machines


@pytest.mark.parametrize("seed", range(4))
def test_a_sweep_raises_the_bound_and_keeps_the_planes_true(seed):
    machines = after_some_steps(seed)
    bits, source = np.arange(machines.m), int(machines.latest[0])
    before = value_of_planes(machines, source)
    with team():
        dual.ascend(machines.rows, machines.bundle, machines.C, bits, source, ASCENDED)
        once = value_of_planes(machines, ASCENDED)
        dual.ascend(machines.rows, machines.bundle, machines.C, bits, ASCENDED, ASCENDED)
    twice = value_of_planes(machines, ASCENDED)
    assert (once >= before - 1e-3).all()
    assert (twice >= once - 1e-3).all()
    assert (once > before).any()
    assert (twice <= machines.upper()).all()
    assert_true_planes(machines)


def test_shares_at_their_bounds_stay():
    machines = after_some_steps(0)
    source = int(machines.latest[0])
    before = machines.rows.column(f"pi{source}")
    dual.ascend(machines.rows, machines.bundle, machines.C, np.arange(machines.m), source, ASCENDED)
    after = machines.rows.column(f"pi{ASCENDED}")
    fixed = (before == 0) | (before == 1)
    np.testing.assert_array_equal(after[fixed], before[fixed])
