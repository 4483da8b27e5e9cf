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


def multiclass_svm(W: Array, scores: Array, own: Array, counts: Array, C_b: float) -> float:
    """``½ Σ_k ‖w_kᵇ‖² + Cᵇ Σ_i ξ_iᵇ`` (Crammer and Singer) over rows that stand for ``counts`` each.

    ``scores`` are rows × classes, ``own`` is each row's class, as a row of ``W``.
    """
    losses = scores - scores[np.arange(len(own)), own][:, None] + (np.arange(len(W)) != own[:, None])
    return float(0.5 * np.sum(W * W) + C_b * counts @ losses.max(axis=1))


def objective(
    multiclass_svm: float, lam: float, binary_svms: Array, surplus: Array, gamma: float
) -> Objective:
    """Eq. 1 from the objectives of its SVMs and the surplus ``Σ_i b_ij`` of every bit."""
    return Objective(
        multiclass=lam * multiclass_svm,
        binary=float(np.sum(binary_svms)),
        balance=gamma * float(np.abs(surplus).sum()),
    )
