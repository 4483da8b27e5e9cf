"""The loops of L-BFGS over the curvature pairs of many bits, around an inverse Hessian that is given.

``s`` and ``y`` (m × pairs × d) hold the pairs of each bit, the newest last, and ``rho`` (m × pairs) is ``1 /
s·y``, or 0 where there is no pair. ``bits`` says which ones the rows of the other arrays belong to.
"""

from __future__ import annotations

import numba
import numpy as np

from sihash._typing import Array


@numba.njit(nogil=True, fastmath=True, cache=True)
def before_hessian(q: Array, s: Array, y: Array, rho: Array, bits: Array) -> Array:
    """Turn gradients ``q`` (bits × d), in place, into what the inverse Hessian is applied to.

    Returns the coefficients that `behind_hessian` needs.
    """
    alpha = np.zeros((len(bits), rho.shape[1]))
    for i in range(len(bits)):
        j = bits[i]
        for k in range(rho.shape[1] - 1, -1, -1):
            if rho[j, k] != 0:
                alpha[i, k] = rho[j, k] * _dot(s[j, k], q[i])
                _add(q[i], -alpha[i, k], y[j, k])
    return alpha


@numba.njit(nogil=True, fastmath=True, cache=True)
def behind_hessian(h: Array, alpha: Array, s: Array, y: Array, rho: Array, bits: Array) -> None:
    """Turn what came out of it, ``h`` (bits × d), in place, into the quasi-Newton step."""
    for i in range(len(bits)):
        j = bits[i]
        for k in range(rho.shape[1]):
            if rho[j, k] != 0:
                beta = rho[j, k] * _dot(y[j, k], h[i])
                _add(h[i], alpha[i, k] - beta, s[j, k])


@numba.njit(nogil=True, cache=True)
def remember(s: Array, y: Array, rho: Array, bits: Array, move: Array, change: Array, product: Array) -> None:
    """Take in a pair for each of ``bits``, in place of its oldest one; ``product`` is ``move · change``."""
    last = rho.shape[1] - 1
    for i in range(len(bits)):
        j = bits[i]
        for k in range(last):
            s[j, k], y[j, k], rho[j, k] = s[j, k + 1], y[j, k + 1], rho[j, k + 1]
        s[j, last], y[j, last], rho[j, last] = move[i], change[i], 1 / product[i]


@numba.njit(nogil=True, fastmath=True, cache=True)
def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for e in range(len(a)):
        total += a[e] * b[e]
    return total


@numba.njit(nogil=True, fastmath=True, cache=True)
def _add(a: Array, factor: float, b: Array) -> None:
    for e in range(len(a)):
        a[e] += factor * b[e]
