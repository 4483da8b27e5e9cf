"""Encode items again whose codes are older than the hash functions: a little at a time, for whoever asks.

Old codes are valid, so this may stop after any segment: the collection is searched correctly with some codes
of before and some of now, and the next run goes on with the segments that are left.
"""

from __future__ import annotations

import time
from dataclasses import replace

from sihash.database.answers import UpdateReport
from sihash.database.encoding import Encoder
from sihash.database.progress import Progress
from sihash.database.reader import Reader
from sihash.database.updating import check_in_force
from sihash.store import segments
from sihash.store.locks import locked
from sihash.store.state import read_state
from sihash.store.writer import PATIENCE, SWEEP_SECONDS, UPDATER, disk_errors_told, writing


def reencode(reader: Reader, report: UpdateReport, progress: Progress) -> UpdateReport:
    """Bring all codes to the version in force, a segment after the other, each a commit of its own."""
    start, root = time.perf_counter(), reader.root
    with disk_errors_told(root), locked(root / UPDATER, "is updating it", SWEEP_SECONDS):
        snapshot = reader.detached()
        state, catalogue = snapshot.state, snapshot.catalogue
        encoder, version = Encoder(snapshot.hasher), snapshot.version
        n_items = n_bytes = 0
        while old := [s for s in state.segments if s.alive.any() and s.code_version < version]:
            progress("encoding", n_items / state.n_items)
            segment = old[0]
            codes = encoder.codes(segment)
            file = segments.write_codes(root, segment.number, version, codes)
            with writing(root, updating=True, of=catalogue, keep={file.path}, patience=PATIENCE) as writer:
                check_in_force(writer.catalogue, state)
                if writer.catalogue.rows("segments", "number = ?", (segment.number,)):
                    writer.adopt("codes", file, segment.number, version)
                    details = {"segments": [segment.number], "is_last": len(old) == 1}
                    writer.commit("reencode", version, details)
                    n_items += int(segment.alive.sum())
                    n_bytes += file.size
                else:  # an addition has merged it with others, which are next
                    writer.catalogue.rollback()
            state = read_state(root, catalogue, state)
        progress("encoding", 1.0)
    seconds = report.seconds | {"encoding again": time.perf_counter() - start}
    return replace(
        report,
        seconds=seconds,
        n_reencoded=report.n_reencoded + n_items,
        bytes_written=report.bytes_written + n_bytes,
    )
