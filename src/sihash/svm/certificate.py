"""True lower bounds for weights that are there, by cutting planes started at them.

The smoothed solver predicts how far its weights are from the optimum; it proves nothing. OCAS has a proof by
construction: its planes lie below the risk, so the least value of its model bounds every objective from
below. Here it starts from given weights and goes on until its bounds are within ``tol`` of the optimum. The
weights stay as they are, so a gap that is wider than ``tol`` says what they lack.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.svm import ocas
from sihash.svm.blocks import Block, Store
from sihash.svm.svm_state import Solution, SVMs


@dataclass(frozen=True)
class Certificate:
    """Objectives of SVMs at their weights, and true lower bounds of their optima, one a bit.

    ``scale`` is what gaps are shares of, the same as in the report of a fit.
    """

    upper: Array
    lower: Array
    scale: Array

    @property
    def gap(self) -> Array:
        """Proved gaps, as shares of ``scale``."""
        return (self.upper - self.lower) / self.scale

    def __str__(self) -> str:
        return f"{len(self.upper)} SVMs, proved gap ≤ {100 * self.gap.max():.2f} %"


def lower_bounds(svms: SVMs, tol: float) -> Array:
    """Bounds of ``min F``, one a bit, at most ``tol`` times the optimum below it; ``svms`` stays as it is."""
    solution = prove(svms, tol)
    assert solution.lower is not None
    return np.minimum(solution.lower, svms.upper())


def prove(svms: SVMs, tol: float) -> Solution:
    """The optimum to within ``tol``, proved by cutting planes that start at the weights of ``svms``."""
    prover = ocas.OcasSVMs(svms.rows.derive(_bare), svms.C)
    prover.start_from(svms.W)
    return ocas.solve(prover, tol)


def _bare(block: Block, store: Store) -> Block:
    """The rows without what another solver keeps of them; what OCAS adds is its own."""
    return Block(block.n, Phi=block["Phi"], Y=block["Y"])
