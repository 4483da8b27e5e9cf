"""Looking at a database as a whole: what it holds, how its bits are used, whether its files are sound.

`verify_deleted` tells whether removed items are gone: nothing of theirs is left that could be given back.
What can be seen without knowing them: rows, names and pictures that belong to no item of the collection,
copies and models of earlier versions, files that nobody names, pages of the catalogue that were not given
back, and anchors that are means of too few other vectors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from sihash import modelfile
from sihash._typing import Array
from sihash.database import learning
from sihash.database.answers import Bits, FileProblem
from sihash.database.snapshot import Snapshot
from sihash.database.updating import n_waiting, training_ids
from sihash.evaluation import bit_statistics
from sihash.hashing.anchor_columns import LOST_SHARE
from sihash.ranking import DEFAULT
from sihash.store import files
from sihash.store.catalogue import FILE, Catalogue
from sihash.store.errors import CorruptFile, DatabaseError
from sihash.store.writer import SCRATCH, strays

COMPACT = "run `sihash compact`"
UPDATE = "run `sihash update`, then `sihash compact`"
ITEM_BYTES = 12  # of an item's number and class; a search also reads its code and its sketch
MARGIN_ITEMS = 200  # of each class, to average margins over


def describe(
    root: Path, catalogue: Catalogue, snapshot: Snapshot, where: str | None = None
) -> dict[str, Any]:
    """The facts in plain types; items and classes are counted among those that meet ``where``."""
    numbers = _numbers(snapshot, where)
    undoable = snapshot.log.undoable()
    return {
        "path": str(root),
        "format": snapshot.meta["format"],
        "version": snapshot.version,
        "operation": snapshot.operation,
        "n_items": len(numbers),
        "n_unlabelled": int(np.count_nonzero(numbers < 0)),
        "n_several": int(np.count_nonzero(snapshot.classes.apart(numbers)[1] > 1)),
        "classes": class_sizes(snapshot, numbers),
        "only_label": sizes_alone(snapshot, numbers),
        "columns": snapshot.log.columns,
        "n_waiting": n_waiting(root, catalogue, snapshot),
        "n_bits": snapshot.n_bits,
        "n_features": snapshot.width,
        "features": snapshot.meta["features"]["name"],
        "thumbnails": snapshot.meta["thumbnails"],
        "index": _about_index(snapshot),
        "sketch": snapshot.sketcher.bits,
        "bytes_per_item": ITEM_BYTES + snapshot.n_bytes + snapshot.sketcher.n_bytes,
        "rank": DEFAULT,
        "n_segments": len(snapshot.places.segments),
        "undoable": undoable.kind if undoable else None,
        "bytes": _n_bytes(root),
    }


def _about_index(snapshot: Snapshot) -> dict[str, Any]:
    """The index; of one on a server that is away, why."""
    kind, _, on_server = snapshot.meta["index"].partition("+")
    try:
        return snapshot.ranker.index.describe()
    except DatabaseError as error:
        if not on_server or isinstance(error, CorruptFile):
            raise
        return {"kind": kind, "n_bits": snapshot.n_bits, "size": None, "problem": str(error)}


def _n_bytes(root: Path) -> int:
    """What the files take up; those that a writer deletes meanwhile do not count."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(folder, name)).st_size
    return total


def _numbers(snapshot: Snapshot, where: str | None) -> Array:
    """Class numbers of living items, of those that meet ``where``."""
    if where is None:
        return snapshot.places.live_classes()
    return snapshot.places.classes(snapshot.matching(where))


def class_sizes(snapshot: Snapshot, numbers: Array) -> dict[Any, int]:
    """How many of some items, given by their class numbers, have each label, of those that any has."""
    sizes = snapshot.classes.sizes(numbers).tolist()
    return {label: n for label, n in zip(snapshot.classes.labels, sizes, strict=True) if n}


def sizes_alone(snapshot: Snapshot, numbers: Array) -> dict[Any, int]:
    """As `class_sizes`, of the items that have a label and no other."""
    sets = snapshot.classes.sets
    sizes = np.bincount(numbers[numbers >= 0], minlength=len(sets)).tolist()
    return {own[0]: n for own, n in zip(sets, sizes, strict=True) if len(own) == 1 and n}


def sample(snapshot: Snapshot, n: int, own: Array | None, seed: int) -> Array:
    """``n`` ids or fewer, in mixed order, of all items or of ``own``: one of each class, then a second, …"""
    rng = np.random.default_rng(seed)
    ids, numbers = snapshot.places.live_ids(), snapshot.places.live_classes()
    if own is not None:
        there = np.isin(ids, own)
        ids, numbers = ids[there], numbers[there]
    labelled = numbers >= 0
    numbers[labelled] = snapshot.classes.homes(numbers[labelled])
    mixed = rng.permutation(len(ids))
    order = mixed[np.argsort(numbers[mixed], kind="stable")]  # class by class, mixed inside each
    sorted_numbers = numbers[order]
    turn = np.arange(len(ids)) - np.searchsorted(sorted_numbers, sorted_numbers)
    if n < len(ids):
        few = np.flatnonzero(turn <= np.partition(turn, n - 1)[n - 1])
        few = rng.permutation(few)  # whose class is left out of the last turn is left to chance
        order = order[few[np.argsort(turn[few], kind="stable")[:n]]]
    return rng.permutation(ids[order])


def bits(snapshot: Snapshot) -> Bits:
    """Balance over all items; margins over some of each class."""
    ids = snapshot.places.live_ids()
    flat, counts = snapshot.classes.apart(snapshot.places.live_classes())
    items = np.repeat(ids, counts)
    present = np.unique(flat)
    means = [
        snapshot.hasher.decision_function(snapshot.vectors(items[flat == place][:MARGIN_ITEMS])).mean(axis=0)
        for place in present
    ]
    return Bits(
        snapshot.version,
        bit_statistics(snapshot.codes(ids), snapshot.n_bits).balance,
        [snapshot.classes.labels[place] for place in present],
        np.array(means, dtype=np.float64).reshape(len(present), snapshot.n_bits),
    )


def verify(root: str | os.PathLike[str]) -> list[FileProblem]:
    """Check every byte that matters; an empty list means that all is as it was written."""
    root = Path(root)
    try:
        catalogue = Catalogue(root)
    except DatabaseError as error:
        return [FileProblem(FILE, str(error))]
    with closing(catalogue):
        try:
            with catalogue.snapshot():
                catalogue.check()
                named = list(catalogue.files())
        except DatabaseError as error:
            return [FileProblem(FILE, str(error))]
        problems = []
        for _, _, _, file in named:
            try:
                files.check(root, file)
            except (DatabaseError, OSError) as error:
                problems.append(FileProblem(file.path, str(error)))
        return problems or _missing_files(root, catalogue)


def _missing_files(root: Path, catalogue: Catalogue) -> list[FileProblem]:
    """What the version in force needs and the catalogue does not name."""
    try:
        snapshot = Snapshot(root, catalogue)  # needs the hash functions, and codes of all that lives
        for kind in ("training-state", "training"):
            catalogue.file_of_version(kind, snapshot.version)
    except DatabaseError as error:
        return [FileProblem(FILE, str(error))]
    return []


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
        if kind == learning.SAMPLE:
            ids = np.asarray(files.MappedArray(root, file))["id"]
            if np.isin(ids, snapshot.places.live_ids(), invert=True).any():
                yield FileProblem(file.path, f"is a copy of vectors, some of removed items; {COMPACT}.")
        elif version is not None and version != (used.get(segment) if kind == "codes" else snapshot.version):
            yield FileProblem(file.path, f"belongs to version {version}, not to the one in force; {COMPACT}.")
    for path in (*strays(root, catalogue), *root.glob(SCRATCH)):
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
