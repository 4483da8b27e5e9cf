"""Restored balance: true planes, a far better bound, and nobody moves who was not asked to."""

from __future__ import annotations

import numpy as np
import pytest
from svm_problems import assert_true_planes, value_of_planes

from sihash.kernel import KernelMap
from sihash.svm import balance
from sihash.svm.balance import Balance, strongest_directions
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.smooth import _Run
from sihash.svm.smooth_machines import ASCENDED, SmoothMachines
from sihash.threads import team


def after_steps(n_steps, seed=0, n=8000, d=150, m=5, C=4.0):
    """Machines over kernel features, which all point in much the same direction."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 8)).astype(np.float32)
    Phi = KernelMap(np.zeros(8), X[:d] / np.linalg.norm(X[:d], axis=1)[:, None], 0.8)(X)
    Y = np.where(X @ rng.normal(size=(8, m)) + rng.normal(size=(n, m)) > 0, 1, -1).astype(np.int8)
    machines = SmoothMachines(RowBlocks.of(Phi, Y=Y), C)
    run = _Run(machines, 0.002)
    for _ in range(n_steps):
        run.step()
    return machines


def restored(machines, bits, widest=1):
    """Restore the balance of the last gradient; returns bounds and Vᵀr, each before and after."""
    source, V = int(machines.latest[0]), machines.directions()
    before, inside = value_of_planes(machines, source)[bits], imbalance(machines, source)[bits] @ V
    with team():
        lower = Balance(machines.rows, V, widest).restore(
            machines.bundle, machines.C, bits, inside, source, ASCENDED
        )
    return before, lower, inside, imbalance(machines, ASCENDED)[bits] @ V


def imbalance(machines, slot):
    return machines.W - machines.C * machines.bundle.g[:, :, slot].sum(axis=1)


def test_directions_are_those_of_the_leading_eigenvectors():
    rng = np.random.RandomState(0)
    basis = np.linalg.qr(rng.normal(size=(200, 200)))[0]
    values = 1 + 1e6 / np.arange(1, 201) ** 3
    V = strongest_directions(np.linalg.cholesky((basis * values) @ basis.T).astype(np.float32))
    assert V.shape == (200, balance.N_DIRECTIONS)
    np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-5)
    caught = np.linalg.norm(V.T @ basis, axis=0)
    assert caught[:32].min() > 0.99
    assert np.sum(values * caught**2) > 0.999 * values[: V.shape[1]].sum()
    few = strongest_directions(np.eye(5, dtype=np.float32))
    np.testing.assert_allclose(few @ few.T, np.eye(5), atol=1e-6)


@pytest.mark.parametrize("widest", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_rises_and_the_planes_stay_true(seed, widest, monkeypatch):
    monkeypatch.setattr(balance, "ROWS_PER_DIRECTION", 60)
    machines = after_steps(7, seed)
    before, lower, inside, left = restored(machines, np.arange(machines.m), widest)
    upper = machines.upper()
    assert np.median((upper - lower) / (upper - before)) < 0.4
    assert (lower > before).mean() >= 0.6
    assert (lower <= upper).all()
    np.testing.assert_allclose(lower, value_of_planes(machines, ASCENDED), rtol=1e-9)
    assert np.median(np.sum(left**2, axis=1) / np.sum(inside**2, axis=1)) < 0.4
    assert_true_planes(machines)


def test_only_the_rows_and_bits_that_were_asked_move(monkeypatch):
    monkeypatch.setattr(balance, "ROWS_PER_DIRECTION", 40)
    machines = after_steps(4)
    rows, bits = machines.rows, np.array([1, 3])
    before = rows.column(f"pi{int(machines.latest[0])}")
    untouched = rows.column(f"pi{ASCENDED}")[:, [0, 2, 4]]
    restored(machines, bits, widest=3)
    after = rows.column(f"pi{ASCENDED}")
    np.testing.assert_array_equal(after[:, [0, 2, 4]], untouched)
    moved, start = after[:, bits] != before[:, bits], 0
    assert moved.any(axis=0).all()
    for block in rows:
        here = moved[start : start + block.n]
        assert not here[np.arange(block.n) % 3 != 0].any()
        start += block.n
    at_bounds = (before[:, bits] == 0) | (before[:, bits] == 1)
    assert not moved[at_bounds].any()


def test_where_no_row_is_free_nothing_changes():
    machines = after_steps(2)
    source = int(machines.latest[0])
    for block in machines.rows:
        block[f"pi{source}"][:] = block[f"pi{source}"] > 0.5
    restored(machines, np.arange(machines.m))
    np.testing.assert_array_equal(machines.rows.column(f"pi{ASCENDED}"), machines.rows.column(f"pi{source}"))
    assert np.isfinite(machines.bundle.g).all()


def test_the_loops_are_their_formulas():
    rng = np.random.RandomState(0)
    T, bits = rng.normal(size=(40, 6)).astype(np.float32), np.array([2, 0])
    P = np.clip(rng.normal(0.5, 0.6, size=(40, 3)), 0, 1).astype(np.float32)
    Y = np.where(rng.uniform(size=P.shape) < 0.5, 1, -1).astype(np.int8)
    p, y = P[:, bits].astype(float), Y[:, bits]
    q = 4 * p * (1 - p)
    block = Block(40, 0, pi0=P)
    block.scratch["T"] = T
    curvature = balance._curvature(RowBlocks([block]), bits, 0, 1)
    np.testing.assert_allclose(
        curvature, np.einsum("ij,ia,ib->jab", q, T.astype(float), T.astype(float)), atol=1e-3
    )
    asked, out = rng.normal(size=p.shape).astype(np.float32), P.copy()
    moved = np.clip(p + q * y * asked, 0, 1)
    R = asked.copy()
    total = balance._change(R, P, Y, bits, out)
    np.testing.assert_allclose(R, (moved - p) * y, atol=1e-6)
    np.testing.assert_allclose(total, (moved - p).sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(out[:, bits], moved, atol=1e-6)
    np.testing.assert_array_equal(out[:, 1], P[:, 1])


def test_a_small_change_is_certified_without_a_step():
    machines = after_steps(0, n=6000)
    run = _Run(machines, 0.05)
    while len(run.bits):
        run.step()
    run.put_back()
    run.finish()
    n_bits = machines.m
    # As many rows as before, but some with their signs turned: what was balanced no longer is.
    block = machines.rows.blocks[0]
    turned = np.arange(0, block.n, 400)
    own = np.arange(machines.bundle.n_groups) == block.group
    sums = machines.snapshot().turn(block, turned, -block["Y"][turned])
    machines.count([np.multiply.outer(own, each) for each in sums])
    again = _Run(machines, 0.05)
    assert again.n_taken == 0
    assert len(again.bits) < n_bits
    truth = machines.C * np.maximum(
        1 - machines.rows.column("Y") * (machines.rows.column("Phi") @ machines.W.T), 0
    ).sum(axis=0) + 0.5 * np.sum(machines.W**2, axis=1)
    np.testing.assert_allclose(again.upper, truth, rtol=1e-4)
    assert (again.lower <= truth).all()
