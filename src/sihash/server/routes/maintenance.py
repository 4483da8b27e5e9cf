"""For operators: health, readiness and metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from sihash.server.models import Health, Ready
from sihash.server.openapi import problems
from sihash.server.service import service_of

router = APIRouter(tags=["maintenance"])
METRICS = {200: {"content": {"text/plain": {}}, "description": "Prometheus' text format"}}


@router.get("/v1/health", responses=problems())
async def health() -> Health:
    """The process is alive."""
    return Health(status="ok")


@router.get("/v1/ready", responses=problems(503))
async def ready(request: Request) -> Ready:
    """The database is open and can be searched."""
    version = await asyncio.to_thread(lambda: service_of(request).database.version)
    return Ready(status="ready", version=version)


@router.get("/metrics", response_class=Response, responses={**problems(), **METRICS})  # type: ignore[dict-item]
async def metrics(request: Request) -> Response:
    """Counters and times for Prometheus."""
    service = service_of(request)
    text = await asyncio.to_thread(service.metrics.text, service)
    return Response(text, media_type="text/plain; version=0.0.4")
