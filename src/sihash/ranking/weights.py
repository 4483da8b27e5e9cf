"""The weights of the score, by maximum likelihood on rows that nothing was learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sihash._typing import Array
from sihash.logistic import log_softmax
from sihash.ranking.score import (
    FLOOR,
    Candidates,
    ItemLabels,
    Weights,
    class_log_probabilities,
    combined_scores,
    familiarity,
    votes,
)

SHARPNESS = (5.0, 10.0, 20.0, 40.0, 80.0)  # values of τ tried; a factor of two changes P@10 by less than 0.01
VECTOR_WEIGHTS, JUDGED = (4.0, 16.0, 64.0), 10  # values of w tried beside 1, and hits that judge them
REFUSED = 0.05  # share of the queries of known classes that may look like none of them
FEWEST_ROWS = 50  # rows; with fewer the default weights are as good a guess


def fit_weights(log_p: Array, y: ItemLabels, found: Sequence[Candidates]) -> Weights:
    """Weights under which the classes ``y`` of some rows are likeliest; all must have one.

    Every class counts alike; where rows have several labels every row does, and each of its labels is as
    likely to be asked for. Votes count if they help clearly.

    ``log_p`` (n × n_classes) are those of the class model, ``found`` the candidates, the row itself not among
    them. Given τ the likelihood has one maximum in a and b; some values of τ are tried.
    """
    if len(y.counts) < FEWEST_ROWS:
        return Weights()
    n_classes = log_p.shape[1]
    several = bool(y.counts.max() > 1)
    share = np.ones(len(y.counts)) if several else 1 / np.bincount(y.flat)[y.flat]
    share /= share.sum()
    alone = _losses(log_p, y)
    least, weights = float(share @ alone), Weights(1.0, 0.0)
    for sharpness in SHARPNESS:
        log_v = np.log(np.array([votes(each, n_classes, sharpness) for each in found]) + FLOOR)
        losses, (a, b) = _fit(log_p, log_v, y, share)
        gain = alone - losses
        doubt = np.sqrt(np.sum((share * (gain - share @ gain)) ** 2))
        if share @ losses < least and share @ gain > 2 * doubt:
            least, weights = float(share @ losses), Weights(a, b, sharpness)
    shares = np.array([votes(each, n_classes, weights.sharpness) for each in found])
    log_r = class_log_probabilities(log_p, shares, weights)
    weights = replace(weights, vector=_vector_weight(log_r, y, found, share))
    best = np.array(
        [
            familiarity(combined_scores(own, each, weights.vector))
            for own, each in zip(log_r, found, strict=True)
        ]
    )
    threshold = float(np.quantile(best, REFUSED))
    refused = float((best < threshold).mean())
    return replace(weights, familiar_from=threshold, refused=refused, n_rows=len(y.counts))


def _vector_weight(log_r: Array, y: ItemLabels, found: Sequence[Candidates], share: Array) -> float:
    """The weight w with most right hits among the first ten, if that is clearly more than with w = 1."""
    of_query = np.split(y.flat, np.cumsum(y.counts)[:-1])

    def precision(vector: float) -> Array:
        out = np.zeros(len(found))
        for k, (own, each, labels) in enumerate(zip(log_r, found, of_query, strict=True)):
            first = np.argsort(-combined_scores(own, each, vector), kind="stable")[:JUDGED]
            right = each.labels.has_any(labels)[first]
            out[k] = (right[0] + right.mean()) / 2 if len(right) else 0.0
        return out

    usual = precision(Weights.vector)
    best, gain = Weights.vector, 0.0
    for vector in VECTOR_WEIGHTS:
        more = precision(vector) - usual
        mean = float(share @ more)
        if mean > max(gain, 2 * np.sqrt(np.sum((share * (more - mean)) ** 2))):
            best, gain = vector, mean
    return best


def _losses(log_r: Array, y: ItemLabels) -> Array:
    """−log r of the class of each row, the mean over its labels if there are several."""
    starts = np.cumsum(y.counts) - y.counts
    return -np.add.reduceat(log_r[y.items, y.flat], starts) / y.counts


def _fit(log_p: Array, log_v: Array, y: ItemLabels, share: Array) -> tuple[Array, tuple[float, float]]:
    """The losses of the (a, b) whose mean, by the ``share`` of each row, is least; neither is negative."""
    right = np.stack([-_losses(log_p, y), -_losses(log_v, y)])

    def loss(weights: Array) -> tuple[float, Array]:
        log_r = log_softmax(weights[0] * log_p + weights[1] * log_v)
        r = np.exp(log_r)
        slope = [share @ np.sum(r * each, axis=1) for each in (log_p, log_v)] - right @ share
        return float(share @ _losses(log_r, y)), slope

    from scipy.optimize import minimize  # only learning needs it

    a, b = minimize(loss, [0.5, 0.5], jac=True, method="L-BFGS-B", bounds=[(0, 10), (0, 10)]).x
    return _losses(log_softmax(a * log_p + b * log_v), y), (float(a), float(b))
