"""Rewriting, so that there is never much to read: segments that are small, and what no search can reach.

Small segments become larger ones on the way, as in log-structured stores. A segment never changes, so every
addition is one of its own, down to a single item. When the last ones are small, the addition that comes
writes them and its own items as one. Each item keeps the number of the operation that brought it: additions
are undone as if their segments had never been merged. Dead items stay, for a removal can be undone; `compact`
drops them.

Models are the large part of a database with few items, and every file makes the next writer slower. So
`drop_versions` leaves those of the versions that a number of undoings of updates lead to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from sihash._typing import Array
from sihash.store import files, segments
from sihash.store.catalogue import Catalogue
from sihash.store.columns import joined
from sihash.store.log import Log
from sihash.store.segments import Segment
from sihash.store.state import State
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


def write_new(writer: Writer, known: list[Segment], new: Segment, log: Log, version: int, full: int) -> None:
    """Write a segment that is in memory, with its codes; the last of the ``known`` segments become one with
    it, if they are small. ``full`` is how many rows make a segment that is done.
    """
    n_merged = max(0, n_last_to_merge([len(s.ids) for s in (*known, new)], full) - 1)
    merged = known[len(known) - n_merged :]
    run = [*merged, new]
    one = writer.join_segments(run)
    parts: list[Codes] = [_stored_codes(writer, log, segment) for segment in merged]
    parts.append({version: new.codes})
    for label, codes in merged_codes(parts, [len(segment.ids) for segment in run], log).items():
        writer.write_codes(one.number, label, codes)
    delete_segments(writer.catalogue, [segment.number for segment in merged])


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


def delete_segments(catalogue: Catalogue, numbers: Iterable[int]) -> None:
    """Take segments and their files out of the catalogue; the next writer deletes the files."""
    for number in numbers:
        catalogue.delete("files", f"segment = {number}")
        catalogue.delete("segments", f"number = {number}")


def compact(writer: Writer, state: State, needed: Array) -> tuple[int, int]:
    """Drop dead items, and codes and models that are not in use; merge small segments, write labels anew.

    Items with an id in ``needed`` stay, even dead. Returns how many items were dropped, and how many segments
    are left.
    """
    everything, catalogue = state.segments, writer.catalogue
    stays = {s.number: s.alive | np.isin(s.ids, needed) for s in everything}
    dead = state.dead_ids()
    # 1. Rows of items.
    settle_items(writer, state)
    # 2. Segments: runs of them become one each; of the others some get rows with the labels of now.
    runs = _to_rewrite(everything, stays, segments.rows_of(int(catalogue.meta["width"])))
    n_new = sum(_rewrite(writer, run, stays) for run in runs)
    merged = {segment.number for run in runs for segment in run}
    for segment in everything:
        if segment.number not in merged and segment.is_relabelled:
            catalogue.delete("files", f"segment = {segment.number} AND kind = 'rows'")
            file = segments.write_rows(writer.root, segment.number, segment.rows_now)
            writer.adopt("rows", file, segment.number)
    delete_segments(catalogue, merged)
    # 3. Files of other versions than those in use, and rows that said what happened to items.
    used = {segment.number: segment.code_version for segment in everything}
    for kind, number, version, file in list(catalogue.files("version IS NOT NULL")):
        if version != (used.get(number, version) if kind == "codes" else state.version):
            catalogue.delete("files", f"path = '{file.path}'")
    catalogue.delete("relabelled", "1")
    catalogue.delete("removed", "1")
    writer.insert_removed(dead[np.isin(dead, needed)])
    n_dropped = sum(len(s.ids) - int(stays[s.number].sum()) for s in everything)
    return n_dropped, len(everything) - len(merged) + n_new


def settle_items(writer: Writer, state: State) -> None:
    """Rows of dead items go, those of relabelled ones get the labels of now."""
    writer.catalogue.set_aside("dead", state.dead_ids())
    for table in ("items", "thumbnails"):
        writer.catalogue.delete(table, "id IN (SELECT id FROM dead)")
    now: dict[int, int] = {}
    for segment in state.segments:
        changed = segment.classes != segment.rows["class"]
        now |= dict(zip(segment.ids[changed].tolist(), segment.classes[changed].tolist(), strict=True))
    writer.replace_classes(now)


def _to_rewrite(everything: list[Segment], stays: dict[int, Array], full: int) -> list[list[Segment]]:
    """Runs of neighbours, each to become one segment: those that lose items, and small ones side by side."""
    runs: list[list[Segment]] = [[]]
    n = 0
    for segment in everything:
        n_stay = int(stays[segment.number].sum())
        whole = n_stay == len(segment.ids) and n_stay >= full // 2
        if whole or n + n_stay > full:
            runs.append([])
            n = 0
        if not whole:
            runs[-1].append(segment)
            n += n_stay
    return [run for run in runs if len(run) > 1 or (run and not stays[run[0].number].all())]


def _rewrite(writer: Writer, run: list[Segment], stays: dict[int, Array]) -> int:
    """Write what stays of a run of segments as one; the codes are known and only copied."""
    kept = [(segment, stays[segment.number]) for segment in run]
    items = np.concatenate([segment.rows_now[rows] for segment, rows in kept])
    if not len(items):
        return 0
    new = writer.new_segment(items, [segment.vectors[rows] for segment, rows in kept])
    codes = np.concatenate([segment.codes[rows] for segment, rows in kept])
    oldest = min(segment.code_version for segment, rows in kept if rows.any())
    writer.write_codes(new.number, oldest, codes)
    writer.add_columns(new, joined([segment.columns.take(rows) for segment, rows in kept]))
    return 1


def drop_versions(catalogue: Catalogue, log: Log, version: int, words: int, undoable: int) -> int:
    """Take the files of older versions out of the catalogue, while ``version`` comes into force.

    ``words`` is the version at which its words were drawn, and ``undoable`` how many updates one can go back.
    Returns the oldest version whose files are left.
    """
    words_of = {earlier: log.words_from(earlier) for earlier in log.versions_in_force()[-undoable:]}
    words_of[version] = words
    codes: dict[int, list[tuple[int, str]]] = defaultdict(list)
    gone = []
    for kind, segment, own, file in catalogue.files("version IS NOT NULL"):
        if kind == "codes":
            codes[segment].append((own, file.path))
        elif own not in words_of:
            gone.append(file.path)
    for found in codes.values():
        valid = [[f for f in found if log.is_valid(f[0], own, now)] for now, own in words_of.items()]
        used = {max(each) for each in valid if each}
        gone += [path for own, path in found if (own, path) not in used]
    for path in gone:
        catalogue.delete("files", f"path = '{path}'")
    return max(min(words_of), log.oldest_version)
