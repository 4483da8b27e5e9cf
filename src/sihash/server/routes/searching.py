"""Searching and classifying: by image, by vector, by an item of the collection."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel

from sihash.server.documentation import IMAGE_BODY, problems
from sihash.server.models import (
    MAX_ID,
    MAX_RESULTS,
    ClassifyAnswer,
    ClassProbability,
    LabelText,
    Rank,
    SearchAnswer,
    VectorQuery,
    VectorSearch,
    search_answer,
)
from sihash.server.service import Service, service_of

router = APIRouter(prefix="/v1", tags=["search"])

K = Annotated[int, Query(ge=1, le=MAX_RESULTS, description="Results at most.")]
Radius = Annotated[
    int | None, Query(ge=0, le=4096, description="Of these, only items at most this many bits away.")
]
RankQuery = Annotated[Rank | None, Query(description="How to order; the database has a default.")]
Classes = Annotated[
    list[LabelText], Query(alias="class", max_length=1000, description="Only items of these classes.")
]
ItemId = Annotated[int, Path(ge=0, le=MAX_ID)]


def _options(service: Service, k: int, rank: str | None, classes: list[str]) -> dict[str, Any]:
    return {"k": k, "rank": rank, "classes": service.known_labels(classes) if classes else None}


def _response(answer: Any, radius: int | None) -> Response:
    """The answer, of which only what lies within the radius. The database would look for all of that, which
    may be everything; here ``k`` bounds what one request can cost."""
    if radius is not None:
        answer = replace(answer, hits=[hit for hit in answer.hits if hit.distance <= radius])
    return Response(search_answer(answer).model_dump_json(), media_type="application/json")


@router.get("/items/{id}/search", response_model=SearchAnswer, responses=problems(404, 422))
async def search_by_item(
    request: Request,
    id: ItemId,
    k: K = 10,
    radius: Radius = None,
    rank: RankQuery = None,
    classes: Classes = [],  # noqa: B006
) -> Any:
    """Search from an item of the collection, which is left out of its own answer."""
    service = service_of(request)
    options = _options(service, k, rank, classes)
    [answer] = await service.search(service.database.search_ids, [id], **options)
    return _response(answer, radius)


@router.post(
    "/search/image",
    response_model=SearchAnswer,
    responses=problems(404, 408, 413, 415, 422, 503),
    openapi_extra=IMAGE_BODY,
)
async def search_by_image(
    request: Request,
    k: K = 10,
    radius: Radius = None,
    rank: RankQuery = None,
    classes: Classes = [],  # noqa: B006
) -> Any:
    """Search from an image, sent as the body."""
    service = service_of(request)
    options = _options(service, k, rank, classes)
    image = await service.image(request)
    [answer] = await asyncio.to_thread(service.database.search, [image], **options)
    return _response(answer, radius)


@router.post("/search/vector", response_model=SearchAnswer, responses=problems(404, 408, 413, 422, 503))
async def search_by_vector(request: Request, query: VectorSearch) -> Any:
    """Search from a vector, in a database of vectors."""
    service = service_of(request)
    options = _options(service, query.k, query.rank, query.classes)
    [answer] = await asyncio.to_thread(service.database.search, _row(query.vector), **options)
    return _response(answer, query.radius)


@router.post(
    "/classify/image",
    response_model=ClassifyAnswer,
    responses=problems(408, 413, 415, 422, 503),
    openapi_extra=IMAGE_BODY,
)
async def classify_image(request: Request) -> BaseModel:
    """The likely class of an image, sent as the body."""
    service = service_of(request)
    image = await service.image(request)
    [found] = await asyncio.to_thread(service.database.classify, [image])
    return _classify_answer(found)


@router.post("/classify/vector", response_model=ClassifyAnswer, responses=problems(408, 413, 422, 503))
async def classify_vector(request: Request, query: VectorQuery) -> BaseModel:
    """The likely class of a vector."""
    service = service_of(request)
    [found] = await asyncio.to_thread(service.database.classify, _row(query.vector))
    return _classify_answer(found)


def _row(vector: list[float]) -> Any:
    with np.errstate(over="ignore"):  # beyond float32: infinite, which the database refuses
        return np.array([vector], dtype=np.float32)


def _classify_answer(found: Any) -> ClassifyAnswer:
    likely = sorted(found.probabilities.items(), key=lambda pair: -pair[1])
    return ClassifyAnswer(
        version=found.version,
        label=found.label,
        probability=found.probability,
        probabilities=[ClassProbability(label=label, probability=p) for label, p in likely],
    )
