"""Updates in a process of their own: started by any worker, followed from all of them.

The process holds a lock as long as it lives and leaves its progress in a file. So whatever happens to it or
to the worker that started it, the others know whether an update runs and how far it is.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from sihash.server.models import UPDATE_STATE, Strategy, UpdateState
from sihash.server.settings import THREADS

POLL_SECONDS = 0.2
HEARTBEAT_SECONDS = 10.0


class AlreadyRunning(Exception):
    """There is one update at a time."""


class TooManyFollow(Exception):
    """As many as may follow an update do."""


class Updates:
    """What the workers of a service share of their updates: a folder with two files."""

    def __init__(self, database: str, run_folder: str, threads: str = "1", max_followers: int = 1) -> None:
        self._database, self._threads = database, threads
        self._lock = Path(run_folder) / "update.lock"
        self._state = Path(run_folder) / "update.json"
        self._process: subprocess.Popen[bytes] | None = None
        self._max_followers = max_followers
        self.n_followers = 0
        self.is_stopping = False

    def start(self, strategy: Strategy, reencode: bool, compare: bool) -> UpdateState:
        """Start an update; `AlreadyRunning` if there is one."""
        lock = self._take_lock()
        try:
            first = UpdateState(
                state="running", strategy=strategy, compare=compare, phase="starting", started=time.time()
            )
            write_state(self._state, first)
            arguments = [self._database, str(self._state), str(lock), strategy]
            arguments += [str(int(reencode)), str(int(compare))]
            # The child keeps the lock: it has the same open file, locked until both have closed it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sihash.server.update_process", *arguments],
                pass_fds=[lock],
                stdin=subprocess.DEVNULL,
                env={**os.environ, THREADS: self._threads},
            )
        finally:
            os.close(lock)
        return first

    def _take_lock(self) -> int:
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        for _ in range(5):  # a look by `_is_running` holds it for a moment
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            except BlockingIOError:
                time.sleep(0.01)
        os.close(lock)
        raise AlreadyRunning

    def _is_running(self) -> bool:
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(lock)

    def state(self) -> UpdateState:
        """How far the last update is. One whose process ended without a word has failed."""
        if self._process is not None:
            self._process.poll()  # leaves no zombie
        is_running = self._is_running()  # asked first: the last word is written before the lock is given up
        try:
            state = UPDATE_STATE.validate_json(self._state.read_bytes())
        except FileNotFoundError:
            return UpdateState(state="idle")
        if state.state == "running" and not is_running:
            return replace(state, state="failed", error="The update was interrupted.")
        return state

    def join(self) -> None:
        """Take a place among the followers, or be told that there is none; whoever has one must `leave`."""
        if self.n_followers >= self._max_followers:
            raise TooManyFollow
        self.n_followers += 1

    def leave(self) -> None:
        self.n_followers -= 1

    async def events(self) -> AsyncIterator[bytes]:
        """Server-sent events: the state, now and whenever it changes; a comment when long nothing happens."""
        last, sent = None, time.monotonic()
        while not self.is_stopping:
            state = self.state()
            if state != last:
                last, sent = state, time.monotonic()
                yield b"event: update\ndata: " + UPDATE_STATE.dump_json(state) + b"\n\n"
            elif time.monotonic() - sent > HEARTBEAT_SECONDS:
                sent = time.monotonic()
                yield b": still here\n\n"
            await asyncio.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End an update that this worker started; the database is left at the version before."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def write_state(path: Path, state: UpdateState) -> None:
    """Readers see the old state or the new, whole."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(UPDATE_STATE.dump_json(state))
    fresh.replace(path)
