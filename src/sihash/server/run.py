"""From a database and an address to running workers."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from sihash.server.metrics import SHARED_FOLDER
from sihash.server.run_folder import run_folder
from sihash.server.settings import THREADS, Limits, ServerSettings, in_address

ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # no such address, no such kind of address


def listening(host: str, port: int) -> list[socket.socket]:
    """A socket for each address that ``host`` stands for, as localhost does for 127.0.0.1 and ::1.

    Where this machine has only some of them, those will do.
    """
    sockets: list[socket.socket] = []
    refusal: OSError | None = None
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                sockets.append(_listening(family, address))
            except OSError as error:
                if error.errno not in ABSENT:
                    raise
                refusal = error
        if refusal and not sockets:
            raise refusal
    except OSError as error:
        for each in sockets:
            each.close()
        raise OSError(
            f"The service cannot listen on {in_address(host)}:{port}: {error.strerror}; "
            "choose another --port or --host."
        ) from None
    return sockets


def _listening(family: int, address: tuple[Any, ...]) -> socket.socket:
    """Bound is not enough: as long as nobody listens, others may bind to the same port."""
    # Only of sockets that say that they are TCP does asyncio set TCP_NODELAY; without it, head and body of an
    # answer go out separately, and the second waits 40 ms for the client's delayed acknowledgement.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # A service that ended just now is no obstacle.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen()
    except OSError:
        made.close()
        raise
    return made


class Config(uvicorn.Config):
    """With the seconds that `PunctualProtocol` waits."""

    header_seconds: float = Limits.header_seconds


class PunctualProtocol(H11Protocol):
    """Closes a connection whose next request has begun but has no complete headers after a while.

    Uvicorn waits for them for ever and has no setting for it, so a client that sends a byte now and then
    could take all connections. This adds a timer to the protocol that uvicorn uses anyway, by methods that
    are asyncio's; of uvicorn's class it reads ``config``, ``conn``, ``loop`` and ``transport``.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_waiting()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._deadline is None:
            self._start_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _start_waiting(self) -> None:
        assert isinstance(self.config, Config)
        self._deadline = self.loop.call_later(self.config.header_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()


def run(settings: ServerSettings, sockets: list[socket.socket], workers: int) -> None:
    """Serve until stopped, on sockets bound to the host. Workers find their settings in the environment."""
    signal.signal(signal.SIGTERM, _stop)  # which uvicorn raises once more when it is done
    with suppress(_Stopped), run_folder() as folder:
        n_cores = os.cpu_count() or 1
        # What the user says of threads goes for updates too; else they leave a core to searches.
        update_threads = os.environ.get(THREADS, str(max(1, n_cores - 1)))
        replace(settings, run_folder=folder, update_threads=update_threads).store()
        os.environ.setdefault(THREADS, str(max(1, n_cores // workers)))
        if workers > 1:
            os.environ[SHARED_FOLDER] = str(Path(folder) / "metrics")
            os.mkdir(os.environ[SHARED_FOLDER])
        _serve(sockets, workers, settings.limits)


class _Stopped(BaseException):
    """Somebody wants the service to end."""


def _stop(number: int, frame: object) -> None:
    raise _Stopped


def _serve(sockets: list[socket.socket], workers: int, limits: Limits) -> None:
    config = Config(
        "sihash.server.app:create_app",
        factory=True,
        workers=workers,
        http=PunctualProtocol,
        ws="none",
        log_config=None,  # a worker sets up `sihash.server.logs`
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nobody before us is trusted
        limit_concurrency=limits.connections,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=limits.stop_seconds,
        timeout_worker_healthcheck=limits.start_seconds,
    )
    config.header_seconds = limits.header_seconds
    try:
        with suppress(KeyboardInterrupt):  # the way to stop it, after which all is closed already
            if workers > 1:
                Multiprocess(config, sockets=sockets).run()
            else:
                uvicorn.Server(config).run(sockets)
    except SystemExit:  # its code, 3, says something else among ours
        raise OSError("The service did not start; its log above has the reason.") from None
