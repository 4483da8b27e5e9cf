"""Whether removed items are gone: nothing of theirs is left in the folder that could be given back.

What can be seen without knowing them: rows, names and pictures that belong to no item of the collection,
copies and models of earlier versions, files that nobody names, pages of the catalogue that were not given
back, and anchors that are means of too few other vectors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from sihash import modelfile
from sihash._typing import Array
from sihash.database import training_vectors
from sihash.database.answers import FileProblem
from sihash.database.inspecting import verify
from sihash.database.snapshot import Snapshot
from sihash.database.updating import training_ids
from sihash.hashing.anchor_columns import LOST_SHARE
from sihash.store.catalogue import FILE, Catalogue
from sihash.store.writer import strays

COMPACT = "run `sihash compact`"
UPDATE = "run `sihash update`, then `sihash compact`"


def verify_deleted(root: str | os.PathLike[str]) -> list[FileProblem]:
    """What is left of removed items, and what to do about it; an empty list means that nothing is.

    Damage is told first, as `verify` does. A vector that was removed may be left as at most a quarter of an
    anchor, and then the anchor is the mean of four vectors or more.
    """
    root = Path(root)
    problems = verify(root)
    if problems:
        return problems
    with closing(Catalogue(root)) as catalogue:
        snapshot = Snapshot(root, catalogue)
        return [
            *_learned(root, catalogue, snapshot),
            *_rows(catalogue, snapshot),
            *_copies(root, catalogue, snapshot),
            *_anchors(root, catalogue, snapshot),
        ]


def _learned(root: Path, catalogue: Catalogue, snapshot: Snapshot) -> Iterator[FileProblem]:
    learned = training_ids(root, catalogue, snapshot.version)
    n = int(np.isin(learned, snapshot.places.live_ids(), invert=True).sum())
    if n:
        path = catalogue.file_of_version("training", snapshot.version).path
        yield FileProblem(path, f"the model was learned from {n:,} items that are removed; {UPDATE}.")


def _rows(catalogue: Catalogue, snapshot: Snapshot) -> Iterator[FileProblem]:
    """Of the collection: vectors, codes and columns in segments, names and pictures in the catalogue."""
    for segment in snapshot.places.segments:
        n = int((~segment.alive).sum())
        if n:
            file = f"segments/{segment.number:06d}…"
            yield FileProblem(file, f"holds vectors of {n:,} removed items; {COMPACT}.")
    live = snapshot.places.live_ids()
    for table in ("items", "thumbnails"):
        there = np.array([row[0] for row in catalogue.execute(f"SELECT id FROM {table}")], dtype=np.int64)
        n = int(np.isin(there, live, invert=True).sum())
        if n:
            yield FileProblem(FILE, f"holds {table} of {n:,} removed items; {COMPACT}.")
    [(n_free,)] = catalogue.execute("PRAGMA freelist_count")
    if n_free:
        yield FileProblem(FILE, f"has {n_free:,} free pages with what was deleted; {COMPACT}.")


def _copies(root: Path, catalogue: Catalogue, snapshot: Snapshot) -> Iterator[FileProblem]:
    """Models and codes of earlier versions, the copy of training vectors, files that nobody names."""
    used = {segment.number: segment.code_version for segment in snapshot.places.segments}
    for kind, segment, version, file in catalogue.files():
        if kind == training_vectors.KIND:
            ids = np.load(root / file.path, mmap_mode="r", allow_pickle=False)["id"]
            if np.isin(ids, snapshot.places.live_ids(), invert=True).any():
                yield FileProblem(file.path, f"is a copy of vectors, some of removed items; {COMPACT}.")
        elif version is not None and version != (used.get(segment) if kind == "codes" else snapshot.version):
            yield FileProblem(file.path, f"belongs to version {version}, not to the one in force; {COMPACT}.")
    for path in strays(root, catalogue):
        name = path.relative_to(root).as_posix()
        yield FileProblem(name, f"was left by a process that was killed, or is being written; {COMPACT}.")


def _anchors(root: Path, catalogue: Catalogue, snapshot: Snapshot) -> Iterator[FileProblem]:
    file = catalogue.file_of_version("training-state", snapshot.version)
    _, tensors = modelfile.read(root / file.path)
    if "made_of" not in tensors:
        return  # anchors that the user gave: no vectors of items
    n = int(_too_few(tensors["made_of"], tensors["keys"]).sum())
    if n:
        yield FileProblem(file.path, f"has {n:,} anchors that removed vectors make up too much of; {UPDATE}.")


def _too_few(made_of: Array, keys: Array) -> Array:
    """Which anchors have lost more of the rows that they are the means of than an update lets pass."""
    rows, anchors = made_of
    gone = np.bincount(anchors[~np.isin(rows, keys)], minlength=int(anchors.max(initial=-1)) + 1)
    return gone > LOST_SHARE * np.bincount(anchors, minlength=len(gone))
