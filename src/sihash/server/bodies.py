"""Bodies of requests: read before any route runs, no more than allowed, in time, and few at once."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from sihash.server.guard import App, Message, Receive, Send, answer

MAX_IMAGE = 16 << 20
MAX_BATCH = 64 << 20
MAX_JSON = 1 << 20
MAX_HELD = 256 << 20  # all bodies of one worker together
READ_SECONDS = 30.0  # for a whole body, however slowly it drips

_LARGER = {
    "/v1/search/image": MAX_IMAGE,
    "/v1/classify/image": MAX_IMAGE,
    "/v1/items": MAX_IMAGE,
    "/v1/items/batch": MAX_BATCH,
}


class _Refused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        self.status, self.sentence = status, sentence


class Bodies:
    """ASGI middleware: hands a request on with its whole body in hand, or refuses it.

    Only bytes that have come count as held, so clients that announce much and send little block nobody.
    """

    def __init__(self, app: App) -> None:
        self.app = app
        self.n_held = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            return await self.app(scope, receive, send)
        body = bytearray()
        try:
            refusal = await self._read_in_time(scope, receive, body)
            if refusal:
                await answer(send, refusal.status, refusal.sentence)
            else:
                await self.app(scope, _replay(bytes(body), receive), send)
        finally:
            self.n_held -= len(body)

    async def _read_in_time(
        self, scope: MutableMapping[str, Any], receive: Receive, body: bytearray
    ) -> _Refused | None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                await self._read(scope, receive, body)
        except TimeoutError:
            return _Refused(408, f"The body did not arrive within {READ_SECONDS:.0f} seconds.")
        except _Refused as refused:
            return refused
        return None

    async def _read(self, scope: MutableMapping[str, Any], receive: Receive, body: bytearray) -> None:
        limit = _LARGER.get(scope["path"], MAX_JSON)
        too_large = _Refused(413, f"The body is larger than the {limit >> 20} MiB allowed here.")
        if _announced(scope) > limit:
            raise too_large
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Refused(400, "The body ended early.")
            chunk = message.get("body", b"")
            if len(body) + len(chunk) > limit:
                raise too_large
            if self.n_held + len(chunk) > MAX_HELD:
                raise _Refused(503, "Too many uploads at once; try again in a moment.")
            body += chunk
            self.n_held += len(chunk)
            if not message.get("more_body"):
                return


def _announced(scope: MutableMapping[str, Any]) -> int:
    """Content-Length; 0 if there is none or none to be trusted, as the bytes are counted anyway."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() and len(length) < 20 else 0


def _replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body in one piece, then whatever comes after it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay
