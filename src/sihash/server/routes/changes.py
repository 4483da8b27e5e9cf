"""Changing the collection: add, remove, relabel, update, undo. All routes need the token."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from sihash.database.answers import AddReport, Label, RelabelReport, RemoveReport, UndoReport
from sihash.datasets import Reject
from sihash.features import BadImage
from sihash.server.models import (
    MAX_LABELS,
    Batch,
    BatchItem,
    ClassRelabelling,
    Health,
    Ids,
    IdText,
    LabelText,
    Name,
    OneOrSeveral,
    Relabelling,
    Relabellings,
    UpdateOrder,
    UpdateState,
    VersionsAnswer,
)
from sihash.server.openapi import IMAGE_BODY, NEEDS_TOKEN, problems
from sihash.server.routes.searching import ItemId
from sihash.server.service import Service, service_of
from sihash.server.updates import AlreadyRunning, TooManyFollow, Updates
from sihash.server.uploads import Allowance
from sihash.store.labels import written_labels

router = APIRouter(prefix="/v1", tags=["changes"])


@router.post("/token", responses=problems(), openapi_extra=NEEDS_TOKEN)
async def check_token() -> Health:
    """Check the token; does nothing else."""
    return Health(status="ok")


# Items.


@router.post(
    "/items",
    responses=problems(408, 409, 413, 415, 422, 503),
    openapi_extra={**IMAGE_BODY, **NEEDS_TOKEN},
)
async def add_image(
    request: Request,
    label: Annotated[
        list[LabelText], Query(max_length=MAX_LABELS, description="A label, known or new; repeat for more.")
    ] = [],  # noqa: B006
    name: Annotated[Name, Query(description="Its name; never used as a path.")] = "upload",
    id: Annotated[IdText | None, Query(description="Its id, as text. Default: a number.")] = None,
    replace: Annotated[bool, Query(description="Replace an item with the same id.")] = False,
) -> AddReport:
    """Add an image, sent as the body. It can be found as soon as the answer arrives."""
    service = service_of(request)
    await service.image(request)  # whoever cannot be decoded within the limits goes no further
    item = BatchItem(label=label, name=name, id=id)
    return await _add(service, [await request.body()], [item], replace)


@router.post(
    "/items/batch",
    responses=problems(408, 409, 413, 415, 422, 503),
    openapi_extra=NEEDS_TOKEN,
)
async def add_batch(request: Request, batch: Batch) -> AddReport:
    """Add images or vectors in one transaction. The answer lists those that cannot be used."""
    service = service_of(request)
    if len({item.id is None for item in batch.items}) > 1:
        raise HTTPException(422, "Expected items with an id each, or all without.")
    if len({isinstance(item.label, list) for item in batch.items if item.label is not None}) > 1:
        raise HTTPException(422, "Expected items with one label each, or with a list of labels each.")
    if all(item.vector is not None and item.image is None for item in batch.items):
        service.expect("vectors")
        return await _add(service, _matrix(batch), batch.items, batch.replace)
    if any(item.image is None or item.vector is not None for item in batch.items):
        raise HTTPException(422, "Expected items with an image each, or with a vector each.")
    service.expect("images")
    allowance = service.allowance()
    images = [await _checked_image(service, item.image or "", allowance) for item in batch.items]
    good = [k for k, image in enumerate(images) if isinstance(image, bytes)]
    bad = [
        Reject(_name(k, batch.items[k]), str(image))
        for k, image in enumerate(images)
        if not isinstance(image, bytes)
    ]
    if not good:
        return AddReport(service.database.version, added=[], skipped=[], rejected=bad)
    report = await _add(service, [images[k] for k in good], [batch.items[k] for k in good], batch.replace)
    return replace(report, rejected=bad + report.rejected)


def _matrix(batch: Batch) -> Any:
    widths = {len(item.vector or []) for item in batch.items}
    if len(widths) > 1:
        raise HTTPException(
            422, f"Expected vectors of one width, got {min(widths)} and {max(widths)} numbers."
        )
    with np.errstate(over="ignore"):  # beyond float32: infinite, which the database rejects
        return np.array([item.vector for item in batch.items], dtype=np.float32)


async def _checked_image(service: Service, text: str, allowance: Allowance) -> bytes | BadImage:
    """The bytes of an image that can be decoded within the limits, or the reason why it cannot."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return BadImage("is not Base64")
    try:
        if len(data) > (limit := service.settings.limits.image_bytes):
            raise BadImage(f"larger than the {limit / 2**20:g} MiB allowed")
        await service.decoders.check(data, service.at_least, allowance)
        return data
    except BadImage as reason:
        return reason


def _meant(known: Collection[Label], given: Sequence[OneOrSeveral | None]) -> list[Any]:
    """For each item the label, or the list of labels, that the texts in a request stand for."""
    lists = [one if isinstance(one, list) else [one] for one in given]
    labels = iter(written_labels(known, [text for one in lists for text in one]))
    meant = [[next(labels) for _ in one] for one in lists]
    return [found if isinstance(one, list) else found[0] for one, found in zip(given, meant, strict=True)]


def _name(k: int, item: BatchItem) -> str:
    return item.name or (f"upload {k + 1}" if item.id is None else str(item.id))


async def _add(service: Service, source: Any, items: list[BatchItem], replaces: bool) -> AddReport:
    database = service.database
    columns = {name for item in items for name in item.columns}

    def add() -> AddReport:
        return database.add(
            source,
            # When it is its turn: what others added meanwhile may decide whether "3" is a number.
            labels=lambda known: _meant(known, [item.label for item in items]),
            names=[_name(k, item) for k, item in enumerate(items)],
            ids=None if items[0].id is None else [item.id for item in items],
            columns={name: [item.columns.get(name) for item in items] for name in sorted(columns)},
            replace=replaces,
        )

    return await service.write(add)


@router.delete("/items/{id}", responses=problems(404, 422, 503), openapi_extra=NEEDS_TOKEN)
async def remove_item(request: Request, id: ItemId) -> RemoveReport:
    """Remove an item. As soon as the answer arrives, no search finds it."""
    service = service_of(request)
    return await service.write(service.database.remove, [service.database.id_of(id)])


@router.post(
    "/items/remove",
    responses=problems(404, 408, 413, 415, 422, 503),
    openapi_extra=NEEDS_TOKEN,
)
async def remove_items(request: Request, order: Ids) -> RemoveReport:
    """Remove several items, all or none."""
    service = service_of(request)
    return await service.write(service.database.remove, order.ids)


@router.delete("/classes", responses=problems(404, 422, 503), openapi_extra=NEEDS_TOKEN)
async def remove_class(request: Request, label: Annotated[LabelText, Query()]) -> RemoveReport:
    """Remove a class: an item loses this label, and is removed if it has no other.

    The hash functions forget it with the next update.
    """
    service = service_of(request)
    labels = await service.known_labels(service.database, [label])
    return await service.write(service.database.remove_classes, labels)


@router.post(
    "/items/relabel",
    responses=problems(404, 408, 413, 415, 422, 503),
    openapi_extra=NEEDS_TOKEN,
)
async def relabel_items(request: Request, order: Relabelling) -> RelabelReport:
    """Change the labels of items, all or none. Searches use them as soon as the answer arrives."""
    database = service_of(request).database

    def relabel() -> RelabelReport:
        return database.relabel(order.ids, *_meant(database.labels(), [order.label]))

    return await service_of(request).write(relabel)


@router.post(
    "/items/relabel/each",
    responses=problems(404, 408, 413, 415, 422, 503),
    openapi_extra=NEEDS_TOKEN,
)
async def relabel_each(request: Request, order: Relabellings) -> RelabelReport:
    """Give different items different labels, all or none, as one change."""
    database = service_of(request).database
    if len({str(id) for one in order.changes for id in one.ids}) < sum(len(one.ids) for one in order.changes):
        raise HTTPException(422, "Expected each item once, got one that is to be relabelled twice.")

    def relabel() -> RelabelReport:
        labels = _meant(database.labels(), [one.label for one in order.changes])
        wanted = zip(order.changes, labels, strict=True)
        return database.relabel_each({id: label for one, label in wanted for id in one.ids})

    return await service_of(request).write(relabel)


@router.post(
    "/classes/relabel",
    responses=problems(404, 408, 413, 415, 422, 503),
    openapi_extra=NEEDS_TOKEN,
)
async def relabel_classes(request: Request, order: ClassRelabelling) -> RelabelReport:
    """Change the label of all items of some classes, to merge or rename them."""
    service = service_of(request)
    database = service.database
    labels = await service.known_labels(database, order.classes)

    def relabel() -> RelabelReport:
        return database.relabel_classes(labels, *_meant(database.labels(), [order.label]))

    return await service.write(relabel)


# Versions.


@router.get("/versions", responses=problems())
async def versions(request: Request) -> VersionsAnswer:
    """The model versions, oldest first."""
    database = service_of(request).database
    found, info = await asyncio.to_thread(lambda: (database.versions(), database.info()))
    return VersionsAnswer(undoable=info["undoable"] is not None, versions=found)


@router.post("/undo", responses=problems(409, 503), openapi_extra=NEEDS_TOKEN)
async def undo(request: Request) -> UndoReport:
    """Undo the last addition, removal, relabelling or update."""
    service = service_of(request)
    return await service.write(service.database.undo)


# Updates.


@router.post(
    "/updates",
    status_code=202,
    responses=problems(408, 409, 413, 415, 422),
    openapi_extra=NEEDS_TOKEN,
)
async def start_update(request: Request, order: UpdateOrder) -> UpdateState:
    """Start an update in its own process. Searches continue meanwhile."""
    try:
        return service_of(request).updates.start(order.strategy, order.reencode, order.compare)
    except AlreadyRunning:
        raise HTTPException(409, "An update is running; wait until it is done.") from None


@router.get("/updates", responses=problems())
async def update_state(request: Request) -> UpdateState:
    """The progress of the last update."""
    return service_of(request).updates.state()


@router.get(
    "/updates/events",
    response_class=StreamingResponse,
    responses={
        **problems(503),
        200: {"content": {"text/event-stream": {}}, "description": "A stream of `UpdateState`"},
    },
)
async def update_events(request: Request) -> StreamingResponse:
    """The progress as server-sent events: now, and whenever it changes."""
    try:
        return EventStream(service_of(request).updates)
    except TooManyFollow:
        raise HTTPException(503, "Too many clients follow the update; try again later.") from None


class EventStream(StreamingResponse):
    """Counts as a follower from its creation, so that no two can take the last place."""

    def __init__(self, updates: Updates) -> None:
        updates.join()
        self._updates = updates
        super().__init__(updates.events(), media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._updates.leave()
