"""What is done to a request before its route runs: its body is read, its path taken apart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, MutableMapping
from contextlib import nullcontext
from typing import Any
from urllib.parse import unquote

from sihash.server.guard import App, Message, Receive, Send, answer
from sihash.server.settings import Limits


class _Refused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        self.status, self.sentence = status, sentence


class Bodies:
    """ASGI middleware: hands a request on with its whole body, or refuses it.

    A body is no larger than its route allows, arrives in time, and there are only so many bytes of all bodies
    at once. Only bytes that have come count, so clients that announce much and send little block nobody.
    """

    def __init__(self, app: App, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self.n_held = 0
        self._large = asyncio.Lock()
        images = ("/v1/search/image", "/v1/classify/image", "/v1/items")
        many = ("batch", "by-id", "remove", "relabel", "relabel/each")
        self._larger = {f"/v1/items/{each}": limits.batch_bytes for each in many}
        self._larger |= dict.fromkeys(images, limits.image_bytes)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            return await self.app(scope, receive, send)
        body, n = bytearray(), 0
        try:
            refusal = await self._read_in_time(scope, receive, body)
            n = len(body)
            if refusal:
                return await answer(send, refusal.status, refusal.sentence)
            whole = bytes(body)
            body.clear()
            replay = _replay(whole, receive)
            del whole
            # What is made of a body takes several times its memory.
            async with self._large if n > self.limits.image_bytes else nullcontext():
                await self.app(scope, replay, send)
        finally:
            self.n_held -= n or len(body)

    async def _read_in_time(
        self, scope: MutableMapping[str, Any], receive: Receive, body: bytearray
    ) -> _Refused | None:
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                await self._read(scope, receive, body)
        except TimeoutError:
            return _Refused(408, f"The body did not arrive within {self.limits.body_seconds:.0f} seconds.")
        except _Refused as refused:
            return refused
        return None

    async def _read(self, scope: MutableMapping[str, Any], receive: Receive, body: bytearray) -> None:
        limit = self._larger.get(scope["path"], self.limits.json_bytes)
        too_large = _Refused(413, f"The body is larger than the {limit / 2**20:g} MiB allowed here.")
        if _announced(scope) > limit:
            raise too_large
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Refused(400, "The body ended early.")
            chunk = message.get("body", b"")
            if len(body) + len(chunk) > limit:
                raise too_large
            if self.n_held + len(chunk) > self.limits.held_bytes:
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


class RouteTable:
    """Which routes a path is of, whoever refuses the request: for the metrics, and for ``Allow``."""

    def __init__(self, routes: Iterable[Any]) -> None:
        self._routes = list(routes)

    def name(self, method: str, path: str) -> str:
        """The pattern of the route, never the path that a client made up."""
        found = self._of(path)
        exact = [route for route in found if method in route.methods]
        return next((route.path for route in exact + found), "none")

    def methods(self, path: str) -> list[str]:
        return sorted({method for route in self._of(path) for method in route.methods})

    def _of(self, path: str) -> list[Any]:
        return [route for route in self._routes if route.path_regex.match(path)]


ITEMS = "/v1/items/"
SLASH = "\uffff"  # a noncharacter, in the place of a slash inside an id


class Paths:
    """ASGI middleware: an id may hold a slash, percent-encoded, and is one part of the path all the same.

    The framework decodes a path before it takes it apart, and such ids would fall apart.
    """

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path", b"") if scope["type"] == "http" else b""
        if raw.startswith(ITEMS.encode()) and b"%2f" in raw.lower():
            parts = raw.decode("latin-1").split("/")
            scope["path"] = "/".join(unquote(part).replace("/", SLASH) for part in parts)
        await self.app(scope, receive, send)


def id_text(part: str) -> str:
    """The id as it was before `Paths`."""
    return part.replace(SLASH, "/")
