"""Stopwatches for the benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable


def timed(work: Callable[[], object]) -> float:
    """Seconds that ``work()`` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def processor_time(work: Callable[[], object]) -> float:
    """Processor seconds that ``work()`` takes, of all threads: other work on the machine adds little."""
    start = time.process_time()
    work()
    return time.process_time() - start
