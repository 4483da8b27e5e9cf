"""The score of an item for a query: how likely they are of one class, and how near their vectors are.

    score(q, i) = log Σ_k r_k · π_ik + cos(q, i)

``cos`` is the cosine between the centred vectors. ``π_i`` says which class the item is of: for certain where
it has a label, by its code where it has none. ``r`` says which class the query is of:

    r_k ∝ p_k^a · (v_k + ε)^b,    v_k ∝ mean of exp(τ cos(q, i)) over the nearest 5 candidates i of class k

where ``p`` are the class probabilities by the query's margins and ``v`` the votes of the candidates. Margins
know what tells classes apart; labels of the nearest items know the exceptions. A class is heard through its
nearest few, not through all, so that a large one does not outvote a small one by its size.
``a``, ``b`` and ``τ`` (`Weights`) are found on rows that the hash functions were not trained on
(`sihash.ranking.weights`).

An item whose vector is the query's own is of its class for certain. Its score is 1, which no other reaches.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax

from sihash._typing import Array

FLOOR = 1e-3  # ε: what a class has of the votes when nobody votes for it
VOTERS = 5  # of each class; 1 to 10 are as good but for classes of few items (docs/search.md)
FAMILIAR_CANDIDATES = 5  # candidates whose mean score says how familiar a query looks
SAME = 1 - 1e-9  # a cosine from which on two vectors are one, but for rounding


@dataclass(frozen=True)
class Weights:
    """What the margins (a) and the votes (b) count, and how much more the near ones of the voters (τ).

    A query whose best candidates score less than ``familiar_from`` on the average looks like none of the
    classes; ``n_rows`` rows were asked to find these numbers, of which ``refused`` (a share) look so
    although they do belong to one.
    """

    margins: float = 1.0
    votes: float = 0.5
    sharpness: float = 30.0
    familiar_from: float = -1e6  # below every score
    refused: float = 0.0
    n_rows: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Candidates:
    """What is known of the candidates for one query.

    ``cosines`` (n,) to the query; ``classes`` (n,) positions of their classes, −1 where there is no label
    that the hash functions know; ``by_code`` (number of those × n_classes), class probabilities by the code.
    """

    cosines: Array
    classes: Array
    by_code: Array


def votes(found: Candidates, n_classes: int, sharpness: float) -> Array:
    """v (n_classes,), which sums up to 1.

    An item without a label votes for the class that its code is likeliest of, as far as that is sure.
    """
    if not len(found.cosines):
        return np.full(n_classes, 1 / n_classes)
    weight = np.exp(sharpness * (found.cosines - found.cosines.max()))
    classes = found.classes.copy()
    if len(found.by_code):
        unlabelled = classes < 0
        classes[unlabelled] = found.by_code.argmax(axis=1)
        weight[unlabelled] *= found.by_code.max(axis=1)
    order = np.lexsort((-weight, classes))
    classes, weight = classes[order], weight[order]
    heard = np.arange(len(classes)) - np.searchsorted(classes, classes) < VOTERS
    totals = np.bincount(classes[heard], weight[heard], minlength=n_classes)
    means = totals / np.maximum(np.bincount(classes[heard], minlength=n_classes), 1)
    return means / means.sum()


def class_log_probabilities(log_p: Array, share: Array, weights: Weights) -> Array:
    """log r of one query (n_classes,) or several (n × n_classes), from log p and the votes."""
    mixed = weights.margins * log_p + weights.votes * np.log(share + FLOOR)
    return log_softmax(mixed, axis=-1)


def label_scores(log_r: Array, found: Candidates) -> Array:
    """log Σ_k r_k π_ik of every candidate, never above 0."""
    scores = np.empty(len(found.classes))
    labelled = found.classes >= 0
    scores[labelled] = log_r[found.classes[labelled]]
    if len(found.by_code):
        scores[~labelled] = np.log((found.by_code * np.exp(log_r)).sum(axis=1) + np.finfo(float).tiny)
    return np.minimum(scores, 0)


def combined_scores(log_r: Array, found: Candidates) -> Array:
    """The score at the top of this file, for every candidate."""
    same = found.cosines >= SAME
    return np.where(same, 1.0, label_scores(log_r, found) + np.minimum(found.cosines, SAME))


def familiarity(scores: Array) -> float:
    """The mean of the best scores: low where no item is near, and where no class is likely."""
    if not len(scores):
        return -np.inf
    n = min(FAMILIAR_CANDIDATES, len(scores))
    return float(np.partition(scores, -n)[-n:].mean())
