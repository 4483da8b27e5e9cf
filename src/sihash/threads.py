"""Row blocks side by side: one thread per core, each with a single-threaded BLAS.

Two threads that multiply a block each beat one multiplication on two threads for the tall, narrow
products of this package; the loops between the products run in parallel for nothing; and as blocks are
summed in their own order, the number of threads changes no result.

The caller is one of the threads. It works on items like the others, which fetch theirs from the same list: no
item is handed over, and nobody has to be woken for each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_pool: ContextVar[ThreadPoolExecutor | None] = ContextVar("sihash_pool", default=None)
_team_size: ContextVar[int] = ContextVar("sihash_team_size", default=1)


def _blas() -> Any:
    """What limits the threads of every BLAS here."""
    return _controller("scipy.linalg" in sys.modules)


@cache
def _controller(with_scipy: bool) -> Any:
    """scipy brings a BLAS of its own, which has to be known to be limited; searches do without it."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def n_threads() -> int:
    """As many as the BLAS may use now: OPENBLAS_NUM_THREADS and threadpoolctl limits are honoured."""
    return max((library["num_threads"] for library in _blas().info()), default=1)


@contextmanager
def team(size: int | None = None) -> Iterator[None]:
    """Keep the threads of `map_threads` together for the length of a ``with`` block.

    Inside it the BLAS has one thread everywhere. When it ends no thread is left behind for a later fork to
    lose. ``size`` is the number of threads, that of the BLAS unless given.
    """
    if _pool.get() is not None:
        yield
        return
    this = object()
    try:
        before = _limit.enter(this)
        count = before if size is None else size
        if count <= 1:
            yield
            return
        with ThreadPoolExecutor(count - 1) as pool:  # the caller is one more
            tokens = _pool.set(pool), _team_size.set(count)
            try:
                yield
            finally:
                _pool.reset(tokens[0])
                _team_size.reset(tokens[1])
    finally:
        _limit.leave(this)


class _Limit:
    """One BLAS thread while any team is at work, in any thread of the program; the last one restores."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._teams: set[object] = set()
        self._n_threads = 1
        self._limiter: Any = None  # there while the BLAS is limited

    def enter(self, team: object) -> int:
        """Returns how many threads there were before the first team came. Ctrl-C may cut it short."""
        with self._lock:
            self._teams.add(team)
            if self._limiter is None:
                self._n_threads = n_threads()
                self._limiter = _blas().limit(limits=1)
            return self._n_threads

    def leave(self, team: object) -> None:
        """Whether or not the team had entered."""
        with self._lock:
            self._teams.discard(team)
            if not self._teams and self._limiter is not None:
                self._limiter.restore_original_limits()
                self._limiter = None


_limit = _Limit()


def n_threads_of_team() -> int:
    """How many threads `map_threads` has here."""
    return n_threads() if _pool.get() is None else _team_size.get()


def map_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """``[function(item) for item in items]``, computed side by side."""
    items = list(items)
    results: list[Any] = [None] * len(items)

    def work(k: int) -> None:
        results[k] = function(items[k])

    _side_by_side(work, len(items))
    return results


def fold_threads(
    function: Callable[[Item], Result], items: Iterable[Item], add: Callable[[Item, Result], None]
) -> None:
    """``add(item, function(item))`` for every item: the functions side by side, the rest in their order.

    For large results: one is added by the thread that has it, unless it must wait for those before it.
    """
    items = list(items)
    waiting: dict[int, Result] = {}
    lock, n_added = Lock(), 0

    def work(k: int) -> None:
        nonlocal n_added
        result = function(items[k])
        with lock:
            waiting[k] = result
            while n_added in waiting:
                add(items[n_added], waiting.pop(n_added))
                n_added += 1

    _side_by_side(work, len(items))


def _side_by_side(work: Callable[[int], None], n: int) -> None:
    """``work(k)`` for every ``k`` below ``n``, by the threads of the `team`; an error comes through."""
    if _pool.get() is None and n > 1 and n_threads() > 1:
        with team():  # which may be of one thread: a BLAS that came since it was limited says otherwise
            _share(work, n)
    else:
        _share(work, n)


def _share(work: Callable[[int], None], n: int) -> None:
    pool = _pool.get()
    numbers, errors = iter(range(n)), list[BaseException]()

    def fetch_and_work() -> None:
        for k in numbers:
            try:
                work(k)
            except BaseException as error:
                errors.append(error)
            if errors:
                break

    n_helpers = min(_team_size.get(), n) - 1
    helpers = [] if pool is None else [pool.submit(fetch_and_work) for _ in range(n_helpers)]
    alone = _pool.set(None)  # what an item sends here itself, this thread does
    try:
        fetch_and_work()
    except BaseException as error:  # Ctrl-C between two items
        errors.append(error)
    finally:
        _pool.reset(alone)
        wait([helper for helper in helpers if not helper.cancel()])
    if errors:
        raise errors[0]


def start(function: Callable[[], Result]) -> Callable[[], Result]:
    """Begin ``function()`` in a thread of the `team` while the caller goes on; returns what waits for it.

    For work that is one thread's: what it sends to `map_threads` runs in that thread.
    """
    pool = _pool.get()
    if pool is None:
        result = function()
        return lambda: result
    return pool.submit(function).result


def uninterrupted(function: Callable[[], Result]) -> Result:
    """``function()`` in a thread of its own: Ctrl-C reaches the caller, after it has run to its end."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()
