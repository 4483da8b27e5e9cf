"""Restored balance: true planes, a far better bound, and nobody moves who was not asked to."""

from __future__ import annotations

import numpy as np
import pytest
from svm_problems import assert_true_planes, value_of_planes

from sihash.kernel import KernelMap
from sihash.svm import balance, proof, shared_hessian
from sihash.svm.balance import FEW_MOVE, Balance, DualPoint, spacing
from sihash.svm.blocks import RowBlocks
from sihash.svm.proof import DIRECTIONS, Bounds, Proof
from sihash.svm.smooth import _Run
from sihash.svm.smooth_machines import ASCENDED, SmoothMachines
from sihash.threads import team


def running(seed=0, n=8000, d=150, m=5, C=4.0, noise=1.0, tol=0.002):
    """A solve over kernel features, which all point in much the same direction."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 8)).astype(np.float32)
    Phi = KernelMap(np.zeros(8), X[:d] / np.linalg.norm(X[:d], axis=1)[:, None], 0.8)(X)
    Y = np.where(X @ rng.normal(size=(8, m)) + noise * rng.normal(size=(n, m)) > 0, 1, -1).astype(np.int8)
    return _Run(SmoothMachines(RowBlocks.of(Phi, Y=Y), C), tol)


def after_steps(n_steps, seed=0, **problem):
    run = running(seed, **problem)
    for _ in range(n_steps):
        run.step()
    assert len(run.bits) == run.M.m, "the blocks hold margins of open bits only"
    return run.M


def restored(machines, bits, widest=1, step=None, n_directions=DIRECTIONS):
    """Restore the balance of the last gradient; returns bounds and Vᵀr, each before and after."""
    slots, V = machines.latest[bits], machines.directions()[:, :n_directions]
    u, before = machines.bundle.point(machines.C, bits, slots)
    point = DualPoint(bits, bits, slots, machines.W[bits] - u, before)
    step = np.zeros_like(u) if step is None else step
    with team():
        balance = Balance(machines.rows, machines.directions(), widest)
        lower = balance.restore(machines, point, n_directions, step, np.zeros(len(bits)))
    return before, lower, point.r @ V, imbalance(machines, ASCENDED)[bits] @ V


def imbalance(machines, slot):
    return machines.W - machines.C * machines.bundle.g[:, :, slot].sum(axis=1)


@pytest.mark.parametrize("widest", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_rises_and_the_planes_stay_true(seed, widest, monkeypatch):
    monkeypatch.setattr(Proof, "seek", lambda *_: None)
    machines = after_steps(7, seed)
    before, lower, inside, left = restored(machines, np.arange(machines.m), widest)
    upper = machines.upper()
    assert np.median((upper - lower) / (upper - before)) < 0.5
    assert (lower > before).mean() >= 0.6
    assert (lower <= upper).all()
    np.testing.assert_allclose(lower, value_of_planes(machines, ASCENDED), rtol=1e-9)
    assert np.median(np.sum(left**2, axis=1) / np.sum(inside**2, axis=1)) < 0.4
    assert_true_planes(machines)


@pytest.mark.parametrize("widest", [1, 2, 3])
def test_rows_that_follow_a_step_do_so_for_all(widest, monkeypatch):
    """What lies outside the directions becomes as little as if all rows had moved."""
    monkeypatch.setattr(Proof, "seek", lambda *_: None)
    run = running(n=16_000, C=16.0, noise=3.0, tol=0.1)
    for _ in range(3):
        run.step()
    machines, bits = run.M, run.bits
    source, V = int(machines.latest[0]), machines.directions()[:, :DIRECTIONS]

    def outside(slot):
        r = imbalance(machines, slot)
        return np.sum(r**2, axis=1) - np.sum((r @ V) ** 2, axis=1)

    restored(machines, bits, widest)
    assert np.median(outside(ASCENDED) / outside(source)) > 0.8, "nobody follows"
    restored(machines, bits, widest, run.steps.direction(bits, imbalance(machines, source)))
    assert np.median(outside(ASCENDED) / outside(source)) < 0.4
    assert_true_planes(machines)


def test_only_the_rows_and_bits_that_were_asked_move():
    machines = after_steps(4)
    rows, bits = machines.rows, np.array([1, 3])
    before = rows.column(f"pi{int(machines.latest[0])}")
    untouched = rows.column(f"pi{ASCENDED}")[:, [0, 2, 4]]
    step = -0.1 * machines.W[bits]
    restored(machines, bits, 6, step)
    after = rows.column(f"pi{ASCENDED}")
    np.testing.assert_array_equal(after[:, [0, 2, 4]], untouched)
    moved, start = after[:, bits] != before[:, bits], 0
    assert moved.any(axis=0).all()
    for block in rows:
        here = moved[start : start + block.n]
        assert here[0::6].any(), "rows that balance"
        assert here[3::6].any(), "rows that follow"
        assert not here[~np.isin(np.arange(block.n) % 6, (0, 3))].any()
        start += block.n


def test_other_rows_follow_each_time_and_never_those_that_balance():
    for every in range(2, 16):
        balance = Balance(RowBlocks([]), np.zeros((4, 2)), every)
        firsts = [balance._first_follower() for _ in range(every - 1)]
        assert sorted(firsts) == list(range(1, every))
    assert Balance(RowBlocks([]), np.zeros((4, 2)), 1)._first_follower() == 0


def test_where_few_rows_are_free_more_of_them_move():
    free = 0, 400, 1200, 4600, 10**6
    assert [spacing(FEW_MOVE, n, 64, 1000) for n in free] == [1, 1, 2, 9, 15]
    assert [spacing(FEW_MOVE, n, 64, 0) for n in free] == [1, 1, 3, 9, 15]


def test_where_no_row_is_free_the_planes_stay_true():
    machines = after_steps(2)
    source = int(machines.latest[0])
    for block in machines.rows:
        block[f"pi{source}"][:] = block[f"pi{source}"] > 0.5
    g = np.zeros_like(machines.bundle.g[:, :, source])
    for block in machines.rows:
        g[:, block.group] += (block[f"pi{source}"] * block["Y"]).T @ block["Phi"].astype(float)
    machines.bundle.g[:, :, source] = g
    machines.bundle.a[:, :, source] = 0
    for block in machines.rows:
        machines.bundle.a[:, block.group, source] += block[f"pi{source}"].sum(axis=0)
    restored(machines, np.arange(machines.m))
    assert_true_planes(machines)


def test_rows_are_projected_once(monkeypatch):
    """A later solve finds T, for as many rows or fewer, until the rows or the directions are others."""
    machines = after_steps(3)
    restored(machines, np.arange(machines.m), 3)
    block, V = machines.rows.blocks[0], machines.directions()
    np.testing.assert_allclose(block.projection.T, block["Phi"][::3] @ V, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(block.copy().projection.at(V.copy(), 15), block.projection.T[::5])
    assert block.projection.at(V, 2) is None
    assert block.projection.at(V + 1, 3) is None
    monkeypatch.setattr(balance, "Projection", None)  # what a new one would be put into
    restored(machines, np.arange(machines.m), 3)
    twin = block.copy()
    twin.drop(np.array([0]))
    assert twin.projection is None
    assert block.projection is not None


@pytest.mark.parametrize("few", [0, 8], ids=["many", "few"])
@pytest.mark.parametrize("bits", [[2, 0], [0, 1, 2]], ids=["some", "all"])
def test_the_loops_are_their_formulas(few, bits, monkeypatch):
    monkeypatch.setattr(balance, "FEW", few)
    rng = np.random.RandomState(0)
    n, k, m, every = 40, 6, len(bits), 2
    T, bits, columns = rng.normal(size=(n, k)).astype(np.float32), np.array(bits), np.arange(m)
    width = np.array([0.5, 0.3, 0.4], np.float32)[:m]
    P = np.clip(rng.normal(0.5, 0.6, size=(every * n, 3)), 0, 1).astype(np.float32)
    Y = np.where(rng.uniform(size=P.shape) < 0.5, 1, -1).astype(np.int8)
    Z = rng.normal(1, 0.5, size=(every * n, m))
    p, y, z = P[1::every, bits].astype(float), Y[1::every, bits], Z[1::every]
    margin = np.where(p <= 0, np.maximum(z, 1 + width / 2), np.minimum(z, 1 - width / 2))
    margin = np.where((p > 0) & (p < 1), 1 + (0.5 - p) * width, margin)
    M, shares, sign = np.empty((3, n, m), np.float32)
    balance._set_out(1, every, Z.astype(np.float32), columns, P, Y, bits, width, M, shares, sign)
    np.testing.assert_allclose(M, margin, atol=1e-5)
    np.testing.assert_array_equal(shares, P[1::every, bits])
    np.testing.assert_array_equal(sign, y)

    rows = RowBlocks([])
    rows.scratch = {"T": T, "M": M.copy(), "shares": shares, "sign": sign}
    near = np.abs(1 - M.astype(float)) < width / 2
    curvature = np.einsum("ij,ia,ib->jab", near / width, T.astype(float), T.astype(float))
    for few in (k, k - 2):
        found = balance._curvature(rows, columns, width, few)
        np.testing.assert_allclose(found, curvature[:, :few, :few], rtol=1e-4, atol=1e-3)
    a = rng.normal(size=(m, k)).astype(np.float32)
    moved = np.clip(0.5 + (1 - M - sign * (T @ a.T)) / width, 0, 1)
    R = (moved - shares) * sign
    np.testing.assert_allclose(balance._pull(rows, a, columns, width), R.T @ T, rtol=1e-3, atol=1e-3)
    rows.scratch["M"] = M.copy()
    few = a.copy()
    few[:, 4:] = 0
    fewer_moved = np.clip(0.5 + (1 - M - sign * (T @ few.T)) / width, 0, 1)
    pulled = ((fewer_moved - shares) * sign).T @ T[:, :4]
    np.testing.assert_allclose(
        balance._pull(rows, np.ascontiguousarray(a[:, :4]), columns, width), pulled, rtol=1e-3, atol=1e-3
    )
    out = P.copy()
    total = balance._write(R.astype(np.float32), shares, sign, bits, out, 1, every)
    np.testing.assert_allclose(total, (moved - shares).sum(axis=0), atol=1e-4)
    np.testing.assert_allclose(out[1::every, bits], moved, atol=1e-5)
    np.testing.assert_array_equal(out[::every], P[::every])
    others = np.setdiff1d(np.arange(3), bits)
    np.testing.assert_array_equal(out[:, others], P[:, others])


def test_what_is_left_in_more_directions_is_balanced_too(monkeypatch):
    """After many bits were balanced in the strongest ones, a few of them are in all."""
    monkeypatch.setattr(Proof, "seek", lambda *_: None)
    monkeypatch.setattr(shared_hessian, "FEWEST", 24)
    machines = after_steps(4, n=16_000, C=16.0, noise=3.0)
    bits, V = np.arange(machines.m), machines.directions()
    most = V.shape[1]
    assert most > 24
    restored(machines, bits, n_directions=24)
    first = imbalance(machines, ASCENDED)
    machines.latest[:] = ASCENDED
    _, lower, inside, left = restored(machines, bits, n_directions=most)
    assert np.median(np.sum(left**2, axis=1) / np.sum(inside**2, axis=1)) < 0.1
    now = imbalance(machines, ASCENDED)
    assert np.median(np.sum(now**2, axis=1) / np.sum(first**2, axis=1)) < 1
    np.testing.assert_allclose(lower, value_of_planes(machines, ASCENDED), rtol=1e-9)
    assert_true_planes(machines)


def test_few_bits_are_balanced_in_more_directions_if_rows_enough_are_free(monkeypatch):
    monkeypatch.setattr(shared_hessian, "FEWEST", 24)
    monkeypatch.setattr(proof, "DIRECTIONS", 24)
    machines = after_steps(1)
    most, seeker = machines.directions().shape[1], Proof(machines, Bounds.of(machines, 0.1), None)
    enough = balance.MANY_MOVE * balance.FREE_PER_DIRECTION * most
    assert seeker._n_directions(proof.NOT_MANY, enough) == most > 24
    assert seeker._n_directions(proof.NOT_MANY + 1, enough) == 24
    assert seeker._n_directions(proof.NOT_MANY, enough - 1) == 24


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
    np.testing.assert_allclose(again.bounds.upper, truth, rtol=1e-4)
    assert (again.bounds.lower <= truth).all()
