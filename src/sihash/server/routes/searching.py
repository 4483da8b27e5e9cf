"""Searching and classifying: by image, by vector, by an item of the collection."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import parse_qsl

import numpy as np
from fastapi import APIRouter, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, ValidationError

from sihash.database import Database
from sihash.database.answers import Answer, Classification
from sihash.server.models import (
    MAX_LABELS,
    LabelText,
    SearchOptions,
    VectorQuery,
    VectorSearch,
)
from sihash.server.openapi import HITS, IMAGE_BODY, problems, query_parameters
from sihash.server.requests import id_text
from sihash.server.service import Service, service_of

router = APIRouter(prefix="/v1", tags=["search"])

Classes = Annotated[
    list[LabelText],
    Query(alias="class", max_length=MAX_LABELS, description="Only items that have one of these labels."),
]
ItemId = Annotated[
    str,
    Path(min_length=1, max_length=1000, description="The id of an item, percent-encoded."),
    AfterValidator(id_text),
]
OPTIONS = query_parameters(SearchOptions, {"classes": "class"})


@lru_cache(maxsize=1024)
def _options(query: bytes) -> SearchOptions:
    """Options from the query string of a URL. Clients repeat themselves, so most are in the cache."""
    values: dict[str, Any] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name == "class":
            values.setdefault("classes", []).append(value)
        elif name in ("k", "radius", "rank", "where", "before_update"):
            values[name] = value
    try:
        return SearchOptions.model_validate(values)
    except ValidationError as error:
        raise RequestValidationError(
            [{**one, "loc": ("query", *one["loc"])} for one in error.errors()]
        ) from None


async def _arguments(service: Service, database: Database, options: SearchOptions) -> dict[str, Any]:
    labels = await service.known_labels(database, options.classes) if options.classes else None
    how = {"k": options.k, "radius": options.radius, "rank": options.rank}
    return {**how, "classes": labels, "where": options.where}


@router.get("/items/{id}/search", responses={**problems(404, 409, 422), **HITS}, openapi_extra=OPTIONS)
async def search_by_item(request: Request, id: ItemId) -> Answer:
    """Search from an item of the collection; it is left out of its own answer."""
    service, options = service_of(request), _options(request.scope["query_string"])
    searcher = await service.searcher_for(options)
    arguments = await _arguments(service, searcher, options)
    item = searcher.id_of(id)
    [answer] = searcher.search_ids([item], **arguments)  # takes no longer than handing it to a thread
    return answer


@router.post(
    "/search/image",
    responses={**problems(404, 408, 409, 413, 415, 422, 503), **HITS},
    openapi_extra={**IMAGE_BODY, **OPTIONS},
)
async def search_by_image(request: Request) -> Answer:
    """Search from an image, sent as the body."""
    service, options = service_of(request), _options(request.scope["query_string"])
    service.expect("images")
    searcher = await service.searcher_for(options)
    arguments = await _arguments(service, searcher, options)
    image = await service.image(request)
    [answer] = await asyncio.to_thread(searcher.search, [image], **arguments)
    return answer


@router.post("/search/vector", responses={**problems(404, 408, 409, 413, 415, 422, 503), **HITS})
async def search_by_vector(request: Request, query: VectorSearch) -> Answer:
    """Search from a vector, in a database of vectors."""
    service = service_of(request)
    service.expect("vectors")
    searcher = await service.searcher_for(query)
    arguments = await _arguments(service, searcher, query)
    [answer] = await asyncio.to_thread(searcher.search, _row(query.vector), **arguments)
    return answer


@router.post(
    "/classify/image",
    responses=problems(408, 413, 415, 422, 503),
    openapi_extra=IMAGE_BODY,
)
async def classify_image(request: Request) -> Classification:
    """Predict the class of an image, sent as the body."""
    service = service_of(request)
    image = await service.image(request)
    [found] = await asyncio.to_thread(service.searcher.classify, [image])
    return found


@router.post("/classify/vector", responses=problems(408, 413, 415, 422, 503))
async def classify_vector(request: Request, query: VectorQuery) -> Classification:
    """Predict the class of a vector."""
    service = service_of(request)
    service.expect("vectors")
    [found] = await asyncio.to_thread(service.searcher.classify, _row(query.vector))
    return found


def _row(vector: list[float]) -> Any:
    with np.errstate(over="ignore"):  # beyond float32: infinite, which the database refuses
        return np.array([vector], dtype=np.float32)
