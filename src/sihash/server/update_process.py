"""One update of a database, as a process: ``python -m … DB STATE LOCK STRATEGY REENCODE COMPARE``.

Started by `sihash.server.updates`. It runs at low priority, so that searches hardly notice.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from sihash.database import Database, DatabaseBusy, DatabaseError
from sihash.database.answers import UpdateReport
from sihash.server import logs
from sihash.server.models import UPDATE_STATE
from sihash.server.settings import ENVIRONMENT, ServerSettings
from sihash.server.updates import write_state

log = logging.getLogger("sihash.server.update")
WRITE_SECONDS = 0.2
NICENESS = 5  # lower would starve an update on a busy machine
# Shares of the phases where nothing is known of earlier updates.
USUAL = {"reading": 0.2, "learning": 0.5, "writing": 0.1, "ranking": 0.1, "comparing": 0.1}


def expected_seconds(database: Database, strategy: str) -> dict[str, float]:
    """Seconds by phase of the last update of this kind, scaled to the rows of now; or empty."""
    versions = database.versions()
    now = next(version for version in versions if version.current)
    for version in reversed(versions):
        if version.seconds and version.strategy == strategy:
            scale = now.n_training / max(1, version.n_training)
            return {phase: scale * seconds for phase, seconds in version.seconds.items()}
    return {}


class ProgressWriter:
    """Writes to a file how far the update is. Within a phase that reports nothing, time is the measure."""

    def __init__(self, path: Path, expected: dict[str, float]) -> None:
        self._path, self._expected = path, expected
        self._weights = expected or USUAL
        self._state = UPDATE_STATE.validate_json(path.read_bytes())
        self._start = self._phase_start = time.monotonic()
        self._inner = 0.0  # share of the phase that the database reported
        self._lock, self._ended = Lock(), Event()
        Thread(target=self._tick, daemon=True).start()

    def progress(self, step: str, share: float) -> None:
        phase = step.partition(":")[0]  # of "learning: round 1, binary SVMs"
        with self._lock:
            if phase != self._state.phase:
                self._phase_start = time.monotonic()
            self._inner = share
            self._write(phase)

    def end(self, **changes: Any) -> None:
        """The last word."""
        self._ended.set()
        with self._lock:
            seconds = time.monotonic() - self._start
            write_state(self._path, replace(self._state, **{"seconds": seconds, **changes}))

    def _tick(self) -> None:
        while not self._ended.wait(WRITE_SECONDS):
            with self._lock:
                if not self._ended.is_set():
                    self._write(self._state.phase)

    def _write(self, phase: str) -> None:
        now = time.monotonic()
        inner = self._inner
        if self._expected.get(phase):
            inner = max(inner, min(0.95, (now - self._phase_start) / self._expected[phase]))
        phases = list(self._weights)
        before = phases[: phases.index(phase)] if phase in phases else []
        done = sum(self._weights[name] for name in before) + inner * self._weights.get(phase, 0.0)
        share = max(self._state.share, min(0.99, done / sum(self._weights.values())))
        seconds = now - self._start
        left = seconds * (1 - share) / share if share > 0.05 and self._expected else None
        self._state = replace(self._state, phase=phase, share=share, seconds=seconds, seconds_left=left)
        write_state(self._path, self._state)


def _summary(report: UpdateReport) -> str:
    if not report.changed:
        return f"The {report.strategy} update found nothing to learn; version {report.version} stays."
    return (
        f"The {report.strategy} update made version {report.version} in "
        f"{sum(report.seconds.values()):.1f} s: {report.n_learned:,} items learned, "
        f"{report.n_forgotten:,} forgotten, {report.n_bits_trained} hash functions changed."
    )


def main(path: str, state: str, lock: str, strategy: str, reencode: str, compare: str) -> None:
    os.nice(NICENESS)
    if ENVIRONMENT in os.environ:
        settings = ServerSettings.stored()
        logs.set_up(settings.log_level, settings.log_format)
    database = Database(path)
    writer = ProgressWriter(Path(state), expected_seconds(database, strategy))
    try:
        report = database.update(
            strategy=strategy,  # type: ignore[arg-type]
            reencode=bool(int(reencode)),
            compare=bool(int(compare)),
            progress=writer.progress,
        )
    except DatabaseBusy:
        log.warning("The update was refused: another program is updating %s.", path)
        writer.end(state="failed", error="Another program is updating this database.")
    except DatabaseError as error:
        log.error("The update failed: %s", error)
        writer.end(state="failed", error=str(error).replace(path, "the database"))
    except BaseException:
        log.exception("The update of %s failed.", path)
        writer.end(state="failed", error="The update failed; the log of the service has the reason.")
    else:
        logs.event(log, _summary(report), {"event": "update", **asdict(report)})
        done = {"scores": dict(report.compared), "warnings": report.warnings, "version": report.version}
        writer.end(state="done", share=1.0, seconds_left=0.0, **done)
    finally:
        os.close(int(lock))  # the last word is out: another may start while this process packs up


if __name__ == "__main__":
    main(*sys.argv[1:])
