"""Problems and slow, obvious twins for the tests of the solvers."""

from __future__ import annotations

import numpy as np

from sihash.svm import ocas
from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.ocas import OcasSVMs
from sihash.svm.smooth import SmoothSVMs

METHODS = ("smooth", "ocas")
SVMS = {"smooth": SmoothSVMs, "ocas": OcasSVMs}
ROUNDING = 2e-5  # relative; products run in float32
LACKS = 6  # times the tolerance, where there are many rows for each feature
MANY = 0.3  # of the objective, where every row has a direction of its own


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


def blocks_with_room(Phi, Y, sizes, room):
    """Rows in blocks of the given sizes, each with spare room behind its rows."""
    blocks, start = [], 0
    for size in sizes:
        part = slice(start, start + size)
        arrays = {}
        for name, values in (("Phi", Phi), ("Y", Y)):
            arrays[name] = np.zeros((size + room, values.shape[1]), dtype=values.dtype)
            arrays[name][:size] = values[part]
        blocks.append(Block(size, **arrays))
        start += size
    return RowBlocks(blocks)


def planes_from_shares(svms):
    """The planes of a bundle once more, from the shares beside the rows: ``a = Σ π``, ``g = Σ π y φ``."""
    g, a = np.zeros_like(svms.bundle.g), np.zeros_like(svms.bundle.a)
    for block in svms.rows:
        for slot in range(svms.bundle.n_slots):
            shares = block[f"pi{slot}"].astype(np.float64)
            assert set(np.unique(shares)) <= {0, 1}
            a[:, slot] += shares.sum(axis=0)
            g[:, slot] += (shares * block["Y"]).T @ block["Phi"].astype(np.float64)
    return g, a


def assert_planes_below_risk(svms, W):
    """No plane rises above the hinge risk at ``W`` (m × d)."""
    heights = svms.bundle.a - np.einsum("jsd,jd->js", svms.bundle.g, W)
    Phi, Y = svms.rows.column("Phi"), svms.rows.column("Y")
    slack = ROUNDING * (1 + np.sum(1 + np.abs(Phi @ W.T), axis=0))
    assert np.all(heights.max(axis=1) <= hinge_risk(W, Phi, Y) + slack)


def optimum(Phi, Y, C, tol):
    """A proved lower bound of the optimum of every bit, within ``tol`` of it."""
    svms = OcasSVMs(RowBlocks.of(np.ascontiguousarray(Phi, np.float32), Y=np.asarray(Y, np.int8)), C)
    return ocas.solve(svms, tol).lower


def assert_solved(solution, Phi, Y, C, tol):
    """``upper`` is the objective at ``W``, and as near to the optimum as was asked for.

    OCAS proves it. The smoothed solver stops by what it expects to lack, which was never wrong by more than
    `LACKS`, where there are many rows for each feature.
    """
    negligible = 1e-6 * C * len(Phi)
    truth = objective(solution.W, Phi, Y, C)
    np.testing.assert_allclose(solution.upper, truth, rtol=ROUNDING, atol=negligible)
    assert solution.converged.all()
    if solution.is_proved:
        assert np.all(solution.lower <= solution.upper)
        assert np.all(solution.upper - solution.lower <= np.maximum(tol * solution.upper, negligible))
    else:
        lacks = solution.upper - optimum(Phi, Y, C, tol / 4)
        share = LACKS * tol if len(Phi) > max(100, 10 * Phi.shape[1]) else MANY
        assert np.all(lacks <= np.maximum(share * solution.upper, LACKS * negligible)), lacks / solution.upper
