"""The log: what follows from the operations of a database alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

# Operations that write all rows again, which ends undoing.
REWRITES = ("compact", "refeature")
LEARNS = ("create", "update", "refeature")


@dataclass
class Operation:
    """One change of the database: ``version`` is the model in force after it, ``target`` what it undid."""

    number: int
    kind: str
    at: str
    version: int
    target: int | None
    _totals: str
    _details: str

    # There may be thousands of operations, and of most nobody asks for these.

    @property
    def totals(self) -> dict[str, list[int]]:
        return cast(dict[str, list[int]], json.loads(self._totals))

    @cached_property
    def details(self) -> dict[str, Any]:
        return cast(dict[str, Any], json.loads(self._details))


class Log:
    """All operations by number, in order. ``undone`` are the numbers of those that were taken back."""

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        self.operations = {operation.number: operation for operation in operations}
        self.undone = {o.target for o in self.operations.values() if o.target is not None}

    def and_then(self, operations: Iterable[Operation]) -> Log:
        """The log with more operations behind it; this one stays as it is."""
        return Log([*self.operations.values(), *operations])

    @property
    def last(self) -> Operation:
        return next(reversed(self.operations.values()))

    def of_kind(self, *kinds: str) -> list[Operation]:
        return [o for o in self.operations.values() if o.kind in kinds]

    def undoable(self) -> Operation | None:
        """The last operation that can be taken back: none before one that rewrites all.

        Nor an update whose version before is no longer stored (`sihash.store.compaction`).
        """
        for number, operation in reversed(self.operations.items()):
            if operation.kind in ("create", *REWRITES):
                return None
            if operation.kind not in ("undo", "reencode") and number not in self.undone:
                is_lost = operation.kind == "update" and self.version_before(number) < self.oldest_version
                return None if is_lost else operation
        return None

    def since_update(self) -> list[int]:
        """The last update in force and what came after it, latest first; nothing if its files may be gone."""
        since = []
        for number, operation in reversed(self.operations.items()):
            if operation.kind in REWRITES:
                return []
            if operation.kind not in ("undo", "reencode") and number not in self.undone:
                since.append(number)
                if operation.kind == "update":
                    is_stored = self.version_before(number) >= self.oldest_version
                    return since if is_stored else []
        return []

    # Items.

    @property
    def next_number(self) -> int:
        """Numbers of items are never given twice, not even those of undone additions."""
        return max(o.details["first_id"] + o.details["n_added"] for o in self.of_kind("create", "add"))

    @property
    def next_id(self) -> int:
        """The next number that can be an id: past every one that a user has given."""
        return max(self.next_number, *(o.details["largest_id"] + 1 for o in self.of_kind("create", "add")))

    @cached_property
    def columns(self) -> dict[str, str]:
        """Names and kinds of the columns of additions that are in force."""
        columns: dict[str, str] = {}
        for operation in self.of_kind("create", "add"):
            if operation.number not in self.undone:
                columns |= operation.details["columns"]
        return columns

    # Versions of the hash functions.

    @cached_property
    def _learned(self) -> dict[int, Operation]:
        return {operation.version: operation for operation in self.of_kind(*LEARNS)}

    def learned(self, version: int) -> Operation:
        """The operation that a version was learned by."""
        return self._learned[version]

    @property
    def next_version(self) -> int:
        return max(self._learned) + 1

    def version_before(self, number: int) -> int:
        """The version in force just before an operation."""
        return self.operations[number - 1].version

    def is_undone(self, version: int) -> bool:
        """Whether a version was taken back; it is never in force again."""
        return version in self._learned and self.learned(version).number in self.undone

    def versions_in_force(self) -> list[int]:
        """The versions that undoing leads through, the first one first."""
        return [version for version in self._learned if not self.is_undone(version)]

    @property
    def oldest_version(self) -> int:
        """The first version whose files are stored."""
        return int(self.learned(max(self._learned)).details.get("oldest", 0))

    def words_from(self, version: int) -> int:
        """The version at which the words of a version were drawn: codes made since then go with it."""
        return int(self.learned(version).details["words"])

    def codes_from(self, version: int) -> int:
        """The latest version by which all items that there were got their codes: by learning, or again."""
        words = self.words_from(version)
        whole = [o.version for o in self.of_kind("reencode") if o.details["is_last"]]
        return max([words, *(v for v in whole if self.has_valid_codes(v, version))])

    def has_valid_codes(self, version: int, now: int) -> bool:
        """Whether codes by ``version`` go with the hash functions of the version ``now``."""
        return self.is_valid(version, self.words_from(now), now)

    def is_valid(self, version: int, words: int, now: int) -> bool:
        """As `has_valid_codes`, of a version ``now`` whose words were drawn at the version ``words``."""
        return words <= version <= now and not self.is_undone(version)
