"""Seconds by the clock, and of the processor: the latter mean something on a machine that others use too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
Seconds = dict[str, float]


def timed(work: Callable[[], T]) -> tuple[T, Seconds]:
    """What ``work()`` returns, and its seconds: ``wall``, and ``cpu`` summed over all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
