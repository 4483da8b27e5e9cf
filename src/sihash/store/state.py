"""The state of a database: what its operations have made of its items; and how two states differ.

An operation is in force unless a later ``undo`` names it. An item is part of the collection if the operation
that brought it is in force, and none that is in force removed it. It has the labels that the last operation
in force gave it. A segment is searched by the latest codes that go with the version in force.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.store import files
from sihash.store.catalogue import Catalogue
from sihash.store.files import Written
from sihash.store.labels import LabelTable
from sihash.store.log import REWRITES, Log, Operation
from sihash.store.segments import Places, Segment

NEW = np.iinfo(np.int64).max  # no segment has this number


@dataclass(frozen=True)
class State:
    """A database at one moment; nothing in it changes.

    Segments come in the order of their ids. ``removed`` (2 × n) are ids and the operations that removed them;
    ``relabelled`` (3 × n) also has the class numbers given; both are sorted by id, then by operation. Class
    numbers are those of ``labels``, which later states share and extend.
    """

    log: Log
    labels: LabelTable
    segments: list[Segment]
    removed: Array
    relabelled: Array

    @property
    def operation(self) -> int:
        return self.log.last.number

    @property
    def version(self) -> int:
        return self.log.last.version

    @property
    def n_items(self) -> int:
        return sum(int(segment.alive.sum()) for segment in self.segments)

    def dead_ids(self) -> Array:
        """Ids of stored items that are not part of the collection."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(s.ids[~s.alive] for s in self.segments)])


def read_state(
    root: Path, catalogue: Catalogue, before: State | None = None, undoing: Sequence[int] = ()
) -> State:
    """The state that a catalogue describes now, or would if the operations ``undoing`` were undone, too.

    ``before`` is an earlier state of the same catalogue: segments that nothing has happened to are taken over
    from it, and so are the rows that have been read already.
    """
    # 1. Rows of the catalogue, all of one moment.
    with catalogue.snapshot():
        new = catalogue.operations(before.operation if before else 0)
        if undoing:
            new += _undone(before.log.and_then(new) if before else Log(new), undoing)
        if before and not new:
            return before
        log = before.log.and_then(new) if before else Log(new)
        labels = before.labels if before else LabelTable()
        labels.take(catalogue.rows("classes", "number >= ?", (len(labels),)))
        if any(operation.kind in REWRITES for operation in new):
            before = None  # it has written all rows again
        last = before.operation if before else 0
        removed = catalogue.rows("removed", "operation > ?", (last,))
        relabelled = catalogue.rows("relabelled", "operation > ?", (last,))
        named = catalogue.rows("segments")
        known = {segment.number: segment for segment in before.segments} if before else {}
        first_new = min((row[0] for row in named if row[0] not in known), default=NEW)
        found = list(catalogue.files("kind = 'codes' OR segment >= ?", (first_new,)))
    # 2. What removed and relabelled which items, so far.
    history = (
        _sorted_by_id(before.removed if before else None, [(row[2], row[1]) for row in removed], 2),
        _sorted_by_id(before.relabelled if before else None, [(i, o, c) for _, o, i, c in relabelled], 3),
    )
    # 3. Segments: those that are new, and those that one of the new operations, or its undoing, is about.
    codes, other = _files_by_segment(found, log)
    touched = np.array([o.number if o.target is None else o.target for o in new])
    segments = []
    for number, operation, n in named:
        segment = known.get(number) or _load(root, catalogue, (number, operation, n), other[number])
        version, file = codes.get(number, (0, None))
        if segment.code_version != version or number not in known or _is_about(touched, segment, history):
            segment = _folded(segment, log, *history)
            _give_codes(segment, version, file)
        if not segment.code_version and segment.alive.any():
            raise catalogue.corrupt(
                f"it names no codes of segment {number} that go with version {log.last.version}"
            )
        segments.append(segment)
    return State(log, labels, sorted(segments, key=lambda segment: int(segment.ids[0])), *history)


def _undone(log: Log, numbers: Sequence[int]) -> list[Operation]:
    """What undoing some operations, one after the other, would leave in the log."""
    last = log.last
    version = log.version_before(min(numbers))
    return [
        replace(last, number=last.number + k, kind="undo", version=version, target=number, _details="{}")
        for k, number in enumerate(numbers, 1)
    ]


def _sorted_by_id(before: Array | None, rows: list[tuple[int, ...]], n_columns: int) -> Array:
    """Rows as columns, sorted by their first value, later rows behind earlier ones."""
    new = np.array(rows, dtype=np.int64).reshape(-1, n_columns).T
    new = new[:, np.argsort(new[0], kind="stable")]
    if before is None:
        return new
    return np.insert(before, before[0].searchsorted(new[0], side="right"), new, axis=1)


def _files_by_segment(
    found: list[tuple[str, Any, Any, Written]], log: Log
) -> tuple[dict[int, tuple[int, Written]], dict[int, dict[str, Written]]]:
    """Of each segment the latest valid codes, with their version; and all other files by their kind."""
    codes: dict[int, tuple[int, Written]] = {}
    other: dict[int, dict[str, Written]] = defaultdict(dict)
    for kind, segment, version, file in found:
        if kind != "codes":
            other[segment][kind] = file
        elif log.has_valid_codes(version, log.last.version) and version > codes.get(segment, (0, file))[0]:
            codes[segment] = version, file
    return codes, other


def _load(root: Path, catalogue: Catalogue, row: tuple[int, int, int], own: dict[str, Written]) -> Segment:
    """A segment as it was written, without codes."""
    number, operation, n = row
    for kind in ("rows", "vectors"):
        if kind not in own:
            raise catalogue.corrupt(f"it names no {kind} file of segment {number}")
    operations = np.broadcast_to(np.int64(operation), n)
    if "operations" in own:
        operations = files.load_array(root, own["operations"])
    rows = np.asarray(files.MappedArray(root, own["rows"]))
    n_bytes = int(catalogue.meta["n_bits"] + 7) // 8
    no_codes, alive = np.zeros((n, n_bytes), dtype=np.uint8), np.zeros(n, dtype=bool)
    return Segment(root, number, operations, rows, own["vectors"], no_codes, alive, own.get("columns"))


def _is_about(touched: Array, segment: Segment, history: tuple[Array, Array]) -> bool:
    """Whether one of some operations brought, removed or relabelled items of a segment."""
    first, last = segment.span
    inside = touched[(touched >= first) & (touched <= last)]
    if len(inside) and (first == last or np.isin(inside, segment.operations).any()):
        return True
    return any(np.isin(_within(rows, segment)[1], touched).any() for rows in history)


def _within(rows: Array, segment: Segment) -> Array:
    """The columns of ``rows`` that are about items of a segment."""
    start, stop = rows[0].searchsorted([segment.ids[0], segment.ids[-1] + 1])
    return rows[:, start:stop]


def _folded(segment: Segment, log: Log, removed: Array, relabelled: Array) -> Segment:
    """A segment with ``alive`` and ``classes`` as the operations in force have left them."""
    undone = np.array(sorted(log.undone), dtype=np.int64)

    def in_force(rows: Array) -> Array:
        own = _within(rows, segment)
        return own[:, np.isin(own[1], undone, invert=True)]

    now = copy(segment)
    now.alive = np.isin(segment.operations, undone, invert=True)
    now.alive[segment.ids.searchsorted(in_force(removed)[0])] = False
    ids, _, numbers = in_force(relabelled)
    now.classes = segment.rows["class"].copy()
    now.classes[segment.ids.searchsorted(ids)] = numbers  # of several for one item the last one holds
    return now


def _give_codes(segment: Segment, version: int, file: Written | None) -> None:
    """Let a segment have the codes of a file, if it has not; without one, those of no version."""
    if segment.code_version != version:
        segment.codes = np.zeros_like(segment.codes) if file is None else files.load_array(segment.root, file)
        segment.code_version = version


@dataclass(frozen=True)
class Difference:
    """What an index has to follow: ids that are gone; rows of segments that came, or have other codes."""

    gone: list[Array] = field(default_factory=list)
    came: list[tuple[Segment, Array]] = field(default_factory=list)
    recoded: list[tuple[Segment, Array]] = field(default_factory=list)


def difference(before: Sequence[Segment], after: Sequence[Segment]) -> Difference:
    """How the living items of some segments differ from those of others; many segments are in both."""
    both = set(map(id, before)) & set(map(id, after))
    old, new = ([s for s in part if id(s) not in both] for part in (before, after))
    found = Difference()
    for segment in old:
        lives = Places(new).alive(segment.ids)
        if (segment.alive & ~lives).any():
            found.gone.append(segment.ids[segment.alive & ~lives])
    for segment in new:
        lived, same = np.zeros((2, len(segment.ids)), dtype=bool)
        for earlier, places, rows in Places(old).find(segment.ids):
            lived[places] = earlier.alive[rows]
            same[places] = (earlier.codes[rows] == segment.codes[places]).all(axis=1)
        if (segment.alive & ~lived).any():
            found.came.append((segment, segment.alive & ~lived))
        if (segment.alive & lived & ~same).any():
            found.recoded.append((segment, segment.alive & lived & ~same))
    return found
