"""The score of an item for a query: how likely they are of one class, and how near their vectors are.

    score(q, i) = log Σ_k r_k · π_ik + 1 − w (1 − cos(q, i))

``cos`` is the cosine between the centred vectors. ``π_i`` says which class the item is of: for certain where
it has a label, by the class model where it has none; of an item with several labels π is 1 for each of them,
and the sum is the probability that it has the query's class. ``r`` says which class the query is of:

    r_k ∝ p_k^a · (v_k + ε)^b,    v_k ∝ mean of exp(τ cos(q, i)) over the nearest 5 candidates i of class k

where ``p`` are the probabilities of the class model (`sihash.hashing.class_model`) and ``v`` the votes of the
candidates. The model knows what tells classes apart; labels of the nearest items know the exceptions. A class
is heard through its nearest few, not through all, so that a large one does not outvote a small one. Classes
that came since the hash functions were learned keep the share that the model gives them, without votes: they
may have hardly any items yet.
Where classes are right, cosine only orders within them; where they carry little, ``w`` lets near items win.
``a``, ``b``, ``τ`` and ``w`` (`Weights`) are found on rows that neither had seen (`sihash.ranking.weights`).

An item whose vector is the query's own is of its class for certain. Its score is 1, which no other reaches.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.logistic import log_softmax

FLOOR = 1e-3  # ε: what a class has of the votes when nobody votes for it
VOTERS = 5  # of each class; 1 to 10 are as good but for classes of few items
FAMILIAR_CANDIDATES = 5  # candidates whose mean score says how familiar a query looks
SMALLEST = 1e-30  # probability that has a logarithm
SAME = 1 - 1e-9  # a cosine from which on two vectors are one, but for rounding


@dataclass(frozen=True)
class Weights:
    """What the class model (a), the votes (b) and the vector (w) count, and how much the nearest voters (τ).

    A query whose best candidates score less than ``familiar_from`` on the average looks like none of the
    classes; ``n_rows`` rows were asked to find these numbers, of which ``refused`` (a share) look so
    although they do belong to one.
    """

    model: float = 1.0
    votes: float = 0.5
    sharpness: float = 30.0
    vector: float = 1.0
    familiar_from: float = -1e6  # below every score
    refused: float = 0.0
    n_rows: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ItemLabels:
    """Classes of items: positions of all of them, one item after the other, and how many each has (n,)."""

    flat: Array
    counts: Array

    @property
    def items(self) -> Array:
        """The place of the item for each entry of ``flat``."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def first(self, n: int) -> ItemLabels:
        """Of the first ``n`` items."""
        return ItemLabels(self.flat[: self.counts[:n].sum()], self.counts[:n])

    def has_any(self, classes: Any) -> Array:
        """Which items have one of some classes."""
        return np.bincount(self.items[np.isin(self.flat, classes)], minlength=len(self.counts)) > 0

    def log_sums(self, log_r: Array) -> Array:
        """log Σ r over the classes of each labelled item, for one query or several (… × n_classes)."""
        own = self.counts[self.counts > 0]
        if len(own) == len(self.flat):  # one label each
            return log_r[..., self.flat]
        return np.logaddexp.reduceat(log_r[..., self.flat], np.cumsum(own) - own, axis=-1)

    def log_sums_of(self, log_r: Array) -> Array:
        """log Σ r over the classes of each item, by its own row of ``log_r`` (n × n_classes)."""
        return np.logaddexp.reduceat(log_r[self.items, self.flat], np.cumsum(self.counts) - self.counts)


@dataclass(frozen=True)
class Candidates:
    """What is known of the candidates for one query.

    ``cosines`` (n,) to the query; ``labels``, their classes, those that the hash functions know first;
    ``guessed`` (number of items without a label × number of classes), probabilities by the class model.
    """

    cosines: Array
    labels: ItemLabels
    guessed: Array


def votes(found: Candidates, n_classes: int, sharpness: float) -> Array:
    """v (n_classes,), which sums up to 1.

    An item votes for each of its labels. One without a label votes for the class that it is likeliest of, as
    far as that is sure.
    """
    if not len(found.cosines):
        return np.full(n_classes, 1 / n_classes)
    every = np.exp(sharpness * (found.cosines - found.cosines.max()))
    classes, weight = found.labels.flat, every[found.labels.items]
    if len(found.guessed):
        classes = np.concatenate([classes, found.guessed.argmax(axis=1)])
        unsure = every[found.labels.counts == 0] * found.guessed.max(axis=1)
        weight = np.concatenate([weight, unsure])
    order = np.lexsort((-weight, classes))
    classes, weight = classes[order], weight[order]
    heard = np.arange(len(classes)) - np.searchsorted(classes, classes) < VOTERS
    totals = np.bincount(classes[heard], weight[heard], minlength=n_classes)
    means = totals / np.maximum(np.bincount(classes[heard], minlength=n_classes), 1)
    return means / means.sum()


def class_log_probabilities(
    log_p: Array, share: Array, weights: Weights, n_learned: int | None = None
) -> Array:
    """log r of one query (n_classes,) or several (n × n_classes), from log p and the votes.

    Classes behind the first ``n_learned`` keep the share that log p gives them.
    """
    learned, new = np.split(log_p, [log_p.shape[-1] if n_learned is None else n_learned], axis=-1)
    mixed = weights.model * learned + weights.votes * np.log(share[..., : learned.shape[-1]] + FLOOR)
    rest = np.log(np.exp(learned).sum(axis=-1, keepdims=True) + np.finfo(np.float32).tiny)
    return np.concatenate([log_softmax(mixed) + (rest if new.shape[-1] else 0), new], axis=-1)


def label_scores(log_r: Array, found: Candidates) -> Array:
    """log Σ_k r_k π_ik of every candidate, never above 0."""
    scores = np.empty(len(found.cosines))
    labelled = found.labels.counts > 0
    scores[labelled] = found.labels.log_sums(log_r)
    if len(found.guessed):
        scores[~labelled] = np.log(found.guessed @ np.exp(log_r) + np.finfo(float).tiny)
    return np.minimum(scores, 0)


def combined_scores(log_r: Array, found: Candidates, vector: float) -> Array:
    """The score at the top of this file, for every candidate."""
    same = found.cosines >= SAME
    return np.where(
        same, 1.0, label_scores(log_r, found) + 1 - vector * (1 - np.minimum(found.cosines, SAME))
    )


def familiarity(scores: Array) -> float:
    """The mean of the best scores: low where no item is near, and where no class is likely."""
    if not len(scores):
        return -np.inf
    n = min(FAMILIAR_CANDIDATES, len(scores))
    return float(np.partition(scores, -n)[-n:].mean())
