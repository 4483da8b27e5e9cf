"""What takes long to find out about the database: made when somebody asks, and kept until it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from sihash.database import Database
from sihash.threads import team

Answer = TypeVar("Answer")


class Kept(Generic[Answer]):
    """The last answer of ``make``. Of many who ask at once, one lets it be made, and the others wait."""

    def __init__(self, path: str, make: Callable[[Database], Answer]) -> None:
        self._path, self._make = path, make
        self._kept: tuple[int, Answer] | None = None  # the operation that it was made after
        self._making = asyncio.Lock()

    async def current(self) -> Answer:
        """Of the database as it is now."""
        async with self._making:
            return await asyncio.to_thread(self._current)

    def _current(self) -> Answer:
        # A handle of its own: no search and no change waits until it is done.
        with Database(self._path) as database:
            operation = database.info()["operation"]
            if self._kept is None or self._kept[0] != operation:
                with team(1):  # searches need the other cores
                    self._kept = operation, self._make(database)
            return self._kept[1]
