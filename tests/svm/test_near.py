"""Rows near the margin follow steps of a few bits: nobody else moves, and planes stay true."""

from __future__ import annotations

import numpy as np
import pytest
from svm_problems import assert_true_planes
from test_balance import after_steps, imbalance, running

from sihash.svm import near, proof
from sihash.svm.balance import DualPoint
from sihash.svm.proof import Bounds, Proof
from sihash.svm.quasi_newton import QuasiNewton
from sihash.svm.smooth_machines import ASCENDED
from sihash.threads import team


def point_of(machines, bits, slots):
    u, value = machines.bundle.point(machines.C, bits, slots)
    return DualPoint(bits, bits, slots, machines.W[bits] - u, value)


def shares_of(machines, slot):
    return machines.rows.column(f"pi{slot}")


def test_only_rows_near_the_margin_follow_and_as_far_as_the_step_leads(monkeypatch):
    monkeypatch.setattr(Proof, "seek", lambda *_: None)
    machines = after_steps(2)
    bits = np.array([3, 1])
    slots, width = machines.latest[bits], machines.width[bits]
    before = np.column_stack([shares_of(machines, slot)[:, j] for j, slot in zip(bits, slots, strict=True)])
    others = np.setdiff1d(np.arange(machines.m), bits)
    untouched = shares_of(machines, ASCENDED)[:, others]
    step = np.random.RandomState(0).normal(scale=0.02, size=(2, machines.rows.n_features))
    with team():
        near.follow(machines, point_of(machines, bits, slots), step)
    Phi, Y = machines.rows.column("Phi"), machines.rows.column("Y")[:, bits]
    Z = np.concatenate([block.scratch["Z"] for block in machines.rows.blocks])[:, bits]
    # The shares are those of the margins here, so a row stands where its margin is.
    moved = np.clip(0.5 + (1 - Z - Y * (Phi @ step.T)) / width, 0, 1)
    is_near = np.abs(Z - 1) < near.REACH * width
    after = shares_of(machines, ASCENDED)[:, bits]
    edge = np.abs(np.abs(Z - 1) - near.REACH * width) < 1e-5
    assert 0.02 < is_near.mean() < 0.9
    np.testing.assert_allclose(after[~edge], np.where(is_near, moved, before)[~edge], atol=2e-4)
    np.testing.assert_array_equal(shares_of(machines, ASCENDED)[:, others], untouched)
    assert_true_planes(machines)


def test_a_block_with_nobody_near_adds_nothing(monkeypatch):
    monkeypatch.setattr(Proof, "seek", lambda *_: None)
    machines = after_steps(2)
    bits = np.arange(2)
    block = machines.rows.blocks[0]
    block.scratch["Z"][:], block[f"pi{machines.latest[0]}"][:] = 9, 0
    g, total = near._follow(
        block, np.ones((2, 150), np.float32), bits, machines.latest[bits], bits, np.full(2, 0.5, np.float32)
    )
    assert not g.any()
    assert not total.any()


def test_several_steps_leave_little_outside_the_directions(monkeypatch):
    """And what they show of the curvature is remembered."""
    monkeypatch.setattr(Proof, "seek", lambda *_: None)
    machines = after_steps(1, n=12_000, d=300, noise=2.0, tol=0.05)
    seeker = Proof(machines, Bounds.of(machines, 0.05), QuasiNewton(machines))
    bits, moving = np.arange(3), np.array([0, 2])
    point = point_of(machines, bits, machines.latest[bits])
    first, known = seeker._outside(point.r), np.count_nonzero(machines.rho[bits])
    with team():
        after = seeker._follow_near(point, np.isin(bits, moving), np.ones((3, 1)))
    left = seeker._outside(after.r)
    assert (left[moving] < 0.4 * first[moving]).all()
    assert left[1] == first[1]
    np.testing.assert_array_equal(seeker._outside(point.r), first, "the point it came from is as it was")
    np.testing.assert_array_equal(after.slots, [ASCENDED, point.slots[1], ASCENDED])
    np.testing.assert_allclose(after.r[moving], imbalance(machines, ASCENDED)[moving])
    assert np.count_nonzero(machines.rho[bits]) > known
    assert_true_planes(machines)


@pytest.mark.parametrize("seed", range(3))
def test_bits_that_others_left_behind_are_certified_all_the_same(seed, monkeypatch):
    """With it the last bits take no more steps than without."""
    steps = []
    for few in (0, proof.FEW_BITS):
        monkeypatch.setattr(proof, "FEW_BITS", few)
        run = running(seed, n=12_000, m=8, tol=0.01)
        while len(run.bits):
            run.step()
        run.put_back()
        solution = run.finish()
        assert solution.converged.all()
        assert (solution.upper - solution.lower <= 0.01 * solution.upper * (1 + 1e-9)).all()
        steps.append(solution.n_steps.sum())
    assert steps[1] <= steps[0]
