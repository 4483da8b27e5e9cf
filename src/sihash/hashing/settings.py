"""The parameters of `SIH`, stated and checked in one place."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sihash._typing import Array
from sihash.checks import check_count
from sihash.hashing.training_sample import DEFAULT_BUDGET, Budget, check_budget

if TYPE_CHECKING:
    from sihash.svm.binary import Method

LAM_PER_BIT = 1e8  # the paper's λ is this for every bit
MOST_BITS = 4096
CODEBOOKS = ("learned", "separated", "random")
PRIORS = {"balanced": 0.0, "frequency": 1.0}
# The SVMs of data that separate well have next to no loss, and their codes are done long before that is
# exact: for the smoothed solver an objective counts at least this share of F(0) = C n. With tol = 0.006 mAP
# on rows held out is then within 0.0015 of a tight solve on CIFAR-10, MNIST, Tiny-ImageNet-200 and CLINC150
# (docs/solver.md).
LEAST_OBJECTIVE = 0.5
SMALLEST_TOL = 1e-9  # products in float32 do not certify much less
NOT_KEPT = ("engine", "verbose")  # parameters that a model file does not hold


def n_bits_for(n_classes: int) -> int:
    """The default number of bits for ``n_classes``: 8 for every doubling, in steps of 32.

    On held-out rows of CLINC150 (150 classes) and Tiny-ImageNet (200) 64 bits gave 0.963 and 0.276 mAP where
    32 gave 0.950 and 0.232; with ten classes 64 gain nothing over 32.
    """
    return 32 * max(1, int(np.ceil(8 * np.log2(max(n_classes, 2)) / 32)))


@dataclass(eq=False, repr=False)
class Settings:
    """The parameters of `SIH`, which explains them. What learns holds a copy that was `checked`."""

    n_bits: int = 32
    n_anchors: int = 1000
    anchors: Literal["classes", "random"] | Array = "classes"
    kernel: Literal["rbf", "linear", "rbf+linear"] = "rbf+linear"
    kernel_width: Literal["auto"] | float = "auto"
    C_x: float = 32.0
    C_b: float = 1e-3
    lam: float | None = None
    gamma: float = 1e3
    max_iter: int = 5
    tol: float = 0.006
    solver: Literal["auto", "smooth", "ocas"] = "auto"
    codebook: Literal["learned", "separated", "random"] | Array = "learned"
    prior: Literal["balanced", "frequency"] | float = 0.5
    training_rows: Budget = DEFAULT_BUDGET
    random_state: int | np.random.RandomState | None = None
    engine: Any = None
    verbose: bool = False

    def params(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(Settings)}

    def params_to_keep(self) -> dict[str, Any]:
        """Those that a model file holds."""
        return {name: value for name, value in self.params().items() if name not in NOT_KEPT}

    def checked(self, **changes: Any) -> Settings:
        """A copy, with changes; senseless parameters are refused. Those of the kernel are when it is made."""
        s = Settings(**self.params() | changes)
        check_count("n_bits", s.n_bits)
        if s.n_bits > MOST_BITS:
            raise ValueError(f"n_bits must be at most {MOST_BITS}, got {s.n_bits}.")
        check_count("n_anchors", s.n_anchors)
        check_count("max_iter", s.max_iter)
        for name, value in {"C_x": s.C_x, "C_b": s.C_b}.items():
            if not 0 < value < np.inf:
                raise ValueError(f"{name} must be positive and finite, got {value!r}.")
        if not SMALLEST_TOL <= s.tol < 1:
            raise ValueError(f"tol must be at least {SMALLEST_TOL:g} and below 1, got {s.tol!r}.")
        for name, value in {"lam": s.lambda_, "gamma": s.gamma}.items():
            if not 0 <= value < np.inf:
                raise ValueError(f"{name} must be finite and not negative, got {value!r}.")
        if s.solver not in ("auto", "smooth", "ocas"):
            raise ValueError(f"solver must be 'auto', 'smooth' or 'ocas', got {s.solver!r}.")
        if isinstance(s.codebook, str) and s.codebook not in CODEBOOKS:
            raise ValueError(
                f"codebook must be one of {', '.join(CODEBOOKS)}, or an array of words, got {s.codebook!r}."
            )
        if s.prior not in PRIORS and (isinstance(s.prior, str | bool) or not 0 <= s.prior <= 1):
            raise ValueError(f"prior must be 'balanced', 'frequency' or from 0 to 1, got {s.prior!r}.")
        s.training_rows = check_budget(s.training_rows)
        return s

    # What follows from them.

    @property
    def lambda_(self) -> float:
        """λ of eq. 1."""
        return self.n_bits * LAM_PER_BIT if self.lam is None else self.lam

    @property
    def prior_exponent(self) -> float:
        """How far the size of a class counts."""
        return PRIORS[self.prior] if isinstance(self.prior, str) else self.prior

    @property
    def method(self) -> Method:
        """The solver of the binary SVMs."""
        return "ocas" if self.solver == "ocas" else "smooth"

    @property
    def least_objective(self) -> float:
        """What an SVM's objective counts for at least, as a share of F(0), where its gap is a share of it."""
        return LEAST_OBJECTIVE if self.method == "smooth" else 0.0

    @property
    def words(self) -> str:
        """Where words come from: one of `CODEBOOKS`, or "given"."""
        return self.codebook if isinstance(self.codebook, str) else "given"

    @property
    def codes_move(self) -> bool:
        """Whether rows may leave the word of their class (eq. 2).

        Words that are chosen far apart and balanced stay: rows that left them, to balance a bit after classes
        came or went, took up to five rounds and gained nothing. Rows leave random words, as in the paper.
        """
        return self.words not in ("learned", "separated")

    @property
    def anchors_by_class(self) -> str:
        """How the anchors of a class are chosen."""
        return self.anchors if isinstance(self.anchors, str) else "given"
