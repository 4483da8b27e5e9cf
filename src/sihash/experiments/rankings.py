"""The same codes, ranked otherwise than by Hamming distance. Items are known by their codes alone."""

from __future__ import annotations

import numpy as np

from sihash import codes
from sihash._typing import Array
from sihash.evaluation import leave_one_out_by_score
from sihash.hashing import SIH

KINDS = ("asymmetric", "semantic")


def mean_average_precision(hasher: SIH, kind: str, X: Array, y: Array) -> float:
    """mAP of rows ``X``, each once the query, by a kind of ranking.

    asymmetric: the query's real margins times the item's code. semantic: how likely the second stage takes
    query and item for one class, ``Σ_k p(k | query) · p(k | item)``, from the codes of both.
    """
    if kind == "asymmetric":
        margins = hasher.decision_function(X).astype(np.float32)
        items = codes.sign(margins).astype(np.float32)
    else:
        margins = items = hasher.predict_proba(X).astype(np.float32)
    return leave_one_out_by_score(lambda rows: margins[rows] @ items.T, y)
