"""For operators: health, readiness and metrics."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from sihash.database import DatabaseBusy
from sihash.pages import render
from sihash.server.models import Health, Ready
from sihash.server.openapi import NEEDS_TOKEN, problems
from sihash.server.service import service_of
from sihash.store.backup import archived

TAR = "application/x-tar"
ARCHIVE = {**problems(409), 200: {"content": {TAR: {}}, "description": "A tar archive"}}
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


@router.get("/v1/backup", response_class=Response, responses=ARCHIVE, openapi_extra=NEEDS_TOKEN)
async def backup(request: Request) -> Response:
    """The database as a tar archive, as it is now; `sihash restore` makes a database of it.

    Items can be added and removed meanwhile; an update waits.
    """
    try:
        return await asyncio.to_thread(ArchiveResponse, Path(service_of(request).settings.database))
    except DatabaseBusy:
        raise HTTPException(409, "An update or another backup is running; wait until it is done.") from None


class ArchiveResponse(StreamingResponse):
    """Holds the files of the archive until it is sent, or the client is gone."""

    def __init__(self, database: Path) -> None:
        with ExitStack() as stack:
            archive = stack.enter_context(archived(database))
            self._held = stack.pop_all()
        name = quote(f"{database.absolute().name}.tar")
        headers = {"content-length": str(archive.size)}
        headers["content-disposition"] = f"attachment; filename*=utf-8''{name}"
        super().__init__(archive.pieces, headers=headers, media_type=TAR)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await asyncio.to_thread(self._held.close)


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
