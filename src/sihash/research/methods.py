"""The one list of methods that are compared: hashers, the database's own search, ways to search vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sihash._typing import Array
from sihash.evaluation.alternatives import (
    Alternative,
    ByClass,
    ByClassThenCosine,
    Cosine,
    ProductQuantisation,
    RescoredSignBits,
    SignBits,
    linear_discriminants,
    nearest_class_mean,
)
from sihash.hasher import Hasher
from sihash.hashing import SIH
from sihash.research.baselines import BRE, CCAITQ, DBC, KSH, LSH, PCAITQ, SDH, FastHash

# Section 3.1 of the paper, for CIFAR-10; λ = m · 10⁸ is the default of `SIH`.
PAPER_C_X, PAPER_GAMMA = 16.0, 1e5


@dataclass(frozen=True)
class Setting:
    """What a fit is asked for; the defaults are those of the methods themselves.

    For the paper's tables ``width`` and ``C`` come from cross-validation on training rows.
    """

    n_bits: int
    seed: int
    n_anchors: int = 1000
    width: float | Literal["auto"] = "auto"
    C: float = PAPER_C_X
    n_labelled: int = 5000
    n_trees: int = 500

    @property
    def drawn(self) -> dict[str, Any]:
        return {"n_bits": self.n_bits, "random_state": self.seed}

    @property
    def with_kernel(self) -> dict[str, Any]:
        return self.drawn | {"n_anchors": self.n_anchors, "kernel_width": self.width}


@dataclass(frozen=True)
class Method:
    """``label`` in tables and figures, and how it is made: a ``hasher`` from a setting, or a ``scorer`` from
    vectors, class numbers and the bytes of a code. `SEARCH` has neither: it is a database.

    ``several``: it takes items of several labels.
    """

    label: str
    hasher: Callable[[Setting], Hasher] | None = None
    scorer: Callable[[Array, Array, int], Alternative] | None = None
    has_anchors: bool = True
    several: bool = False

    def make(self, setting: Setting) -> Hasher:
        assert self.hasher is not None
        return self.hasher(setting)


def _constants(s: Setting, gamma: float = PAPER_GAMMA, words: str = "separated") -> SIH:
    """The paper's constants by the default solver, which reaches the same weights in less time.

    The first words are those of this package, far apart and balanced; ``words="random"`` draws them bit after
    bit as the paper does.
    """
    usual = SIH()
    return SIH.paper(
        **s.with_kernel, C_x=s.C, gamma=gamma, codebook=words, solver=usual.solver, tol=usual.tol
    )


def _lda(X: Array, y: Array) -> ByClass:
    return ByClass("LDA's label", linear_discriminants(X, y, np.ones(len(X), dtype=bool)), y)


def _mean(X: Array, y: Array) -> ByClass:
    return ByClass("nearest class mean", nearest_class_mean(X, y, np.ones(len(X), dtype=bool)), y)


SEARCH = "search"
METHODS = {
    SEARCH: Method("sihash search", several=True),
    "sih": Method("SIH", lambda s: SIH(s.n_bits, s.n_anchors, random_state=s.seed), several=True),
    # All that the paper prints, and its solver: random words, OCAS with proved gaps.
    "sih_paper": Method("SIH, the paper's preset", lambda s: SIH.paper(**s.with_kernel, C_x=s.C)),
    "sih_constants": Method("SIH, the paper's constants", _constants),
    "sih_gamma0": Method("SIH, γ = 0", lambda s: _constants(s, 0.0)),
    "sih_random": Method("SIH, random words", lambda s: _constants(s, words="random")),
    "sih_random_gamma0": Method("SIH, random words, γ = 0", lambda s: _constants(s, 0.0, "random")),
    "dbc": Method("DBC", lambda s: DBC(**s.with_kernel)),
    "sdh": Method("SDH", lambda s: SDH(**s.with_kernel)),
    "fasthash": Method("FastHash", lambda s: FastHash(**s.drawn, n_trees=s.n_trees), has_anchors=False),
    "ksh": Method("KSH", lambda s: KSH(**s.with_kernel, n_labelled=s.n_labelled)),
    "bre": Method("BRE", lambda s: BRE(**s.with_kernel)),
    "cca_itq": Method("CCA-ITQ", lambda s: CCAITQ(**s.drawn), has_anchors=False),
    "pca_itq": Method("PCA-ITQ", lambda s: PCAITQ(**s.drawn), has_anchors=False, several=True),
    "lsh": Method("LSH", lambda s: LSH(**s.drawn), has_anchors=False, several=True),
    "cosine": Method("cosine, raw vectors", scorer=lambda X, y, n: Cosine(X), several=True),
    "sign_bits": Method("sign bits", scorer=lambda X, y, n: SignBits(X), several=True),
    "rescored": Method(
        "sign bits, rescored", scorer=lambda X, y, n: RescoredSignBits(SignBits(X), Cosine(X)), several=True
    ),
    "pq": Method("PQ", scorer=lambda X, y, n: ProductQuantisation(X, n), several=True),
    "mean": Method("nearest class mean", scorer=lambda X, y, n: _mean(X, y)),
    "lda": Method("LDA's label", scorer=lambda X, y, n: _lda(X, y)),
    "lda_cosine": Method(
        "LDA's label and cosine", scorer=lambda X, y, n: ByClassThenCosine(_lda(X, y), Cosine(X))
    ),
}
BASELINES = ("sdh", "fasthash", "ksh", "cca_itq")  # of the paper
PAPER = ("sih_constants", "sih_paper", "sih_gamma0", "sih_random", "sih_random_gamma0", "sih", *BASELINES)
FIELD = tuple(name for name in METHODS if name not in PAPER or name in ("sih", "sih_paper", *BASELINES))
