"""Who may ask: the first thing that sees a request, and the last that sees its answer.

A page of another site can make a browser send requests to this machine, and by DNS rebinding even read the
answers. So a request is let through only if its ``Host`` is one of ours, if it does not come from another
site, and, where it changes something, if it carries the token in a header that a foreign page cannot set.
There are no cookies, and nothing is ever shared across origins.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from sihash.server.settings import ServerSettings, as_address
from sihash.server.tokens import is_token

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Headers = dict[bytes, bytes]

# All else that is no GET changes the database; a new route is guarded unless it is put here.
READING_POSTS = frozenset(
    {
        "/v1/search/image",
        "/v1/search/vector",
        "/v1/classify/image",
        "/v1/classify/vector",
        "/v1/items/by-id",
    }
)
BACKUP = "/v1/backup"  # all there is, with paths of the owner's files, and no update begins meanwhile
TOKEN_CHECK = "/v1/token"  # changes nothing, and needs the token for that
# What says nothing about the database: the page without its data, and that the service is alive.
PUBLIC = ("/", "/favicon.ico", "/v1/health", "/v1/ready")
PUBLIC_FOLDER = "/page/"
# What proxies add: who asks is not on this machine, whatever the address says.
FORWARDED = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"})

SECURITY_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Guard:
    """ASGI middleware: refuses what must not reach the routes, puts the security headers on every answer."""

    def __init__(self, app: App, settings: ServerSettings) -> None:
        self.app = app
        self.settings = settings
        self.is_local = settings.is_local
        self.reads_freely = settings.reads_freely
        self.own_names = settings.own_names

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return None  # there are no web sockets; closing without an answer refuses one

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
            await send(message)

        refusal = self._refusal(scope)
        if refusal:
            return await answer(send_safely, *refusal)
        return await self.app(scope, receive, send_safely)

    def _refusal(self, scope: MutableMapping[str, Any]) -> tuple[int, str] | None:
        headers: Headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_our_host(host):
            return 421, "The Host of this request is not one of this service; see --allow-host."
        if _is_from_another_site(scope["method"], headers, host):
            return 403, "Requests from the pages of other sites are refused."
        if (
            self.settings.read_only
            and scope["path"] != TOKEN_CHECK
            and _changes(scope["method"], scope["path"])
        ):
            return 403, "This service is read-only."
        if self._needs_token(scope["method"], scope["path"], headers) and not self._has_token(headers):
            return 401, "This needs the token of the service: send 'Authorization: Bearer <token>'."
        return None

    def _is_our_host(self, host: str) -> bool:
        """Names have to be known. An address cannot be rebound, so away from the loopback any will do."""
        name = _without_port(host)
        if name in self.own_names:
            return True
        return not self.is_local and as_address(name) is not None

    def _needs_token(self, method: str, path: str, headers: Headers) -> bool:
        if _changes(method, path) or path == BACKUP:
            return True
        is_public = path in PUBLIC or path.startswith(PUBLIC_FOLDER)
        return not is_public and (not self.reads_freely or not FORWARDED.isdisjoint(headers))

    def _has_token(self, headers: Headers) -> bool:
        kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        return kind.lower() == "bearer" and is_token(token.strip(), self.settings.token_hash)


def _changes(method: str, path: str) -> bool:
    return method not in ("GET", "HEAD", "OPTIONS") and path not in READING_POSTS


def _without_port(host: str) -> str:
    """``localhost:8080`` → ``localhost``; ``[::1]:8080`` → ``[::1]``."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() and port.isascii() else host).lower()


def _is_from_another_site(method: str, headers: Headers, host: str) -> bool:
    """Browsers say so: in Sec-Fetch-Site, and in Origin on everything that is not a plain GET.

    Following a link to the page is allowed, whoever shows the link.
    """
    site = headers.get(b"sec-fetch-site", b"none")
    follows_link = method == "GET" and headers.get(b"sec-fetch-mode") == b"navigate"
    if site in (b"cross-site", b"same-site") and not follows_link:
        return True
    origin = headers.get(b"origin")
    return origin is not None and not _is_origin_of(origin.decode("latin-1"), host)


def _is_origin_of(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


async def answer(send: Send, status: int, sentence: str) -> None:
    """An error as every route reports it, sent without the framework."""
    body = json.dumps({"detail": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status in (408, 413, 421, 503):
        headers.append((b"connection", b"close"))  # what is left of the body is not read
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
