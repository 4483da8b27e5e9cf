"""What the routes of one worker share: the database, its decoders, its updates."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from fastapi import HTTPException, Request
from PIL import Image

from sihash.database import CorruptFile, Database, DatabaseError
from sihash.database.answers import RANKS, Label
from sihash.features import BadImage
from sihash.features.extract import about
from sihash.server.metrics import Metrics
from sihash.server.models import ClassCount, InfoAnswer, SearchOptions
from sihash.server.reports import ReportCache, diagnosis, evaluation, map_of_items
from sihash.server.run_folder import hold
from sihash.server.settings import ServerSettings
from sihash.server.titles import Titles
from sihash.server.updates import Updates
from sihash.server.uploads import Allowance, Decoders
from sihash.store.labels import written_labels

Result = TypeVar("Result")


class Service:
    """Made when a worker starts, closed when it stops."""

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self._in_use = hold(settings.run_folder)
        self.database = Database(settings.database, patience=settings.limits.busy_seconds)
        self.searcher = Database(settings.database, background=True)  # no search waits for a new version
        self.decoders = Decoders(settings.run_folder, settings.limits)
        self.updates = Updates(
            settings.database, settings.run_folder, settings.update_threads, settings.limits.followers
        )
        self.evaluations = ReportCache(settings.database, evaluation)
        self.diagnoses = ReportCache(settings.database, diagnosis)
        # These outlive the handle that a report is made by.
        self.maps = ReportCache(settings.database, lambda _: map_of_items(self.database))
        self._before_update = ReportCache(settings.database, lambda _: self.database.before_update())
        self._titles = Titles(self.database, settings.title)
        self._writers = ThreadPoolExecutor(settings.limits.writers, "writer")

    @property
    def holds_images(self) -> bool:
        return self.database.features.name != "none"  # of now: another database may have taken the place

    @property
    def at_least(self) -> int | None:
        """How small a side may become while an image is decoded: as the database itself would have it."""
        return self.database.features.extractor().at_least if self.holds_images else None

    async def close(self) -> None:
        self.updates.stop()
        self._writers.shutdown()
        await self.decoders.stop()
        if self._in_use is not None:
            os.close(self._in_use)

    def info(self) -> InfoAnswer:
        """What the database holds, without what is nobody's business (where it lies)."""
        info = self.database.info()
        unlabelled = {None: info["n_unlabelled"]} if info["n_unlabelled"] else {}
        alone = info["only_label"] | unlabelled
        return InfoAnswer(
            name=Path(self.settings.database).absolute().name,
            version=info["version"],
            n_items=info["n_items"],
            n_several=info["n_several"],
            n_bits=info["n_bits"],
            holds_images=self.holds_images,
            thumbnails=info["thumbnails"] and self.holds_images,
            read_only=self.settings.read_only,
            width=info["n_features"],
            features=info["features"].partition(":")[0],
            about_features=about(info["features"]),
            index=info["index"]["kind"],
            ranks=list(RANKS),
            rank=info["rank"],
            classes=[
                ClassCount(label=label, n_items=n, n_only=alone.get(label, 0))
                for label, n in (info["classes"] | unlabelled).items()
            ],
            columns=info["columns"],
            title=self._titles.column(info["columns"]),
            n_waiting=info["n_waiting"],
        )

    async def known_labels(self, database: Database, texts: Sequence[str]) -> list[Label]:
        """The labels that texts in an address stand for; 404 for one that no item has.

        Each asks the handle that it goes on with: a search must not wait for a version that it does not use.
        """
        known = set(await asyncio.to_thread(database.labels))
        labels = written_labels(known, texts)
        for text, label in zip(texts, labels, strict=True):
            if label not in known:
                raise HTTPException(404, f"There is no class {text!r}.")
        return labels

    async def searcher_for(self, options: SearchOptions) -> Database:
        """The database as it is now, or as it was before its last update."""
        if not options.before_update:
            return self.searcher
        try:
            return await self._before_update.current()
        except CorruptFile:
            raise
        except DatabaseError as error:  # there is none: the request is right, but not now
            raise HTTPException(409, str(error)) from None

    def expect(self, kind: Literal["images", "vectors"]) -> None:
        """Refuse what is nothing like the items, in a sentence about what the database holds."""
        if (kind == "images") != self.holds_images:
            held = "images" if self.holds_images else f"vectors of {self.info().width:,} numbers"
            raise HTTPException(422, f"This database holds {held}, so it takes no {kind}.")

    async def image(self, request: Request) -> Image.Image:
        """The image in the body of a request, decoded out of reach; 4xx if there is none."""
        self.expect("images")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not kind.startswith("image/") and kind != "application/octet-stream":
            raise HTTPException(415, "Expected an image as the body, with a Content-Type of image/….")
        return await self.decoded(await request.body())

    def allowance(self) -> Allowance:
        """Of a request that has just begun."""
        return Allowance(self.settings.limits.request_pixels)

    async def decoded(self, data: bytes) -> Image.Image:
        try:
            return await self.decoders.decode(data, self.at_least, self.allowance())
        except BadImage as reason:
            raise HTTPException(422, f"This image cannot be used: {reason}.") from None

    async def write(self, work: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
        """Call what changes the database, in a thread: there it waits for its turn."""
        call = partial(copy_context().run, work, *arguments, **options)
        return await asyncio.get_running_loop().run_in_executor(self._writers, call)


def service_of(request: Request) -> Service:
    return cast(Service, request.app.state.service)
