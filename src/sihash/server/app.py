"""The application of one worker: routes inside, guards around them."""

from __future__ import annotations

import copy
import gc
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from sihash import __version__
from sihash.database import CorruptFile, DatabaseBusy, DatabaseError, IdTaken, NoSuchItem
from sihash.server import logs
from sihash.server.guard import Guard
from sihash.server.metrics import Metrics, Watched
from sihash.server.openapi import SECURITY_SCHEMES, describe_database
from sihash.server.requests import Bodies, Paths, RouteTable
from sihash.server.routes import changes, collection, maintenance, page, searching
from sihash.server.service import Service
from sihash.server.settings import ServerSettings
from sihash.server.uploads import Overloaded, TooManyPixels

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig  # earlier versions have none to switch off

# Nothing is ever sent, not even where the environment asks frameworks to.
NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
ROUTERS = (searching.router, collection.router, changes.router, maintenance.router, page.router)
log = logging.getLogger("sihash.server")


def create_app(settings: ServerSettings | None = None) -> FastAPI:
    """The service as an ASGI application; by default with what `ServerSettings.store` left."""
    if settings is None:
        settings = ServerSettings.stored()
        logs.set_up(settings.log_level, settings.log_format)
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.service = service = Service(settings, metrics)
        _notice_stop(service)
        _end_with_parent()
        await service.decoders.start()
        # What is loaded by now stays: to look through it for garbage would stop all answers for 150 ms.
        gc.collect()
        gc.freeze()
        yield
        gc.unfreeze()
        await service.close()

    app = FastAPI(
        title="sihash",
        version=__version__,
        summary="Search a changing image collection by learned binary codes",
        lifespan=lifespan,
        docs_url=None,  # these fetch scripts from elsewhere
        redoc_url=None,
        telemetry=NO_TELEMETRY,
    )
    for router in ROUTERS:
        app.include_router(router)
    routes = RouteTable(route for router in ROUTERS for route in router.routes)
    _describe(app)
    _errors_as_sentences(app, settings, routes)
    app.add_middleware(Paths)  # the innermost; the last added sees a request first
    app.add_middleware(Bodies, limits=settings.limits)
    app.add_middleware(Guard, settings=settings)
    app.add_middleware(Watched, metrics=metrics, routes=routes)
    return app


def _notice_stop(service: Service) -> None:
    """Let streams of events end when the server is told to stop; it would wait for them otherwise."""
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread hears signals; a test client has no use for them
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def stop(number: int, frame: Any, before: Any = before) -> None:
            service.updates.is_stopping = True
            if callable(before):
                before(number, frame)

        signal.signal(number, stop)


def _end_with_parent() -> None:
    """A worker whose supervisor was killed stops, too: it would hold the address of the next service."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def watch() -> None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=watch, daemon=True).start()


def _describe(app: FastAPI) -> None:
    make = app.openapi

    def openapi() -> dict[str, Any]:
        """In general; where a database is served, as it fits that."""
        description = copy.deepcopy(make())  # which the framework makes once
        description.setdefault("components", {})["securitySchemes"] = SECURITY_SCHEMES
        if hasattr(app.state, "service"):
            describe_database(description, app.state.service.info())
        return description

    app.openapi = openapi  # type: ignore[method-assign]


def _errors_as_sentences(app: FastAPI, settings: ServerSettings, routes: RouteTable) -> None:
    """Errors as one sentence each, without paths and traces; the server writes those to its log."""

    def problem(status: int, sentence: str) -> JSONResponse:
        headers = {"retry-after": "1"} if status == 503 else None
        return JSONResponse({"detail": sentence}, status, headers)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        headers = error.headers
        if error.status_code == 405:  # the framework would name the methods of one route of this path
            headers = {"allow": ", ".join(routes.methods(request.url.path))}
        return JSONResponse({"detail": str(error.detail)}, error.status_code, headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if first["loc"] == ("body",) and not kind.endswith("json"):
            return problem(415, "Expected a JSON body, with a Content-Type of application/json.")
        place = ".".join(str(part) for part in first["loc"])
        return problem(422, f"{place}: {first['msg']}.")

    @app.exception_handler(DatabaseError)
    async def database_refused(request: Request, error: DatabaseError) -> JSONResponse:
        if isinstance(error, CorruptFile):
            log.error("%s", error)
            return problem(500, "The database is damaged; the log of the service says where.")
        if isinstance(error, DatabaseBusy):
            return problem(503, "Another program is writing to the database; try again in a moment.")
        clashes = isinstance(error, IdTaken) or request.url.path == "/v1/undo"
        status = 404 if isinstance(error, NoSuchItem) else 409 if clashes else 422
        return problem(status, str(error).replace(settings.database, "the database"))

    @app.exception_handler(Overloaded)
    async def overloaded(request: Request, error: Overloaded) -> JSONResponse:
        return problem(503, "Too many images at once; try again in a moment.")

    @app.exception_handler(TooManyPixels)
    async def too_many_pixels(request: Request, error: TooManyPixels) -> JSONResponse:
        allowed = f"{settings.limits.request_pixels:,} pixels"
        return problem(413, f"The images of one request may have {allowed} together; send fewer at a time.")

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        return problem(500, "The service failed; its log has the reason.")
