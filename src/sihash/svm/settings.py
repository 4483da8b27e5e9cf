"""Every number that was chosen for the solvers, with the measurement that chose it.

Measured on 1,000 anchors and C = 32: CIFAR-10 GIST and MNIST with 32 bits, Tiny-ImageNet-200 and CLINC150
with 64, rows held out from training (docs/solver.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BLOCK_ROWS = 2560  # a block of 1,001 float32 features is 10 MB: in cache, and few enough to be handed out
QP_RIDGE = 1e-13  # of the largest curvature of a QP: planes may be linearly dependent


@dataclass(frozen=True)
class SolverSettings:
    """What the solvers go by; `Report` shows it."""

    # The smoothed solver.
    width: float = 0.5  # of the band around margin 1: its optimum is within 0.1 % of the true one on CIFAR-10
    min_shrink: float = 0.3  # a band shrinks to this share at once at most, so that the weights can follow
    kappa: float = 0.2  # share of rows in the band, per unit of width: 0.1 on MNIST, 0.35 on CIFAR-10
    rows_per_feature: int = 16  # in the Hessian: from all rows, no fewer steps
    stale: float = 1.33  # rows in the Hessian for each that is still there: more, and it is made again
    # Precision, and a ridge as a share of the trace, tried in turn.
    ridges: tuple[tuple[type, float], ...] = (
        (np.float32, 0.0),
        (np.float64, 0.0),
        (np.float64, 1e-7),
        (np.float64, 1e-6),
        (np.float64, 1e-5),
    )
    n_pairs: int = 10  # curvature pairs of L-BFGS: matters beyond ten steps only
    length_rows: int = 5_000  # that a step's length is read off
    poor_step: float = 0.1  # of the promised gain: a step that gains less had its length from too few rows
    max_steps: int = 200
    # Once a bit takes steps it goes on to this share of the gap that it is allowed: at the limit, 1 % more
    # rows would move half the bits again.
    overshoot: float = 0.8
    negligible: float = 1e-6  # share of F(0) below which a gap does not matter: an optimum may be next to 0
    gap_per_gain: float = 2.0  # what is left, in predicted gains of the next step ...
    gap_per_price: float = 0.125  # ... and in prices of smoothing
    # A line search ends where the slope has fallen to this share of that at its start. From no weights it is
    # steep: at 0.05 the smoothed solver takes 8.7 steps on CLINC150 instead of 6. OCAS reads the slope off
    # all rows, and cuts again.
    smooth_slope: float = 0.005

    # OCAS and OCAM.
    ocas_slope: float = 0.05
    ocam_slope: float = 1e-3
    cut_share: float = 0.1  # how far from the best point towards the model's minimum a plane is cut (libocas)
    first_slots: int = 32  # planes for which there is room at first
    idle: float = 1e-9  # a plane with less dual weight than this has none
    ocas_max_steps: int = 2000
    many_planes: int = 50  # of OCAM: beyond these, planes without dual weight leave
    qp_moves: int = 4  # per plane at most

    # The multi-class SVM.
    dual_passes: int = 100  # over its rows, before planes take over: 6 to 40 are the rule
    many_classes: int = 2000  # with more, passes over rows × classes take minutes


DEFAULTS = SolverSettings()
