"""From a database and an address to running workers."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import uvicorn
from uvicorn.supervisors import Multiprocess

from sihash.server.metrics import SHARED_FOLDER
from sihash.server.protocol import PunctualProtocol
from sihash.server.run_folder import run_folder
from sihash.server.settings import THREADS, ServerSettings

MAX_CONNECTIONS = 1000  # of one worker
KEEP_ALIVE_SECONDS = 15
STOP_SECONDS = 3  # for requests under way when the service is stopped
START_SECONDS = 120  # before a worker that does not answer yet is taken for dead: imports on a busy machine


def run(
    database: str,
    sockets: list[socket.socket],
    host: str,
    token_hash: str,
    host_names: tuple[str, ...],
    workers: int,
    max_pixels: int,
) -> None:
    """Serve until stopped, on sockets bound to ``host``. Workers find their settings in the environment."""
    signal.signal(signal.SIGTERM, _stop)  # which uvicorn raises once more when it is done
    with suppress(_Stopped), run_folder() as folder:
        n_cores = os.cpu_count() or 1
        # What the user says of threads goes for updates too; else they leave a core to searches.
        update_threads = os.environ.get(THREADS, str(max(1, n_cores - 1)))
        ServerSettings(database, folder, token_hash, host, host_names, update_threads, max_pixels).store()
        os.environ.setdefault(THREADS, str(max(1, n_cores // workers)))
        if workers > 1:
            os.environ[SHARED_FOLDER] = str(Path(folder) / "metrics")
            os.mkdir(os.environ[SHARED_FOLDER])
        _serve(sockets, workers)


class _Stopped(BaseException):
    """Somebody wants the service to end."""


def _stop(number: int, frame: object) -> None:
    raise _Stopped


def _serve(sockets: list[socket.socket], workers: int) -> None:
    config = uvicorn.Config(
        "sihash.server.app:create_app",
        factory=True,
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
    try:
        with suppress(KeyboardInterrupt):  # the way to stop it, after which all is closed already
            if workers > 1:
                Multiprocess(config, sockets=sockets).run()
            else:
                uvicorn.Server(config).run(sockets)
    except SystemExit:  # its code, 3, says something else among ours
        raise OSError("The service did not start; its log above has the reason.") from None
