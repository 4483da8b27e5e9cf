"""The numbers of eq. 1 and of Algorithm 1, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.checks import check_count
from sihash.hashing.training_sample import Budget, check_budget
from sihash.svm.binary import Method

LAM_PER_BIT = 1e8  # the paper's λ is this for every bit
MOST_BITS = 4096
# Words that are chosen far apart and balanced stay: rows that left them, to balance a bit after classes came
# or went, took up to five rounds and gained nothing. Rows leave words that are random, as in the paper.
LASTING_WORDS = ("learned", "separated")
# The SVMs of data that separate well have next to no loss, and their codes are done long before that is
# exact: for the smoothed solver an objective counts at least this share of F(0) = C n. With tol = 0.006 mAP
# on rows held out is then within 0.0015 of a tight solve on CIFAR-10, MNIST, Tiny-ImageNet-200 and CLINC150
# (docs/solver.md).
LEAST_OBJECTIVE = 0.5
SMALLEST_TOL = 1e-9  # products in float32 do not certify much less


def n_bits_for(n_classes: int) -> int:
    """The default number of bits for ``n_classes``: 8 for every doubling, in steps of 32.

    On held-out rows of CLINC150 (150 classes) and Tiny-ImageNet (200) 64 bits gave 0.963 and 0.276 mAP where
    32 gave 0.950 and 0.232; with ten classes 64 gain nothing over 32.
    """
    return 32 * max(1, int(np.ceil(8 * np.log2(max(n_classes, 2)) / 32)))


@dataclass(frozen=True)
class Hyperparameters:
    """See the parameters of `SIH`."""

    n_bits: int
    C_x: float
    C_b: float
    lam: float
    gamma: float
    max_iter: int
    tol: float
    method: Method
    words: str  # where words come from: "learned", "separated", "random", "hadamard", or "given"
    training_rows: Budget

    @property
    def least_objective(self) -> float:
        """What an SVM's objective counts for at least, as a share of F(0), where its gap is a share of it."""
        return LEAST_OBJECTIVE if self.method == "smooth" else 0.0

    @property
    def codes_move(self) -> bool:
        """Whether rows may leave the word of their class (eq. 2)."""
        return self.words not in LASTING_WORDS

    @classmethod
    def checked(
        cls,
        *,
        n_bits: int,
        C_x: float,
        C_b: float,
        lam: float | None,
        gamma: float,
        max_iter: int,
        tol: float,
        solver: str,
        codebook: str | Array,
        training_rows: Any,
    ) -> Hyperparameters:
        """From the parameters of `SIH`; senseless ones are refused."""
        check_count("n_bits", n_bits)
        if n_bits > MOST_BITS:
            raise ValueError(f"n_bits must be at most {MOST_BITS}, got {n_bits}.")
        check_count("max_iter", max_iter)
        for name, value in {"C_x": C_x, "C_b": C_b}.items():
            if not 0 < value < np.inf:
                raise ValueError(f"{name} must be positive and finite, got {value!r}.")
        if not SMALLEST_TOL <= tol < 1:
            raise ValueError(f"tol must be at least {SMALLEST_TOL:g} and below 1, got {tol!r}.")
        lam = n_bits * LAM_PER_BIT if lam is None else lam
        for name, value in {"lam": lam, "gamma": gamma}.items():
            if not 0 <= value < np.inf:
                raise ValueError(f"{name} must be finite and not negative, got {value!r}.")
        if solver not in ("auto", "smooth", "ocas"):
            raise ValueError(f"solver must be 'auto', 'smooth' or 'ocas', got {solver!r}.")
        method: Method = "ocas" if solver == "ocas" else "smooth"
        words = codebook if isinstance(codebook, str) else "given"
        budget = check_budget(training_rows)
        return cls(int(n_bits), C_x, C_b, lam, gamma, int(max_iter), tol, method, words, budget)
