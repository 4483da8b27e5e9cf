"""A stopwatch for the benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable


def timed(work: Callable[[], object]) -> float:
    """Seconds that ``work()`` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
