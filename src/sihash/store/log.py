"""The log: what follows from the operations of a database alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast


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
    """What follows from the operations alone; ``last`` is the latest of them."""

    last: Operation

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations: dict[int, Operation] = {}
        self.undone: set[int] = set()
        self.next_number = 0  # numbers are never given twice, not even those of undone additions
        self.next_id = 0  # the next number that can be an id: past every one that a user has given
        self._columns: Counter[tuple[str, str]] = Counter()  # in how many additions each was
        self._learned: dict[int, Operation] = {}  # by version
        self._undone_versions: set[int] = set()
        for operation in operations:
            self.append(operation)

    def append(self, operation: Operation) -> None:
        self.operations[operation.number] = self.last = operation
        if operation.kind in ("create", "add"):
            about = operation.details
            self.next_number = max(self.next_number, about["first_id"] + about["n_added"])
            self.next_id = max(self.next_id, self.next_number, about["largest_id"] + 1)
            if about["columns"]:
                self._columns.update(about["columns"].items())
        if operation.kind in ("create", "update"):
            self._learned[operation.version] = operation
        if operation.kind == "undo" and operation.target is not None:
            self.undone.add(operation.target)
            target = self.operations[operation.target]
            if target.kind == "add":
                self._columns.subtract(target.details["columns"].items())
            if target.kind == "update":
                self._undone_versions.add(target.version)

    def and_then(self, operations: Iterable[Operation]) -> Log:
        """A log that goes on from this one, which stays as it is."""
        longer = copy(self)
        longer.operations, longer.undone = self.operations.copy(), self.undone.copy()
        longer._columns, longer._learned = self._columns.copy(), self._learned.copy()
        longer._undone_versions = self._undone_versions.copy()
        for operation in operations:
            longer.append(operation)
        return longer

    @property
    def columns(self) -> dict[str, str]:
        """Names and kinds of the columns."""
        return {name: kind for (name, kind), n in self._columns.items() if n > 0}

    @property
    def next_version(self) -> int:
        return max(o.version for o in self.operations.values()) + 1

    def of_kind(self, *kinds: str) -> list[Operation]:
        return [o for o in self.operations.values() if o.kind in kinds]

    def undoable(self) -> Operation | None:
        """The last operation that can be taken back: none before a compaction or the creation.

        Nor an update whose version before is not kept (`sihash.store.kept_versions`).
        """
        for number, operation in reversed(self.operations.items()):
            if operation.kind in ("create", "compact"):
                return None
            if operation.kind not in ("undo", "reencode") and number not in self.undone:
                is_lost = operation.kind == "update" and self.version_before(number) < self.oldest_version
                return None if is_lost else operation
        return None

    def learned(self, version: int) -> Operation:
        """The operation that a version was learned by."""
        return self._learned[version]

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

    @property
    def oldest_version(self) -> int:
        """The first version whose files are kept."""
        latest = self._learned[max(self._learned)]
        return int(latest.details.get("oldest", 0))

    def versions_in_force(self) -> list[int]:
        """The versions that undoing leads through, the first one first."""
        return [version for version in self._learned if not self.is_undone(version)]

    def is_undone(self, version: int) -> bool:
        """Whether a version was taken back; it is never in force again."""
        return version in self._undone_versions

    def version_before(self, number: int) -> int:
        """The model version in force just before an operation."""
        return self.operations[number - 1].version
