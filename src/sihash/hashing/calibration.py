"""Class probabilities from the scores of the second stage."""

from __future__ import annotations

import numpy as np

from sihash._typing import Array
from sihash.logistic import expit, log_expit, log_softmax, softmax


def second_stage(H: Array, W: Array) -> Array:
    """Scores of codes ±1 (n × n_bits) by the multi-class SVM, n × n_classes."""
    return H.astype(np.float64) @ W[:, :-1].T + W[:, -1]


def calibrate(T: Array, y: Array) -> Array:
    """Slope and one offset per class, ``[t, o_1 … o_K]``, for ``p = softmax(t · T + o)``.

    Maximum likelihood on scores ``T`` (n × K) and class positions ``y``, with a slight pull of all of them
    to zero, so that a class that is never confused stays finite.
    """
    n, K = T.shape
    spread = float(np.std(T)) or 1.0
    picked = np.zeros((n, K))
    picked[np.arange(n), y] = 1

    def loss(theta: Array) -> tuple[float, Array]:
        scores = theta[0] / spread * T + theta[1:]
        rest = softmax(scores, axis=1) - picked
        value = -log_softmax(scores, axis=1)[np.arange(n), y].mean() + 1e-3 * theta @ theta
        gradient = np.concatenate([[np.sum(rest * T) / (n * spread)], rest.mean(axis=0)]) + 2e-3 * theta
        return float(value), gradient

    from scipy.optimize import minimize  # only learning needs it

    start = np.concatenate([[1.0], np.zeros(K)])
    theta = minimize(loss, start, jac=True, method="L-BFGS-B").x
    theta[0] = max(theta[0], 1e-3) / spread
    return theta


def calibrate_labels(T: Array, Y: Array) -> Array:
    """The same for rows that may have several labels, ``Y`` (n × K, bool): ``p = σ(t · T + o)``."""
    n = len(T)
    spread = float(np.std(T)) or 1.0
    signs = np.where(Y, 1.0, -1.0)

    def loss(theta: Array) -> tuple[float, Array]:
        scores = theta[0] / spread * T + theta[1:]
        rest = -signs * expit(-signs * scores)
        value = -log_expit(signs * scores).sum() / n + 1e-3 * theta @ theta
        gradient = np.concatenate([[np.sum(rest * T) / (n * spread)], rest.mean(axis=0)]) + 2e-3 * theta
        return float(value), gradient

    start = np.concatenate([[1.0], np.zeros(T.shape[1])])
    from scipy.optimize import minimize  # only learning needs it

    theta = minimize(loss, start, jac=True, method="L-BFGS-B").x
    theta[0] = max(theta[0], 1e-3) / spread
    return theta


def probabilities(T: Array, theta: Array, several: bool = False) -> Array:
    """Calibrated probabilities (n × K) of scores ``T``: of one class a row, or of labels each by itself."""
    scores = theta[0] * T + theta[1:]
    return expit(scores) if several else softmax(scores, axis=1)
