"""Labels that were changed after their items came: an overlay over the rows of segments, which never change.

Every ``relabel`` writes one row per item into the catalogue, with the classes before and after it as JSON
lists of class numbers (an empty one: no label). A snapshot replays them in the order of the operations, as it
does with removed items; a compaction writes them into the rows of the segments and drops them here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.database import segments
from sihash.database.catalogue import Catalogue
from sihash.database.segments import Places, Segment
from sihash.database.writer import Writer


@dataclass(frozen=True)
class Relabelled:
    """What one operation did: ids of items, and their class numbers before and after (−1: no label)."""

    ids: Array
    before: Array
    after: Array

    def replay(self, places: Places, comes: bool) -> None:
        """Give the items their labels after the operation, or if it is undone those before."""
        for segment, found, rows in places.find(self.ids):
            segment.classes[rows] = (self.after if comes else self.before)[found]


def by_operation(rows: Iterable[tuple[Any, ...]]) -> dict[int, Relabelled]:
    """Rows of the catalogue's table, in their order."""
    found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for _, operation, number, before, after in rows:
        found[operation].append((number, _class_of(before), _class_of(after)))
    return {number: Relabelled(*np.array(each, dtype=np.int64).T) for number, each in found.items()}


def insert(writer: Writer, change: Relabelled) -> None:
    """Note that the operation being written relabels items."""
    first = writer.catalogue.execute("SELECT coalesce(max(number), 0) + 1 FROM relabelled")[0][0]
    operation = writer.operation
    columns = (change.ids.tolist(), map(_text, change.before.tolist()), map(_text, change.after.tolist()))
    rows = enumerate(zip(*columns, strict=True), first)
    writer.catalogue.insert("relabelled", ((k, operation, *row) for k, row in rows))


def fold(writer: Writer, stay: list[Segment]) -> None:
    """For a compaction: the labels of now become those in the files of segments, and of the items."""
    for segment in stay:
        if segment.is_relabelled:
            writer.catalogue.delete("files", f"segment = {segment.number} AND kind = 'rows'")
            file = segments.write_rows(writer.root, segment.number, segment.rows_now)
            writer.adopt("rows", file, segment.number)
    writer.catalogue.delete("relabelled", "1")


def fold_items(catalogue: Catalogue, everything: list[Segment]) -> None:
    """Rows of the table of items, with the labels of now in them."""
    now: dict[int, int] = {}
    for segment in everything:
        changed = segment.classes != segment.rows["class"]
        now |= dict(zip(segment.ids[changed].tolist(), segment.classes[changed].tolist(), strict=True))
    rows = list(catalogue.rows_in("items", "id", list(now)))
    catalogue.set_aside("relabelled_items", (row[0] for row in rows))
    catalogue.delete("items", "id IN (SELECT id FROM relabelled_items)")
    catalogue.insert("items", ((i, o, None if now[i] < 0 else now[i], *rest) for i, o, _, *rest in rows))


def _class_of(text: str) -> int:
    numbers = json.loads(text)
    return numbers[0] if numbers else -1


def _text(number: int) -> str:
    return json.dumps([number] if number >= 0 else [])
