"""Labels that were changed after their items came: an overlay over the rows of segments, which never change.

Every ``relabel`` writes one row per item into the catalogue, with its class number before and after (−1: no
label), and so does removing a class, for items that have another label. A snapshot replays them in the order
of the operations, as it does with removed items; a compaction writes them into the rows of the segments and
drops them here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.store import segments
from sihash.store.segments import Places, Segment
from sihash.store.writer import Writer


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
        found[operation].append((number, before, after))
    return {number: Relabelled(*np.array(each, dtype=np.int64).T) for number, each in found.items()}


def insert(writer: Writer, change: Relabelled) -> None:
    """Note that the operation being written relabels items."""
    first = writer.catalogue.execute("SELECT coalesce(max(number), 0) + 1 FROM relabelled")[0][0]
    operation = writer.operation
    columns = (change.ids.tolist(), change.before.tolist(), change.after.tolist())
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


def fold_items(writer: Writer, everything: list[Segment]) -> None:
    """Rows of the table of items, with the labels of now in them."""
    now: dict[int, int] = {}
    for segment in everything:
        changed = segment.classes != segment.rows["class"]
        now |= dict(zip(segment.ids[changed].tolist(), segment.classes[changed].tolist(), strict=True))
    writer.replace_classes(now)
