"""HTTP connections that come to the point: headers complete in time, answers sent at once.

Uvicorn waits for ever for the headers of a request, so that a client that sends a byte now and then could
keep as many connections open as it likes. And the sockets that it shares between workers do not say that
they are TCP, which asyncio wants to hear before it sets TCP_NODELAY; without it, head and body of an answer
go out separately and the second waits 40 ms for the client's delayed acknowledgement.
"""

from __future__ import annotations

import asyncio
import socket

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0


class PunctualProtocol(H11Protocol):
    """Closes a connection whose next request has begun but has no complete headers after a while."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
