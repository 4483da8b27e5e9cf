"""How well the bits of a set of codes are used: balance and correlation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sihash import codes as codes_module
from sihash._typing import Array

UNPACKED_ROWS = 1 << 16  # unpacked at a time; sums of this many ±1 are exact in float32


@dataclass(frozen=True)
class BitStatistics:
    """What the bits of a set of codes are worth.

    ``balance`` (n_bits,) is the share of codes with bit +1, ideally ½. ``correlation`` (n_bits × n_bits) is
    Pearson's, ideally 0 off the diagonal; a bit that never changes has none: 0 with all others.
    """

    balance: Array
    correlation: Array

    @property
    def mean_imbalance(self) -> float:
        """Mean over the bits of ``|2 · balance − 1|``: 0 if all are balanced, 1 if all are constant."""
        return float(np.abs(2 * self.balance - 1).mean())

    @property
    def mean_correlation(self) -> float:
        """Mean absolute correlation of two different bits; 0 for a single bit."""
        m = len(self.balance)
        off_diagonal = np.abs(self.correlation).sum() - np.abs(np.diag(self.correlation)).sum()
        return float(off_diagonal / (m * (m - 1))) if m > 1 else 0.0


def bit_statistics(codes: Array, n_bits: int | None = None) -> BitStatistics:
    """Balance and correlation of the bits of packed codes (n × n_bytes); ``n_bits`` if not all are used."""
    codes = np.asarray(codes)
    n_bits = 8 * codes.shape[1] if n_bits is None else n_bits
    if not len(codes):
        raise ValueError("Bit statistics need at least one code.")
    if not 1 <= n_bits <= 8 * codes.shape[1]:
        raise ValueError(
            f"Codes of {codes.shape[1]} bytes hold 1 to {8 * codes.shape[1]} bits, got n_bits={n_bits}."
        )
    sums, products = np.zeros(n_bits), np.zeros((n_bits, n_bits))
    for start in range(0, len(codes), UNPACKED_ROWS):
        B = codes_module.unpack(codes[start : start + UNPACKED_ROWS], n_bits).astype(np.float32)
        sums += B.sum(axis=0)
        products += B.T @ B
    mean = sums / len(codes)
    covariance = products / len(codes) - np.outer(mean, mean)
    deviation = np.sqrt(np.maximum(1 - mean**2, 0))
    scale = np.outer(deviation, deviation)
    correlation = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0)
    np.fill_diagonal(correlation, 1)
    return BitStatistics(balance=(mean + 1) / 2, correlation=correlation)
