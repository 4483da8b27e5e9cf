"""Row blocks side by side: one thread a core, each with a single-threaded BLAS.

Two threads that multiply a block each beat one multiplication on two threads for the tall, narrow
products of this package; the loops between the products run in parallel for nothing; and as blocks are
summed in their own order, the number of threads changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_blas = ThreadpoolController().select(user_api="blas")


def n_threads() -> int:
    """As many as the BLAS may use now: OPENBLAS_NUM_THREADS and threadpoolctl limits are honoured."""
    return max((library["num_threads"] for library in _blas.info()), default=1)


def map_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """``[function(item) for item in items]``, computed side by side."""
    items = list(items)
    count = min(n_threads(), len(items))
    if count <= 1:
        return [function(item) for item in items]
    # A pool a call costs 0.1 ms, and leaves no threads behind for a later fork to lose.
    with _blas.limit(limits=1), ThreadPoolExecutor(count) as pool:
        return list(pool.map(function, items))


def uninterrupted(function: Callable[[], Result]) -> Result:
    """``function()`` in a thread of its own: Ctrl-C reaches the caller, after it has run to its end."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()
