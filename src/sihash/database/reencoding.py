"""Encode items again whose codes are older than the hash functions: a little at a time, for whoever asks.

Old codes are valid, so this may stop after any segment: the collection is searched correctly with some codes
of before and some of now, and the next run goes on with the segments that are left.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from sihash.database.answers import UpdateReport
from sihash.database.encoding import Encoder
from sihash.database.progress import Progress
from sihash.database.snapshot import Snapshot
from sihash.database.updating import check_in_force
from sihash.store import segments
from sihash.store.catalogue import Catalogue
from sihash.store.locks import locked
from sihash.store.writer import PATIENCE, SWEEP_SECONDS, UPDATER, disk_errors_told, writing


def reencode(root: Path, report: UpdateReport, progress: Progress) -> UpdateReport:
    """Bring all codes to the version in force, a segment after the other, each a commit of its own."""
    start = time.perf_counter()
    with (
        disk_errors_told(root),
        locked(root / UPDATER, "is updating it", SWEEP_SECONDS),
        closing(Catalogue(root)) as catalogue,
    ):
        snapshot = Snapshot(root, catalogue)
        encoder, version = Encoder(snapshot.hasher), snapshot.version
        n_items = n_bytes = 0
        while old := [s for s in snapshot.places.segments if s.alive.any() and s.code_version < version]:
            progress("encoding", n_items / snapshot.n_items)
            segment = old[0]
            codes = encoder.codes(segment)
            file = segments.write_codes(root, segment.number, version, codes)
            with writing(root, updating=True, of=catalogue, keep={file.path}, patience=PATIENCE) as writer:
                check_in_force(writer.catalogue, snapshot)
                if writer.catalogue.rows("segments", "number = ?", (segment.number,)):
                    writer.adopt("codes", file, segment.number, version)
                    details = {"segments": [segment.number], "is_last": len(old) == 1}
                    writer.commit("reencode", version, details)
                    n_items += int(segment.alive.sum())
                    n_bytes += file.size
                else:  # an addition has merged it with others, which are next
                    writer.catalogue.rollback()
            if not snapshot.advance(catalogue):
                snapshot = Snapshot(root, catalogue)
        progress("encoding", 1.0)
    seconds = report.seconds | {"encoding again": time.perf_counter() - start}
    return replace(
        report,
        seconds=seconds,
        n_reencoded=report.n_reencoded + n_items,
        bytes_written=report.bytes_written + n_bytes,
    )
