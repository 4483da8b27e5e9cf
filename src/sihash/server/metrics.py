"""Every request is counted and logged; counters are for Prometheus, of all workers together."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sihash.server import logs
from sihash.server.guard import App, Message, Receive, Send
from sihash.server.requests import RouteTable

if TYPE_CHECKING:
    from sihash.server.service import Service

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # set before the first import of prometheus_client, if at all
REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)  # of a proxy before us
access = logging.getLogger("sihash.server.access")
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """What one worker counts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "sihash_requests", "Requests by route and status", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "sihash_request_seconds", "Time to answer", ["route"], buckets=BUCKETS, registry=self._registry
        )

    def observe(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self, service: Service) -> bytes:
        """Everything in the format of Prometheus."""
        registry = self._registry
        if os.environ.get(SHARED_FOLDER):
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        of_database = CollectorRegistry()
        of_database.register(_OfDatabase(service))
        return generate_latest(registry) + generate_latest(of_database)


class _OfDatabase(Collector):
    """Asked when the metrics are: what the database holds now."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[GaugeMetricFamily]:
        info = self._service.info()
        is_running = self._service.updates.state().state == "running"
        yield GaugeMetricFamily("sihash_items", "Items in the database", info.n_items)
        yield GaugeMetricFamily("sihash_version", "Model version in use", info.version)
        yield GaugeMetricFamily("sihash_waiting", "Changes that wait for the next update", info.n_waiting)
        yield GaugeMetricFamily("sihash_updating", "1 while an update runs", float(is_running))


class Watched:
    """ASGI middleware: every request has an id, is counted, and leaves a line in the log."""

    def __init__(self, app: App, metrics: Metrics, routes: RouteTable) -> None:
        self.app = app
        self.metrics = metrics
        self.routes = routes

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status, method, path = time.perf_counter(), 500, scope["method"], scope["path"]
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        id = given if REQUEST_ID.fullmatch(given) else uuid4().hex
        logs.request_id.set(id)  # of this request only: each runs in a context of its own

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - start
            route = getattr(scope.get("route"), "path", None) or self.routes.name(method, path)
            self.metrics.observe(route, status, seconds)
            if access.isEnabledFor(logging.INFO):
                [client, *_] = scope.get("client") or ["-"]
                facts = {"method": method, "path": path, "route": route, "status": status, "client": client}
                milliseconds = round(1000 * seconds, 2)
                message = f"{client} {method} {quote(path)} {status} {milliseconds} ms"
                logs.event(access, message, {**facts, "milliseconds": milliseconds})
