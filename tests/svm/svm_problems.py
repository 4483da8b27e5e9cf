"""Problems and slow, obvious twins for the tests of the solvers."""

from __future__ import annotations

import numpy as np

from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.ocas import OcasMachines
from sihash.svm.smooth_machines import SmoothMachines

METHODS = ("smooth", "ocas")
MACHINES = {"smooth": SmoothMachines, "ocas": OcasMachines}
ROUNDING = 2e-5  # relative; products run in float32


def problem(n, d, m, seed=0, noise=1.0):
    """Rows with a bias column, and labels that are linear but for noise."""
    rng = np.random.RandomState(seed)
    Phi = np.column_stack([rng.standard_normal((n, d - 1)), np.ones(n)]).astype(np.float32)
    scores = Phi @ rng.standard_normal((d, m)) + noise * rng.standard_normal((n, m))
    return Phi, np.where(scores >= 0, 1, -1).astype(np.int8)


def hinge_risk(W, Phi, Y):
    """``Σ_i max(0, 1 − y_ij w_j·φ_i)`` for every bit, in float64."""
    margins = Y * (np.asarray(Phi, np.float64) @ np.asarray(W, np.float64).T)
    return np.maximum(1 - margins, 0).sum(axis=0)


def objective(W, Phi, Y, C):
    return 0.5 * np.sum(np.square(W), axis=1) + C * hinge_risk(W, Phi, Y)


def blocks_with_room(Phi, Y, sizes, groups, room):
    """Rows in blocks of the given sizes and groups, each with spare room behind its rows."""
    blocks, start = [], 0
    for size, group in zip(sizes, groups, strict=True):
        part = slice(start, start + size)
        arrays = {}
        for name, values in (("Phi", Phi), ("Y", Y)):
            arrays[name] = np.zeros((size + room, values.shape[1]), dtype=values.dtype)
            arrays[name][:size] = values[part]
        blocks.append(Block(size, group, **arrays))
        start += size
    return RowBlocks(blocks)


def planes_from_shares(machines):
    """The planes of a bundle once more, from the shares beside the rows: ``a = Σ π``, ``g = Σ π y φ``."""
    g, a = np.zeros_like(machines.bundle.g), np.zeros_like(machines.bundle.a)
    for block in machines.rows:
        for slot in range(machines.bundle.n_slots):
            shares = block[f"pi{slot}"].astype(np.float64)
            assert shares.min(initial=0) >= 0
            assert shares.max(initial=0) <= 1
            a[:, block.group, slot] += shares.sum(axis=0)
            g[:, block.group, slot] += (shares * block["Y"]).T @ block["Phi"].astype(np.float64)
    return g, a


def assert_planes_below_risk(machines, W):
    """No plane of any group and slot rises above its group's hinge risk at ``W`` (m × d)."""
    bundle = machines.bundle
    heights = bundle.a - np.einsum("jgsd,jd->jgs", bundle.g, W)
    for group in range(bundle.n_groups):
        own = [block for block in machines.rows if block.group == group and block.n]
        risk, size = np.zeros(machines.m), np.zeros(machines.m)
        for block in own:
            risk += hinge_risk(W, block["Phi"], block["Y"])
            size += np.sum(1 + np.abs(block["Phi"] @ W.T), axis=0)
        slack = ROUNDING * (1 + size)
        assert np.all(heights[:, group].max(axis=1) <= risk + slack)


def assert_certificate(solution, Phi, Y, C, tol):
    """Bounds in order, ``upper`` the objective at ``W``, the gap as small as was asked for."""
    assert np.all(solution.lower <= solution.upper)
    truth = objective(solution.W, Phi, Y, C)
    np.testing.assert_allclose(solution.upper, truth, rtol=ROUNDING, atol=1e-6 * C * len(Phi))
    assert solution.converged.all()
    gap = solution.upper - solution.lower
    assert np.all(gap <= np.maximum(tol * solution.upper, 1e-6 * C * len(Phi)))


def value_of_planes(machines, slot):
    """The lower bounds by the planes of one slot alone."""
    u = machines.C * machines.bundle.g[:, :, slot].sum(axis=1)
    return machines.C * machines.bundle.a[:, :, slot].sum(axis=1) - 0.5 * np.sum(u * u, axis=1)


def assert_true_planes(machines):
    """The planes of a bundle are the sums of the shares beside the rows."""
    g, a = planes_from_shares(machines)
    np.testing.assert_allclose(machines.bundle.a, a, rtol=1e-5)
    np.testing.assert_allclose(machines.bundle.g, g, atol=5e-3)
