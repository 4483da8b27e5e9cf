"""The page: a few files, read when the service starts and served from memory."""

from __future__ import annotations

from importlib import resources

from fastapi import APIRouter, HTTPException, Response

router = APIRouter(include_in_schema=False)
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def _load() -> dict[str, Response]:
    """Answers by file name. Names from clients are looked up here and never become paths."""
    found = {}
    for file in resources.files("sihash.server").joinpath("page").iterdir():
        kind = TYPES.get("." + file.name.rpartition(".")[2])
        if kind:
            found[file.name] = Response(
                file.read_bytes(), media_type=kind, headers={"cache-control": "no-cache"}
            )
    return found


FILES = _load()


@router.get("/")
async def index() -> Response:
    return FILES["index.html"]


@router.get("/favicon.ico")
async def icon() -> Response:
    return FILES["icon.svg"]


@router.get("/page/{name}")
async def file(name: str) -> Response:
    if name not in FILES:
        raise HTTPException(404, "There is no such file.")
    return FILES[name]
