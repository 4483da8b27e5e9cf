"""From a database and an address to running workers."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import uvicorn

from sihash.server.metrics import SHARED_FOLDER
from sihash.server.protocol import PunctualProtocol
from sihash.server.settings import THREADS, Settings

MAX_CONNECTIONS = 1000  # of one worker
KEEP_ALIVE_SECONDS = 15
STOP_SECONDS = 3  # for requests under way when the service is stopped
START_SECONDS = 120  # before a worker that does not answer yet is taken for dead: imports on a busy machine


def run(
    database: str, host: str, port: int, token_hash: str, host_names: tuple[str, ...], workers: int
) -> None:
    """Serve until stopped. Workers find their settings in the environment."""
    with tempfile.TemporaryDirectory(
        prefix="sihash-", dir=_in_memory(), ignore_cleanup_errors=True
    ) as folder:
        n_cores = os.cpu_count() or 1
        # What the user says of threads goes for updates too; else they leave a core to searches.
        update_threads = os.environ.get(THREADS, str(max(1, n_cores - 1)))
        Settings(database, folder, token_hash, host, host_names, update_threads).store()
        os.environ.setdefault(THREADS, str(max(1, n_cores // workers)))
        if workers > 1:
            os.environ[SHARED_FOLDER] = str(Path(folder) / "metrics")
            os.mkdir(os.environ[SHARED_FOLDER])
        uvicorn.run(
            "sihash.server.app:create_app",
            factory=True,
            host=host,
            port=port,
            workers=workers,
            http=PunctualProtocol,
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nobody before us is trusted
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            timeout_worker_healthcheck=START_SECONDS,
        )


def _in_memory() -> str | None:
    """A place for counters and progress, written all the time, which takes its time on a busy disk."""
    places = (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm")
    return next((place for place in places if place and os.access(place, os.W_OK | os.X_OK)), None)
