"""The weights of the score, by maximum likelihood on rows that the hash functions were not trained on."""

from __future__ import annotations

from collections.abc import Sequence

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
REFUSED = 0.05  # share of the queries of known classes that may look like none of them
FEWEST_ROWS = 50  # rows; with fewer the default weights are as good a guess


def fit_weights(log_p: Array, y: ItemLabels, found: Sequence[Candidates]) -> Weights:
    """Weights under which the classes ``y`` of some rows are likeliest; all must have one.

    Of a row with several, each is as likely to be asked for.

    ``log_p`` (n × n_classes) are the log-probabilities by their margins, ``found`` their candidates, the row
    itself not among them. Given τ the likelihood has one maximum in a and b; some values of τ are tried.
    """
    if len(y.counts) < FEWEST_ROWS:
        return Weights()
    n_classes = log_p.shape[1]
    least, weights = np.inf, Weights()
    for sharpness in SHARPNESS:
        log_v = np.log(np.array([votes(each, n_classes, sharpness) for each in found]) + FLOOR)
        loss, (a, b) = _fit(log_p, log_v, y)
        if loss < least:
            least, weights = loss, Weights(a, b, sharpness)
    shares = np.array([votes(each, n_classes, weights.sharpness) for each in found])
    log_r = class_log_probabilities(log_p, shares, weights)
    best = np.array([familiarity(combined_scores(own, each)) for own, each in zip(log_r, found, strict=True)])
    threshold = float(np.quantile(best, REFUSED))
    refused = float((best < threshold).mean())
    return Weights(weights.margins, weights.votes, weights.sharpness, threshold, refused, len(y.counts))


def _fit(log_p: Array, log_v: Array, y: ItemLabels) -> tuple[float, tuple[float, float]]:
    """The least mean loss, and the (a, b) that have it; neither is negative."""
    rows, starts = y.items, np.cumsum(y.counts) - y.counts

    def of_labels(scores: Array) -> Array:
        """The mean over the labels of each row."""
        return np.add.reduceat(scores[rows, y.flat], starts) / y.counts

    own = np.stack([of_labels(log_p), of_labels(log_v)])

    def loss(weights: Array) -> tuple[float, Array]:
        log_r = log_softmax(weights[0] * log_p + weights[1] * log_v, axis=1)
        r = np.exp(log_r)
        slope = [np.mean(np.sum(r * each, axis=1)) for each in (log_p, log_v)] - own.mean(axis=1)
        return -float(of_labels(log_r).mean()), slope

    from scipy.optimize import minimize  # only learning needs it

    found = minimize(loss, [0.5, 0.5], jac=True, method="L-BFGS-B", bounds=[(0, 10), (0, 10)])
    return float(found.fun), (float(found.x[0]), float(found.x[1]))
