"""Ids in addresses: an id may hold a slash, percent-encoded, and is one part of the path all the same."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import unquote

from sihash.server.guard import App, Receive, Send

ITEMS = "/v1/items/"
SLASH = "\uffff"  # a noncharacter, in the place of a slash inside an id


class Paths:
    """ASGI middleware: the framework decodes a path before it takes it apart, and ids would fall apart."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path", b"") if scope["type"] == "http" else b""
        if raw.startswith(ITEMS.encode()) and b"%2f" in raw.lower():
            parts = raw.decode("latin-1").split("/")
            scope = {**scope, "path": "/".join(unquote(part).replace("/", SLASH) for part in parts)}
        await self.app(scope, receive, send)


def id_text(part: str) -> str:
    """The id as it was before `Paths`."""
    return part.replace(SLASH, "/")
