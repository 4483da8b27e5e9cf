"""Every number that was chosen for the solvers, with the measurement that chose it.

Measured on 1,000 anchors and C = 32: CIFAR-10 GIST and MNIST with 32 bits, Tiny-ImageNet-200 and CLINC150
with 64, rows held out from training (docs/solver.md).
"""

from __future__ import annotations

import numpy as np

# Rows.
BLOCK_ROWS = 2560  # a block of 1,001 float32 features is 10 MB: in cache, and few enough to be handed out

# The smoothed solver.
WIDTH = 0.5  # of the band around margin 1: the optimum inside it is within 0.1 % of the true one on CIFAR-10
NARROWEST = 0.3  # of its width: so far the band shrinks at once, so that the weights can follow
KAPPA = 0.2  # share of rows in the band, per unit of width: 0.1 on MNIST, 0.35 on CIFAR-10
SAMPLE_PER_FEATURE = 16  # rows for the Hessian, as a multiple of its order: from all rows, no fewer steps
STALE = 1.33  # rows in the Hessian for each that is still there: more, and it is made again
# Precision, and a ridge as a share of the trace, tried in turn.
RIDGES = (np.float32, 0.0), (np.float64, 0.0), (np.float64, 1e-7), (np.float64, 1e-6), (np.float64, 1e-5)
PAIRS = 10  # curvature pairs of L-BFGS: matters beyond ten steps only
LENGTH_ROWS = 5_000  # rows that a step's length is read off
POOR = 0.1  # of the promised gain: a step that gains less had its length from too few rows
MAX_STEPS = 200
AIM = 0.8  # of what a bit may lack: so far it goes once it takes steps; else 1 % more rows move half the bits
NEGLIGIBLE = 1e-6  # share of F(0) = C n below which a gap does not matter: an optimum may be next to nothing
EXCESS, PRICE = 2.0, 0.125  # what is left, in predicted gains of the next step and in prices of smoothing

# OCAS and OCAM.
CUT_SHARE = 0.1  # a plane is cut this far from the best point towards the model's minimum (libocas: 0.1)
FIRST_SLOTS = 32  # planes for which there is room at first
IDLE = 1e-9  # a plane with less dual weight than this has none
OCAS_STEPS = 2000
MANY_PLANES = 50  # of OCAM: beyond these, planes without dual weight leave
QP_MOVES = 4  # per plane at most
DUAL_PASSES = 100  # of the multi-class SVM over its rows, before planes take over: 6 to 40 are the rule
MANY_CLASSES = 2000  # of the multi-class SVM: with more, passes over rows × classes take minutes
QP_RIDGE = 1e-13  # of the largest curvature: planes may be linearly dependent

# Minimum along a line.
N_PASSES = 12
# A search ends where the slope has fallen to this share of that at its start. From no weights it is steep:
# at 0.05 the smoothed solver takes 8.7 steps on CLINC150 instead of 6. OCAS asks all rows, and cuts again.
SMOOTH_SLOPE, OCAS_SLOPE, OCAM_SLOPE = 0.005, 0.05, 1e-3
