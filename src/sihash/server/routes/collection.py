"""Looking at the collection: what it holds, its items, its bits."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from pydantic import BaseModel

from sihash.database import ImageDatabase
from sihash.database.answers import Item
from sihash.server.documentation import problems
from sihash.server.models import (
    BitsAnswer,
    ClassMargins,
    ComparisonAnswer,
    DoctorAnswer,
    InfoAnswer,
    ItemModel,
    ItemsPage,
    WhereText,
)
from sihash.server.routes.searching import Classes, ItemId
from sihash.server.service import service_of

router = APIRouter(prefix="/v1", tags=["collection"])
THUMBNAIL_TYPES = {200: {"content": {"image/jpeg": {}}, "description": "A small JPEG"}}


@router.get("/info", response_model=InfoAnswer, responses=problems())
async def info(request: Request) -> BaseModel:
    """What the database holds."""
    return await asyncio.to_thread(service_of(request).info)


@router.get("/bits", response_model=BitsAnswer, responses=problems())
async def bits(request: Request) -> BaseModel:
    """How each bit is used, and which classes it separates."""
    return await asyncio.to_thread(_bits_answer, service_of(request).database)


def _bits_answer(database: ImageDatabase) -> BitsAnswer:
    if not len(database):  # nothing to take shares of
        return BitsAnswer(version=database.version, balance=[], classes=[])
    found = database.bits()
    return BitsAnswer(
        version=found.version,
        balance=found.balance.tolist(),
        classes=[
            ClassMargins(label=label, margins=margins)
            for label, margins in zip(found.classes, found.margins.tolist(), strict=True)
        ],
    )


@router.get("/evaluation", response_model=ComparisonAnswer, responses=problems(422))
async def evaluation(request: Request) -> BaseModel:
    """How well searches answer, beside what one would otherwise take.

    Measured on samples at the first request, which takes seconds to minutes, and again after a change.
    """
    return await service_of(request).evaluations.current()


@router.get("/doctor", response_model=DoctorAnswer, responses=problems(422))
async def doctor(request: Request) -> BaseModel:
    """Labels that look wrong or are in conflict, and what mends each.

    Looked for at the first request, which takes seconds to minutes, and again after a change.
    """
    return await service_of(request).diagnoses.current()


@router.get("/items", response_model=ItemsPage, responses=problems(404, 422))
async def items(
    request: Request,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    classes: Classes = [],  # noqa: B006
    where: Annotated[
        WhereText | None, Query(description="Only items whose columns meet these conditions.")
    ] = None,
) -> BaseModel:
    """Items in the order in which they came."""
    service = service_of(request)
    labels = await service.known_labels(service.database, classes) if classes else None
    found = await asyncio.to_thread(service.database.items, offset, limit, labels, where)
    return ItemsPage(version=service.database.version, items=[_item_model(item) for item in found])


@router.get("/items/{id}", response_model=ItemModel, responses=problems(404, 422))
async def item(request: Request, id: ItemId) -> BaseModel:
    """One item."""
    return _item_model(await asyncio.to_thread(_item, service_of(request).database, id))


def _item(database: ImageDatabase, text: str) -> Item:
    return database.item(database.id_of(text))


@router.get(
    "/items/{id}/thumbnail",
    response_class=Response,
    responses={**problems(404, 422), **THUMBNAIL_TYPES},  # type: ignore[dict-item]
)
async def thumbnail(request: Request, id: ItemId) -> Response:
    """A small picture of an item; 404 if there is no such item, or none was kept."""
    database = service_of(request).database
    found = await asyncio.to_thread(_item, database, id)  # what was removed is not shown either
    image = await asyncio.to_thread(database.thumbnail, found.id)
    if image is None:
        raise HTTPException(404, f"There is no thumbnail of item {id}.")
    # The number of an item is never given twice; under an id of the user another picture may come.
    age = 3600 if isinstance(found.id, int) else 60
    return Response(image, media_type="image/jpeg", headers={"cache-control": f"private, max-age={age}"})


def _item_model(item: Any) -> ItemModel:
    return ItemModel(
        id=item.id,
        label=item.label,
        name=item.name,
        version=item.version,
        sha256=item.sha256,
        code=item.code.hex(),
        columns=item.columns,
    )
