"""Batches of an array on all cores."""

from __future__ import annotations
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from threadpoolctl import threadpool_limits
from sihash._typing import Array


def map_batches(
    function: Callable[[Array], Array], rows: Array, n_out: int, *, batch: int, n_jobs: int | None = None
) -> Array:
    """``function`` of every batch of ``rows``, as float32 (n × n_out), on ``n_jobs`` threads.

    numpy leaves the interpreter lock in its loops and in BLAS, which is held to one thread here: small products
    scale over batches, not within one.
    """
    out = np.empty((len(rows), n_out), dtype=np.float32)

    def work(start: int) -> None:
        out[start : start + batch] = function(rows[start : start + batch])

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_jobs or os.cpu_count()) as pool:
        for _ in pool.map(work, range(0, len(rows), batch)):
            pass
    return out
