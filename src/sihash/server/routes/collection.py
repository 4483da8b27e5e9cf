"""Reading the collection: what it holds, its items, its bits."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from sihash.database import Database
from sihash.database.answers import Bits, Item
from sihash.database.inspection.findings import Diagnosis
from sihash.server.models import (
    ComparisonAnswer,
    Ids,
    IdsAnswer,
    InfoAnswer,
    ItemsPage,
    MapAnswer,
    WhereText,
)
from sihash.server.openapi import problems
from sihash.server.routes.searching import Classes, ItemId
from sihash.server.service import service_of

router = APIRouter(prefix="/v1", tags=["collection"])
# What browsers show, by how it begins.
SHOWN_FORMATS = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"BM": "image/bmp",
}
Where = Annotated[WhereText | None, Query(description="Only items that match these conditions on columns.")]
NONE_KEPT = {
    204: {"description": "The item exists, but has no such picture"},
    304: {"description": "The picture is the one that the asker has (`If-None-Match`)"},
}
Text = Annotated[
    WhereText | None,
    Query(description="Only items that hold this text in their id, their name or a column of texts."),
]
THUMBNAIL_ANSWER = {200: {"content": {"image/jpeg": {}}, "description": "A small JPEG"}, **NONE_KEPT}
ORIGINAL = {
    200: {"content": {kind: {} for kind in SHOWN_FORMATS.values()}, "description": "The file"},
    **NONE_KEPT,
}


@router.get("/info", responses=problems())
async def info(request: Request) -> InfoAnswer:
    """What the database holds."""
    return await asyncio.to_thread(service_of(request).info)


@router.get("/bits", responses=problems())
async def bits(request: Request) -> Bits:
    """How each bit is used, and which classes it separates."""
    return await asyncio.to_thread(_bits, service_of(request).database)


def _bits(database: Database) -> Bits:
    if not len(database):  # nothing to take shares of
        return Bits(database.version, np.empty(0), [], np.empty((0, 0)))
    return database.bits()


@router.get("/evaluation", responses=problems(422))
async def evaluation(request: Request) -> ComparisonAnswer:
    """Compare the searches with other methods.

    Measured on samples at the first request, which takes seconds to minutes, and again after a change.
    """
    return await service_of(request).evaluations.current()


@router.get("/doctor", responses=problems(422))
async def doctor(request: Request) -> Diagnosis:
    """Labels that look wrong or conflict, and how to fix each.

    Looked for at the first request, which takes seconds to minutes, and again after a change.
    """
    return await service_of(request).diagnoses.current()


@router.get("/items", responses=problems(404, 422))
async def items(
    request: Request,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    classes: Classes = [],  # noqa: B006
    where: Where = None,
    text: Text = None,
) -> ItemsPage:
    """Items in order of arrival; of those that hold a text, the one whose id it is comes first."""
    service = service_of(request)
    labels = await service.known_labels(service.database, classes) if classes else None
    found = await asyncio.to_thread(service.database.items, offset, limit, labels, where, text)
    return ItemsPage(version=service.database.version, items=found)


@router.post("/items/by-id", responses=problems(408, 413, 415, 422))
async def items_by_id(request: Request, order: Ids) -> ItemsPage:
    """Items by their ids, in order of arrival; those that do not exist are left out."""
    database = service_of(request).database
    found = await asyncio.to_thread(database.items_of, order.ids)
    return ItemsPage(version=database.version, items=found)


@router.get("/ids", responses=problems(404, 422))
async def ids(
    request: Request,
    classes: Classes = [],  # noqa: B006
    where: Where = None,
    text: Text = None,
) -> IdsAnswer:
    """Ids of all items, or of those that match."""
    service = service_of(request)
    labels = await service.known_labels(service.database, classes) if classes else None
    found = await asyncio.to_thread(service.database.ids, labels, where, text)
    return IdsAnswer(version=service.database.version, ids=found)


@router.get("/map", response_model=MapAnswer, responses=problems(422))
async def map_of_items(request: Request) -> Response:
    """The map: at most 100,000 items in the plane.

    Made at the first request of a model version, which takes seconds; searches continue.
    """
    return Response(await service_of(request).maps.current(), media_type="application/json")


@router.get("/sample", responses=problems(404, 422))
async def sample(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    seed: Annotated[int, Query(ge=0, le=2**53, description="Seed of the random choice.")] = 0,
    classes: Classes = [],  # noqa: B006
    where: Where = None,
) -> ItemsPage:
    """Random items from as many classes as possible."""
    service = service_of(request)
    labels = await service.known_labels(service.database, classes) if classes else None
    found = await asyncio.to_thread(service.database.sample, limit, labels, seed, where)
    return ItemsPage(version=service.database.version, items=found)


@router.get("/items/{id}", responses=problems(404, 422))
async def item(request: Request, id: ItemId) -> Item:
    """One item."""
    return await asyncio.to_thread(_item, service_of(request).database, id)


def _item(database: Database, text: str) -> Item:
    return database.item(database.id_of(text))


def _with_file(
    database: Database, text: str, which: Literal["thumbnail", "original"]
) -> tuple[Item, bytes | None]:
    """An item and a picture of it. The item is read first, so removed items are not shown."""
    item = _item(database, text)
    return item, getattr(database, which)(item.id)


@router.get(
    "/items/{id}/thumbnail",
    response_class=Response,
    responses={**problems(404, 422), **THUMBNAIL_ANSWER},  # type: ignore[dict-item]
)
async def thumbnail(request: Request, id: ItemId) -> Response:
    """A small picture of an item; 204 if none is stored."""
    found, data = await asyncio.to_thread(_with_file, service_of(request).database, id, "thumbnail")
    return _picture(request, found, data, "image/jpeg")


@router.get(
    "/items/{id}/image",
    response_class=Response,
    responses={**problems(404, 422), **ORIGINAL},  # type: ignore[dict-item]
)
async def original(request: Request, id: ItemId) -> Response:
    """The original file of an item; 204 if it is missing, altered, or not shown by browsers."""
    found, data = await asyncio.to_thread(_with_file, service_of(request).database, id, "original")
    kind = next((kind for start, kind in SHOWN_FORMATS.items() if (data or b"").startswith(start)), None)
    return _picture(request, found, data if kind else None, kind or "")


def _picture(request: Request, item: Item, data: bytes | None, kind: str) -> Response:
    """A picture, which browsers keep, and ask each time whether it is still that of the item."""
    if data is None:
        return Response(status_code=204)
    headers = {"cache-control": "private, no-cache", "etag": f'"{item.sha256}"'}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=kind, headers=headers)
