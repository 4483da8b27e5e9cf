"""Eq. 1 of the paper, term by term."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sihash._typing import Array


@dataclass(frozen=True)
class Objective:
    """The three terms of eq. 1 and their sum.

    ``multiclass = λ (½ Σ_k ‖w_kᵇ‖² + Cᵇ Σ_i ξ_iᵇ)``, ``binary = Σ_j (½ ‖w_jˣ‖² + Cˣ Σ_i ξ_ijˣ)``, ``balance
    = γ Σ_j |Σ_i b_ij|``.
    """

    multiclass: float
    binary: float
    balance: float

    @property
    def total(self) -> float:
        return self.multiclass + self.binary + self.balance


def multiclass_losses(scores: Array, own: Array) -> Array:
    """``ξ_iᵇ`` (Crammer and Singer) of rows with ``scores`` (rows × classes), whose classes are ``own``."""
    scores = scores.copy()
    rows = np.arange(len(own))
    right = scores[rows, own]
    scores[rows, own] -= 1
    return scores.max(axis=1) - right + 1


def objective(
    multiclass_svm: float, lam: float, binary_svms: Array, surplus: Array, gamma: float
) -> Objective:
    """Eq. 1 from the objectives of its SVMs and the surplus ``Σ_i b_ij`` of every bit."""
    return Objective(
        multiclass=lam * multiclass_svm,
        binary=float(np.sum(binary_svms)),
        balance=gamma * float(np.abs(surplus).sum()),
    )
