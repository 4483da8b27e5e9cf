"""The paper's Figure 1: OCAS in the plane, from nothing, then from an earlier solution as the data change."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sihash._typing import Array
from sihash.research.runner import Result, Run
from sihash.research.scales import Scale
from sihash.svm.blocks import RowBlocks
from sihash.svm.ocas import OcasSVMs, solve

N_CLASSES, N_POINTS, C, TOL = 6, 300, 1.0, 0.01
DELETED = (1, 4)


def plan(scale: Scale) -> list[Run]:
    return [Run({"kind": "svm", "scale": scale.name, "seed": 0}, lambda _: simulate(0))]


def simulate(seed: int) -> Result:
    """Three stages: 300 points from zero weights; 600 from the first solution; two classes deleted from that.

    Each stage has the planes ``w·(x, 1) = 0`` after every step of OCAS, the one it began with, and how many
    steps the same problem takes from zero.
    """
    rng = np.random.RandomState(seed)
    angles = np.arange(N_CLASSES) * 2 * np.pi / N_CLASSES
    centres = 2.2 * np.column_stack([np.cos(angles), np.sin(angles)])
    signs = np.array([1, 1, -1, -1, -1, 1], dtype=np.int8)  # a half-plane of classes, and some overlap
    y = np.arange(2 * N_POINTS) % N_CLASSES
    X = centres[y] + 0.95 * rng.normal(size=(len(y), 2))
    kept = ~np.isin(y, DELETED)
    everything = np.arange(len(y))
    stages, start = [], np.zeros(3)
    for name, rows in (
        ("300 points", everything[:N_POINTS]),
        ("600 points", everything),
        ("two classes deleted", everything[kept]),
    ):
        path = ocas_path(X[rows], signs[y[rows]], start)
        cold = ocas_path(X[rows], signs[y[rows]], np.zeros(3))
        stages.append(
            {"name": name, "rows": rows.tolist(), "start": start.tolist(), "path": [w.tolist() for w in path]}
            | {"n_steps": len(path), "n_steps_from_zero": len(cold)}
        )
        start = path[-1] if path else start
    points = {"X": X.round(4).tolist(), "y": y.tolist(), "signs": signs.tolist()}
    return {**points, "stages": stages, "C": C, "tol": TOL}


def ocas_path(X: Array, signs: Array, start: Array) -> list[Array]:
    """The best weights (two coordinates and the bias) after each step of OCAS, up to a certified gap.

    As in the paper, the best-so-far solution starts at the given weights, and no plane is kept.
    """
    Phi = np.column_stack([X, np.ones(len(X))]).astype(np.float32)
    svms = OcasSVMs(RowBlocks.of(Phi, Y=signs[:, None].copy()), C)
    if start.any():
        svms.W[0] = start
        svms.risk[0] = np.maximum(1 - signs * (Phi @ start), 0).sum()
    path: list[Array] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one step at a time does not converge
        while True:
            solution = solve(svms, TOL, max_steps=1)
            if not solution.n_steps[0]:
                return path
            path.append(solution.W[0].copy())
