"""Photos become vectors and thumbnails.

A long description can be stopped: what was described is noted in the folder of the database until the
operation is finished, and the next one that wants it goes on from there.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sihash._typing import Array
from sihash.features import default_features, extractor
from sihash.features.extract import Extractor, chunks, decode_all, process
from sihash.store.errors import DatabaseError
from sihash.store.scratch import Scratch
from sihash.store.writer import SCRATCH

THUMBNAIL_PIXELS = 96  # pixels of the longer side
SHORT = 1024  # photos; fewer are described in seconds, and not noted

Described = tuple[Array, bytes | None]  # the vector of a photo, and its thumbnail


@dataclass(frozen=True)
class Features:
    """How images become vectors; ``name`` is "none" where the items are vectors."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def named(cls, name: str, options: dict[str, Any] | None = None) -> Features:
        """Features as they are made now, by their name; "auto" is the best that is installed."""
        name = default_features() if name == "auto" else name
        if name.startswith("onnx:") and len(name) > len("onnx:"):  # the current folder may change
            name = f"onnx:{Path(name.removeprefix('onnx:')).expanduser().absolute()}"
        settings = extractor(name, **(options or {})).settings
        return cls(name, options or {}, json.loads(json.dumps(settings)))

    def extractor(self) -> Extractor:
        """The extractor; an ONNX file must be the one that the database was made with."""
        if self.name == "none":
            raise DatabaseError("This database holds vectors; give vectors (n × d), not images.")
        made = extractor(self.name, **self.options)
        now = json.loads(json.dumps(made.settings))
        if self.settings and now != self.settings:
            changed = _changed_file(self.name.partition(":")[2], self.settings, now)
            if changed:
                raise DatabaseError(
                    f"{changed} is not what it was when this database was made, so new vectors would not fit "
                    "the old ones; bring the old file back, or describe all photos anew: `sihash refeature`."
                )
            raise DatabaseError(
                f"The features {self.name!r} are not those that this database was made with: expected "
                f"{self.settings}, got {made.settings}; `sihash refeature` describes all photos anew."
            )
        return made


def _changed_file(network: str, before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """The first file that features come from and that has changed, or is gone, or is new."""
    if before.get("model") != now.get("model"):
        return network or None
    old, new = before.get("files", {}), now.get("files", {})
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return str(Path(network).with_name(names[0])) if names else None


class Describer:
    """Describes photos chunk by chunk, and says how far it has come with ``n`` of them."""

    def __init__(self, features: Features, thumbnails: bool, n: int) -> None:
        self._features, self._thumbnails, self._n = features, thumbnails, n
        self._notes: Scratch | None = None
        self._start, self._n_done, self._n_described = time.monotonic(), 0, 0
        self.extractor = features.extractor()

    def noted_in(self, root: Path) -> Scratch:
        """Go on from what is noted in a folder, and note what is described there."""
        about = json.dumps([self._features.settings, self._thumbnails], sort_keys=True)
        mark = hashlib.sha256(about.encode()).digest()
        self._notes = Scratch(root / SCRATCH.replace("*", mark[:8].hex()), mark)
        return self._notes

    def __call__(
        self, images: list[Any], contents: list[bytes]
    ) -> tuple[dict[int, Described], dict[int, str]]:
        """Descriptions of the readable photos, and the reasons of the others, by their place in the list."""
        found = {k: noted for k, content in enumerate(contents) if (noted := self.noted(content)) is not None}
        missing = [k for k in range(len(images)) if k not in found]
        pieces, problems = describe([images[k] for k in missing], self.extractor, self._thumbnails)
        vectors = (row for piece, _ in pieces for row in piece)
        small = (image for _, some in pieces for image in some)
        for k in (k for place, k in enumerate(missing) if place not in problems):
            found[k] = next(vectors), next(small)
            self._note(contents[k], *found[k])
        self._n_described += len(missing)
        return found, {missing[place]: reason for place, reason in problems.items()}

    def noted(self, content: bytes) -> Described | None:
        """What was described before, by the SHA-256 of the photo."""
        value = None if self._notes is None else self._notes.get(content)
        if value is None:
            return None
        n = int.from_bytes(value[:4], "little")
        return np.frombuffer(value, dtype="<f4", count=n, offset=4), value[4 + 4 * n :] or None

    def _note(self, content: bytes, vector: Array, small: bytes | None) -> None:
        if self._notes is not None:
            numbers = np.ascontiguousarray(vector, dtype="<f4")
            self._notes.put(content, len(numbers).to_bytes(4, "little") + numbers.tobytes() + (small or b""))

    def done(self, n: int) -> None:
        """Note how many photos are dealt with, described or not."""
        self._n_done = n

    @property
    def step(self) -> str:
        """How far it is, at which rate, and how long the rest takes."""
        told = f"reading: {self._n_done:,} of {self._n:,} photos, {self._features.name.partition(':')[0]}"
        seconds = time.monotonic() - self._start
        if not self._n_described or seconds < 1:
            return told
        rate = self._n_described / seconds
        return f"{told}, {rate:,.0f} a second, {_duration((self._n - self._n_done) / rate)} left"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def read_ahead(images: Iterable[Any]) -> Iterator[tuple[list[Any], list[bytes]]]:
    """Photos and their contents (`content_of`) in chunks; the next one is read while this one is used."""
    ahead = ((chunk, [content_of(image) for image in chunk]) for chunk in chunks(images))
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, ahead, None)
        while (found := coming.result()) is not None:
            coming = pool.submit(next, ahead, None)
            yield found


def describe(
    images: Iterable[Any], chosen: Extractor, thumbnails: bool
) -> tuple[list[tuple[Array, list[bytes | None]]], dict[int, str]]:
    """Vectors and thumbnails of the readable images, in pieces, and the reasons of the others by number."""

    def work(items: list[Any]) -> tuple[list[Any], dict[int, str]]:
        small: list[bytes | None] = []

        def prepare(image: Image.Image) -> Array:
            prepared = chosen.prepare(image)
            small.append(thumbnail(image) if thumbnails else None)
            return prepared

        prepared, problems = decode_all(items, prepare, chosen.at_least)
        if len({p.shape for p in prepared}) > 1:
            raise DatabaseError("The images are not of one size; choose features that resize them.")
        return [(chosen.describe(np.stack(prepared)), small)] if prepared else [], problems

    return process(images, work, chosen.batch)


def thumbnail(image: Image.Image) -> bytes:
    """A small JPEG."""
    if max(image.size) > THUMBNAIL_PIXELS:
        image = image.copy()
        image.thumbnail((THUMBNAIL_PIXELS, THUMBNAIL_PIXELS))
    out = io.BytesIO()
    (image if image.mode == "RGB" else image.convert("RGB")).save(out, "JPEG", quality=80)
    return out.getvalue()


def content_of(image: Any) -> bytes:
    """SHA-256 of a file's bytes, or of the pixels of a picture in memory."""
    if isinstance(image, bytes):
        return hashlib.sha256(image).digest()
    if isinstance(image, Exception):  # could not be read; it is rejected in its turn
        return hashlib.sha256(os.urandom(16)).digest()
    pixels = np.ascontiguousarray(image)
    return hashlib.sha256(f"{pixels.shape}".encode() + pixels.tobytes()).digest()
