"""Small segments become larger ones on the way, as in log-structured stores, so that there are never many.

A segment never changes, so every addition is one of its own, down to a single item. When the last ones are
small, the addition that comes writes them and its own items as one. Each item keeps the number of the
operation that brought it: additions are undone as if their segments had never been merged. Dead items stay,
for a removal can be undone; a compaction drops them.
"""

from __future__ import annotations

import numpy as np

from sihash._typing import Array
from sihash.store import files, segments
from sihash.store.catalogue import Catalogue
from sihash.store.columns import joined
from sihash.store.log import Log
from sihash.store.segments import Segment
from sihash.store.writer import Writer

MERGED_AT_ONCE = 4  # segments, at least: so three additions of four merge nothing

Codes = dict[int, Array]  # packed codes of the items of a segment, by the version that they are labelled with


def n_last_to_merge(sizes: list[int], full: int) -> int:
    """How many of the last segments are to become one; 0 for none.

    It goes on backwards while a segment is no larger than all that came after it. So the sizes of what is
    left at least double from one to the next, but for three at a time: n items lie in fewer than
    4 · log2(n) segments, and an item is written again at most log2(n) times. ``full`` segments are done.
    """
    n = total = 0
    for size in reversed(sizes):
        if size >= full // 2 or total + size > full or (n and size > total):
            break
        n, total = n + 1, total + size
    return n if n >= MERGED_AT_ONCE else 0


def merge(
    writer: Writer, known: list[Segment], new: list[Segment], log: Log, version: int, full: int
) -> None:
    """Write the last segments as one, if they are small; ``new`` are those of the operation being written.

    ``full`` is how many rows make a segment that is done.
    """
    everything = [*known, *new]
    n = n_last_to_merge([len(s.ids) for s in everything], full)
    if not n:
        return
    run, fresh = everything[-n:], {segment.number for segment in new}
    one = writer.new_segment(
        np.concatenate([segment.rows for segment in run]), [segment.vectors for segment in run]
    )
    operations = np.concatenate([segment.operations for segment in run])
    writer.adopt("operations", segments.write_operations(writer.root, one.number, operations), one.number)
    writer.add_columns(one, joined([segment.columns for segment in run]))
    parts: list[Codes] = [
        {version: segment.codes} if segment.number in fresh else _stored_codes(writer, log, segment)
        for segment in run
    ]
    for label, codes in merged_codes(parts, [len(segment.ids) for segment in run], log).items():
        writer.write_codes(one.number, label, codes)
    delete_segments(writer.catalogue, [segment.number for segment in run])


def _stored_codes(writer: Writer, log: Log, segment: Segment) -> Codes:
    """All codes of a segment that an undoing may still lead to."""
    found = writer.catalogue.files("kind = 'codes' AND segment = ?", (segment.number,))
    stored = {version: file for _, _, version, file in found if not log.is_undone(version)}
    return {version: files.load_array(writer.root, file) for version, file in stored.items()}


def merged_codes(parts: list[Codes], sizes: list[int], log: Log) -> Codes:
    """Codes of segments one after the other, such that whatever is undone, living items have theirs.

    For a version, a segment gives the latest codes that it had then. One that came later has none yet: while
    that version is in force its items are dead, as what was done last is undone first. So two versions with
    the same words share a file, labelled with the older one, unless an item was encoded again in between.
    """
    n_bytes = max(codes.shape[1] for part in parts for codes in part.values())
    out: Codes = {}
    last, last_there = 0, np.zeros(sum(sizes), dtype=bool)
    for version in sorted({version for part in parts for version in part}):
        columns, there = [], []
        for part, n in zip(parts, sizes, strict=True):
            earlier = [v for v in part if v <= version]
            columns.append(part[max(earlier)] if earlier else np.zeros((n, n_bytes), dtype=np.uint8))
            there.append(np.full(n, bool(earlier)))
        codes, is_there = np.concatenate(columns), np.concatenate(there)
        same = last and log.words_from(last) == log.words_from(version)
        if not same or not np.array_equal(out[last][last_there], codes[last_there]):
            last = version
        out[last], last_there = codes, is_there
    return out


def delete_segments(catalogue: Catalogue, numbers: list[int]) -> None:
    """Take segments and their files out of the catalogue; the next writer deletes the files."""
    for number in numbers:
        catalogue.delete("files", f"segment = {number}")
        catalogue.delete("segments", f"number = {number}")
