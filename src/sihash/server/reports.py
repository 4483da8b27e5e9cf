"""Reports that take long to make: how good searches are, what is wrong with labels, the map.

They are cached by operation.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from sihash.database import Database
from sihash.database.answers import Label
from sihash.database.inspection.findings import Diagnosis
from sihash.server.models import ComparisonAnswer, ComparisonRow, MapAnswer
from sihash.threads import team

Report = TypeVar("Report")
MOST_BY_CLASS = 5000  # queries of the database alone, for there may be many classes
MAX_QUERIES, MAX_ITEMS = 500, 50_000  # half a minute or so, whatever the size of the collection


class ReportCache(Generic[Report]):
    """The last report of ``make``, until the database changes. Who asks while it is made waits for it."""

    def __init__(self, path: str, make: Callable[[Database], Report]) -> None:
        self._path, self._make = path, make
        self._last: tuple[int, Report] | None = None  # with the operation that it was made after
        self._making = asyncio.Lock()

    async def current(self) -> Report:
        """Of the database as it is now."""
        async with self._making:
            return await asyncio.to_thread(self._current)

    def _current(self) -> Report:
        # A handle of its own: no search and no change waits until it is done.
        with Database(self._path) as database:
            operation = database.operation
            if self._last is None or self._last[0] != operation:
                with team(1):  # searches need the other cores
                    self._last = operation, self._make(database)
            return self._last[1]


def evaluation(database: Database) -> ComparisonAnswer:
    found = database.compare(max_queries=MAX_QUERIES, max_items=MAX_ITEMS)
    return ComparisonAnswer(
        version=database.version,
        **{**vars(found), "rows": [ComparisonRow(**vars(row)) for row in found.rows]},
        advice=found.advice(),
        classes=database.evaluate(max_queries=MOST_BY_CLASS, max_items=MAX_ITEMS).classes,
    )


def map_of_items(database: Database) -> bytes:
    """A `MapAnswer` as JSON: with 100,000 items, writing it takes as long as drawing them."""
    found = database.map()
    labels: list[Label] = sorted({own[0] for own in found.labels if own}, key=str)
    place = {label: k for k, label in enumerate(labels)}
    x, y = np.rint((np.clip(found.coordinates, -1, 1).T + 1) * 32767.5).astype(int).tolist()
    classes = [place[own[0]] if own else -1 for own in found.labels]
    answer = MapAnswer(found.version, found.n_items, found.ids, x, y, classes, labels)
    return json.dumps(vars(answer), ensure_ascii=False, separators=(",", ":")).encode()


def diagnosis(database: Database) -> Diagnosis:
    return database.doctor()
