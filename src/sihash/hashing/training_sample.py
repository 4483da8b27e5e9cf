"""Which rows of a large collection to learn from: a share of each class, fair as rows come and go.

Every row has a number for life, and a hash of that number between 0 and 1. A row of class k is in the sample
if its hash is below the *rate* of its class. So membership depends on the row and on the rate alone, never on
the order or the time at which rows came: a removed row leaves a fair sample behind, and a new one enters it
with the chance of any other. Rates lie on a grid. A collection that grows by a little changes none of them,
and the sample changes by what came and went.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sihash._typing import Array
from sihash.splitmix import mixed

Budget = int | Literal["all"]
DEFAULT_BUDGET = 100_000
LEAST_PER_CLASS = 100  # rows of a class, if it has them and the budget allows
STEPS_PER_HALVING = 8  # of the grid of rates


def check_budget(budget: object) -> Budget:
    """``training_rows`` as given: a whole number from 2 on, or "all"."""
    if isinstance(budget, str) and budget == "all":
        return "all"
    if isinstance(budget, int | np.integer) and not isinstance(budget, bool) and budget >= 2:
        return int(budget)
    raise ValueError(f"training_rows must be a whole number from 2 on, or 'all', got {budget!r}.")


def class_rates(sizes: Array, budget: Budget) -> Array:
    """The share of each class to learn from, so that about ``budget`` rows are.

    One rate for all classes, but for small ones, which keep `LEAST_PER_CLASS` rows. ``sizes`` counts the rows
    of each class.
    """
    sizes = np.asarray(sizes, dtype=np.float64)
    if budget == "all" or sizes.sum() <= budget:
        return np.ones(len(sizes))
    least = min(LEAST_PER_CLASS, budget / (2 * np.count_nonzero(sizes)))
    # Rates are 2 to the power of −step / STEPS_PER_HALVING.
    small = np.floor(-STEPS_PER_HALVING * np.log2(np.minimum(1.0, least / np.maximum(sizes, 1))))
    step = 0
    while np.exp2(-np.minimum(step, small) / STEPS_PER_HALVING) @ sizes > budget and step < small.max():
        step += 1
    return np.exp2(-np.minimum(step, small) / STEPS_PER_HALVING)


def in_sample(numbers: Array, classes: Array, rates: Array, has_rows: Array | None = None) -> Array:
    """Which rows to learn from, by their ``numbers`` for life and their ``classes`` (places in ``rates``).

    Of a class that would be left without a row, the one with the least hash is taken; classes that
    ``has_rows`` marks have some already.
    """
    hashes = mixed(numbers) / 2.0**64
    chosen = hashes < rates[classes]
    served = np.zeros(len(rates), dtype=bool) if has_rows is None else has_rows.copy()
    served[classes[chosen]] = True
    for k in np.unique(classes[~served[classes]]):
        own = np.flatnonzero(classes == k)
        chosen[own[np.argmin(hashes[own])]] = True
    return chosen
