"""One update of a database, as a process: ``python -m … DB STATE LOCK STRATEGY REENCODE COMPARE``.

Started by `sihash.server.updates`. It runs at low priority, so that searches hardly notice.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from sihash.database import Database, DatabaseBusy, DatabaseError
from sihash.server.models import UPDATE_STATE
from sihash.server.updates import write_state

TELL_SECONDS = 0.2
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


class Teller:
    """Writes down how far the update is. Within a phase that says nothing, the clock speaks for it."""

    def __init__(self, path: Path, expected: dict[str, float]) -> None:
        self._path, self._expected = path, expected
        self._weights = expected or USUAL
        self._state = UPDATE_STATE.validate_json(path.read_bytes())
        self._start = self._phase_start = time.monotonic()
        self._inner = 0.0  # share of the phase that the database told
        self._lock, self._ended = Lock(), Event()
        Thread(target=self._tick, daemon=True).start()

    def progress(self, told: str, share: float) -> None:
        phase = told.partition(":")[0]  # of "learning: round 1, binary SVMs"
        with self._lock:
            if phase != self._state.phase:
                self._phase_start = time.monotonic()
            self._inner = share
            self._tell(phase)

    def end(self, **changes: Any) -> None:
        """The last word."""
        self._ended.set()
        with self._lock:
            seconds = time.monotonic() - self._start
            write_state(self._path, replace(self._state, **{"seconds": seconds, **changes}))

    def _tick(self) -> None:
        while not self._ended.wait(TELL_SECONDS):
            with self._lock:
                if not self._ended.is_set():
                    self._tell(self._state.phase)

    def _tell(self, phase: str) -> None:
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


def main(path: str, state: str, lock: str, strategy: str, reencode: str, compare: str) -> None:
    os.nice(NICENESS)
    database = Database(path)
    teller = Teller(Path(state), expected_seconds(database, strategy))
    try:
        report = database.update(
            strategy=strategy,  # type: ignore[arg-type]
            reencode=bool(int(reencode)),
            compare=bool(int(compare)),
            progress=teller.progress,
        )
    except DatabaseBusy:
        teller.end(state="failed", error="Another program is updating this database.")
    except DatabaseError as error:
        teller.end(state="failed", error=str(error).replace(path, "the database"))
    except BaseException:
        logging.exception("The update of %s failed.", path)
        teller.end(state="failed", error="The update failed; the log of the service has the reason.")
    else:
        told = {"scores": dict(report.compared), "warnings": report.warnings, "version": report.version}
        teller.end(state="done", share=1.0, seconds_left=0.0, **told)
    finally:
        os.close(int(lock))  # the last word is out: another may start while this process packs up


if __name__ == "__main__":
    main(*sys.argv[1:])
