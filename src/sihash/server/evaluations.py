"""How well the database answers, measured when somebody asks and kept until it changes."""

from __future__ import annotations

import asyncio

from sihash.database import ImageDatabase
from sihash.server.models import ComparisonAnswer, comparison_answer
from sihash.threads import team

MAX_QUERIES, MAX_ITEMS = 500, 50_000  # half a minute or so, whatever the size of the collection


class Evaluations:
    """The last evaluation. Of many who ask at once, one lets it be made and the others wait for it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kept: tuple[int, ComparisonAnswer] | None = None  # the operation that it was made after
        self._making = asyncio.Lock()

    async def current(self) -> ComparisonAnswer:
        """Of the database as it is now."""
        async with self._making:
            return await asyncio.to_thread(self._current)

    def _current(self) -> ComparisonAnswer:
        # A handle of its own: no search and no change waits until it is done.
        with ImageDatabase(self._path) as database:
            info = database.info()
            if self._kept is None or self._kept[0] != info["operation"]:
                with team(1):  # searches need the other cores
                    found = database.compare(max_queries=MAX_QUERIES, max_items=MAX_ITEMS)
                self._kept = info["operation"], comparison_answer(info["version"], found)
            return self._kept[1]
