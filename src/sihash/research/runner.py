"""Where runs are done: each once, its data loaded once, its result on disk before the next one starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sihash.research.records import Key, Records, record_id
from sihash.research.scales import Scale
from sihash.research.task import Task, load_task

T = TypeVar("T")
Result = dict[str, Any]
Seconds = dict[str, float]


def timed(work: Callable[[], T]) -> tuple[T, Seconds]:
    """What ``work()`` returns, and its seconds: ``wall``, and ``cpu`` summed over all threads.

    The latter mean something on a machine that others use too.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


@dataclass(frozen=True)
class Run:
    """One piece of work. ``key`` names it for good; ``cost`` is a rough number of seconds."""

    key: Key
    work: Callable[[Runner], Result]
    cost: float = 1.0

    def __str__(self) -> str:
        return " ".join(str(value) for name, value in self.key.items() if name != "scale")


@dataclass
class RunProgress:
    """What `Runner.execute` tells after every run."""

    run: Run
    result: Result
    done: int
    total: int
    cost_done: float
    cost_total: float
    seconds: float


@dataclass
class Runner:
    """Records, the scale, and the one data set that is in memory."""

    scale: Scale
    records: Records
    cache: dict[Any, Any] = field(default_factory=dict)

    def task(self, name: str) -> Task:
        return self.keep(("task", name), lambda: load_task(name, self.scale.n_train, self.scale.n_test))

    def keep(self, key: tuple[str, Any], make: Callable[[], Any]) -> Any:
        """The value of ``make()``; only the last one of each kind stays in memory."""
        kind, which = key
        if kind not in self.cache or self.cache[kind][0] != which:
            self.cache.pop(kind, None)
            self.cache[kind] = which, make()
        return self.cache[kind][1]

    def execute(
        self, runs: list[Run], tell: Callable[[RunProgress], None] | None = None, *, retry: bool = False
    ) -> None:
        """Do the runs that have no record yet, in order; of two with one key the second is done already.

        ``retry`` also does those whose record says ``failed``.
        """
        distinct = dict[str, Run]()
        for run in runs:
            distinct.setdefault(record_id(run.key), run)
        todo = [run for run in distinct.values() if self._is_open(run.key, retry)]
        total, cost_total = len(todo), sum(run.cost for run in todo)
        cost_done = 0.0
        for done, run in enumerate(todo, start=1):
            result, seconds = timed(lambda run=run: run.work(self))  # type: ignore[misc]
            self.records.add(run.key, result, seconds["wall"])
            cost_done += run.cost
            if tell:
                tell(RunProgress(run, result, done, total, cost_done, cost_total, seconds["wall"]))

    def _is_open(self, key: Key, retry: bool) -> bool:
        return key not in self.records or (retry and "failed" in self.records[key]["result"])
