"""Lives of databases, each drawn from one number; see `simulator`."""

from __future__ import annotations

import warnings

import pytest
import small
from simulator import simulate

N_SEEDS, N_TESTS = (10_000, 20) if small.SOAK else (80, 4)
FOUND = [218]  # seeds that found something, once


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(N_TESTS))
def test_lives(part):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer rows than anchors
        for seed in [*range(part, N_SEEDS, N_TESTS), *(FOUND if part == 0 else [])]:
            simulate(seed)
