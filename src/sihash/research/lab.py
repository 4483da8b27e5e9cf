"""Where runs are done: each once, its data loaded once, its result on disk before the next one starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sihash.research.records import Key, Records
from sihash.research.scales import Scale
from sihash.research.task import Task, load_task

Result = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One piece of work. ``key`` names it for good; ``cost`` is a rough number of seconds."""

    key: Key
    work: Callable[[Lab], Result]
    cost: float = 1.0

    def __str__(self) -> str:
        return " ".join(str(value) for name, value in self.key.items() if name != "scale")


@dataclass
class RunProgress:
    """What `Lab.execute` tells after every run."""

    run: Run
    done: int
    total: int
    cost_done: float
    cost_total: float
    seconds: float


@dataclass
class Lab:
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

    def execute(self, runs: list[Run], tell: Callable[[RunProgress], None] | None = None) -> None:
        """Do the runs that have no record yet, in order; of two with one key the second is done already."""
        todo = [run for run in _distinct(runs) if run.key not in self.records]
        total, cost_total = len(todo), sum(run.cost for run in todo)
        cost_done = 0.0
        for done, run in enumerate(todo, start=1):
            start = time.perf_counter()
            result = run.work(self)
            seconds = time.perf_counter() - start
            self.records.add(run.key, result, seconds)
            cost_done += run.cost
            if tell:
                tell(RunProgress(run, done, total, cost_done, cost_total, seconds))


def _distinct(runs: list[Run]) -> list[Run]:
    seen: dict[str, Run] = {}
    for run in runs:
        seen.setdefault(str(sorted(run.key.items(), key=lambda item: item[0])), run)
    return list(seen.values())
