"""For operators: health, readiness and metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from sihash.pages import render
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


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """The description of the routes, for people; nothing is fetched from elsewhere."""
    name = service_of(request).info().name
    page = await asyncio.to_thread(lambda: render("api.html", name=name, api=request.app.openapi()))
    return HTMLResponse(page)
