"""`ImageDatabase`: a collection on disk that learns its codes, answers searches, and follows as it changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from sihash import codes as codes_module
from sihash._typing import Array
from sihash.database import changes, updating
from sihash.database.answers import (
    AddReport,
    Answer,
    Classification,
    CompactReport,
    Hit,
    Item,
    Problem,
    RemoveReport,
    UndoReport,
    UpdateReport,
    Version,
)
from sihash.database.catalogue import FILE
from sihash.database.errors import DatabaseError
from sihash.database.reader import Reader
from sihash.database.snapshot import Snapshot
from sihash.database.sources import Features, ImageSource, describe, open_source
from sihash.database.writer import Progress, silent
from sihash.features import extractor
from sihash.hashing import SIH


class ImageDatabase:
    """A database on disk. Any number of processes may read it; one at a time writes.

    Opening takes no lock. Every answer is of the state that the last finished operation left, of whichever
    process; a write by another process is a `DatabaseBusy` at once.

    Parameters
    ----------
    path : path
        A folder that `create` made.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not (self.path / FILE).is_file():
            raise DatabaseError(f"There is no database at {self.path}; make one with create.")
        self._reader = Reader(self.path)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        source: Any,
        labels: Any = None,
        *,
        n_bits: int = 32,
        n_anchors: int = 1000,
        features: str = "auto",
        feature_options: dict[str, Any] | None = None,
        index: str = "faiss",
        thumbnails: bool = True,
        train_per_class: int | None = None,
        progress: Progress | None = None,
        **sih_params: Any,
    ) -> Self:
        """Make a database from a source and learn its hash functions.

        Parameters
        ----------
        path : path
            Where; a folder that is not there yet, or empty.
        source : path, name, array or list
            A folder, zip or tar of class folders; a vector file (npy, npz, Parquet, Arrow); a data set by its
            name; vectors (n × d); or a list of images (paths, file contents, uint8 arrays, Pillow images).
        labels : sequence, path or label, optional
            One an item, None for an item without; a CSV or JSONL file with a row (file, label) an item.
        n_bits, n_anchors, **sih_params
            Of `SIH`.
        features : "auto", "gist", "pixels" or "onnx:<file>"
            How images become vectors; "auto" is gist.
        index : str
            As `sihash.index.open_index` knows it.
        thumbnails : bool
            Whether small pictures are kept, to show answers with.
        train_per_class : int, optional
            Learn from so many items of each class at most; the default is all.
        progress : callable
            Called with what is being done and how much of it is done, 0…1.
        """
        root = Path(path).expanduser()
        opened = open_source(source, labels)
        chosen = Features("none")
        if isinstance(opened, ImageSource):
            name = "gist" if features == "auto" else features
            made = extractor(name, **(feature_options or {}))
            chosen = Features(name, feature_options or {}, _plain(made.settings))
            opened.features, opened.thumbnails = chosen, thumbnails
        elif features not in ("auto", "none"):
            raise DatabaseError(f"The source holds vectors; features={features!r} are made from images.")
        sih_params.setdefault("random_state", 0)
        hasher = SIH(n_bits=n_bits, n_anchors=n_anchors, **sih_params)
        meta = {"features": vars(chosen), "index": index, "thumbnails": thumbnails}
        report = changes.create(root, opened, hasher, meta, train_per_class, progress or silent)
        database = cls(root)
        database.created_ = report
        return database

    created_: AddReport

    def close(self) -> None:
        """Let go of files; the database is not to be used afterwards."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path,)

    def __repr__(self) -> str:
        return f"ImageDatabase({str(self.path)!r})"

    def __len__(self) -> int:
        with self._reader.current() as snapshot:
            return len(snapshot.index)

    # Searching.

    def search(
        self,
        queries: Any,
        *,
        k: int = 10,
        radius: int | None = None,
        rank: str | None = None,
        classes: Iterable[Any] | None = None,
    ) -> list[Answer]:
        """The nearest items of each query: the ``k`` best, or all within Hamming distance ``radius``.

        ``queries`` are vectors (n × d), or images: paths, file contents, uint8 arrays, Pillow images.
        ``classes`` restricts the answers to items of these labels.
        """
        X = self._query_vectors(queries)
        with self._reader.current() as snapshot:
            margins = _margins(snapshot, X)
            return self._answers(snapshot, margins, k, radius, rank, classes)

    def search_ids(
        self,
        ids: Iterable[int],
        *,
        k: int = 10,
        radius: int | None = None,
        rank: str | None = None,
        classes: Iterable[Any] | None = None,
    ) -> list[Answer]:
        """As `search`, with items of the database as the queries; each is left out of its own answer."""
        with self._reader.current() as snapshot:
            wanted = _present(snapshot, ids)
            margins = _margins(snapshot, snapshot.vectors(wanted))
            return self._answers(snapshot, margins, k, radius, rank, classes, wanted)

    def classify(self, queries: Any) -> list[Classification]:
        """The class that the second stage sees in each query, with the probabilities of all classes."""
        X = self._query_vectors(queries)
        with self._reader.current() as snapshot:
            labels = snapshot.hasher.classes_.tolist()
            out = []
            for row in snapshot.hasher.predict_proba(X):
                best = int(np.argmax(row))
                every = dict(zip(labels, row.tolist(), strict=True))
                out.append(Classification(snapshot.version, labels[best], float(row[best]), every))
            return out

    def _answers(
        self,
        snapshot: Snapshot,
        margins: Array,
        k: int,
        radius: int | None,
        rank: str | None,
        classes: Iterable[Any] | None,
        own: Array | None = None,
    ) -> list[Answer]:
        packed = codes_module.pack(codes_module.sign(margins))
        allowed = None if classes is None else snapshot.ids_of(classes)
        if radius is None:
            distances, ids = snapshot.index.search(packed, k if own is None else k + 1, allowed)
            found = [(d[i >= 0], i[i >= 0]) for d, i in zip(distances, ids, strict=True)]
        else:
            found = snapshot.index.radius(packed, radius, allowed)
        if own is not None:
            found = [(d[i != me], i[i != me]) for (d, i), me in zip(found, own, strict=True)]
        if radius is None:
            found = [(d[:k], i[:k]) for d, i in found]
        return [
            Answer(snapshot.version, "hamming", code.tobytes(), self._hits(snapshot, i, d), self.thumbnail)
            for code, (d, i) in zip(packed, found, strict=True)
        ]

    def _hits(self, snapshot: Snapshot, ids: Array, distances: Array) -> list[Hit]:
        rows = {row[0]: row for row in self._reader.catalogue.rows_in("items", "id", ids.tolist())}
        codes = snapshot.codes(ids)
        hits = []
        for number, distance, code in zip(ids.tolist(), distances.tolist(), codes, strict=True):
            _, _, label, name, _ = rows[number]
            hits.append(
                Hit(number, snapshot.classes.get(label), distance, -float(distance), name, code.tobytes())
            )
        return hits

    def _query_vectors(self, queries: Any) -> Array:
        with self._reader.current() as snapshot:
            features, width = Features(**snapshot.meta["features"]), snapshot.width
        if isinstance(queries, np.ndarray) and queries.dtype.kind == "f" and queries.ndim in (1, 2):
            X = np.atleast_2d(queries).astype(np.float32, copy=False)
        elif features.name == "none":
            X = np.atleast_2d(np.asarray(queries, dtype=np.float32))
        else:
            X = self._image_vectors(queries, features)
        if X.shape[1] != width:
            raise DatabaseError(f"Expected vectors of {width} numbers, as in the database, got {X.shape[1]}.")
        if not np.isfinite(X).all():
            raise DatabaseError("A query holds NaN or infinite numbers; leave it out.")
        return X

    def _image_vectors(self, queries: Any, features: Features) -> Array:
        source = open_source(queries if isinstance(queries, list | tuple) else [queries])
        assert isinstance(source, ImageSource)
        found, problems = describe(list(source.images), features.extractor(), False)
        if problems:
            number, reason = min(problems.items())
            raise DatabaseError(f"{source.names[number]} cannot be searched for: {reason}.")
        return np.concatenate([vectors for vectors, _ in found])

    # Changing.

    def add(self, source: Any, labels: Any = None, *, progress: Progress | None = None) -> AddReport:
        """Add items; they can be found when this returns, and the next update learns from their labels.

        Content that is there already is skipped, what cannot be read is rejected; both are in the report.
        """
        return changes.add(self._reader, open_source(source, labels), progress or silent)

    def remove(self, ids: Iterable[int]) -> RemoveReport:
        """Remove items; no search in any process finds them once this returns."""
        return changes.remove(self._reader, ids)

    def remove_classes(self, labels: Iterable[Any]) -> RemoveReport:
        """Remove all items of some classes."""
        return changes.remove(self._reader, None, labels)

    def update(
        self, strategy: str = "incremental", *, compare: bool = False, progress: Progress | None = None
    ) -> UpdateReport:
        """Learn the hash functions of the collection as it is now; searches go on, then switch at once."""
        return updating.update(self.path, strategy, compare, progress or silent)

    def undo(self) -> UndoReport:
        """Take back the last add, remove or update that was not taken back yet."""
        return changes.undo(self._reader)

    def compact(self) -> CompactReport:
        """Free what removed items and earlier versions take; there is no undoing past it."""
        return changes.compact(self._reader)

    # Looking.

    @property
    def version(self) -> int:
        """The model version that searches use."""
        with self._reader.current() as snapshot:
            return snapshot.version

    def versions(self) -> list[Version]:
        """All model versions, the undone ones too."""
        with self._reader.current() as snapshot:
            return [
                Version(
                    o.version,
                    o.details["strategy"],
                    o.at,
                    o.details["n_training"],
                    o.version == snapshot.version,
                    o.details,
                )
                for o in snapshot.log.of_kind("create", "update")
            ]

    def items(self, offset: int = 0, limit: int = 100, classes: Iterable[Any] | None = None) -> list[Item]:
        """Items in the order of their ids."""
        with self._reader.current() as snapshot:
            ids = snapshot.places.live_ids() if classes is None else snapshot.ids_of(classes)
            return self._items(snapshot, ids[offset : offset + limit])

    def item(self, id: int) -> Item:
        with self._reader.current() as snapshot:
            return self._items(snapshot, _present(snapshot, [id]))[0]

    def _items(self, snapshot: Snapshot, ids: Array) -> list[Item]:
        out = []
        for row, code in zip(
            self._reader.catalogue.rows_in("items", "id", ids.tolist()), snapshot.codes(ids), strict=True
        ):
            number, operation, label, name, content = row
            about = snapshot.log.operations[operation]
            place = about.details.get("place")
            path = os.path.join(place, name) if place else None
            out.append(
                Item(
                    number,
                    snapshot.classes.get(label),
                    name,
                    path,
                    about.version,
                    content.hex(),
                    code.tobytes(),
                )
            )
        return out

    def thumbnail(self, id: int) -> bytes | None:
        """A small JPEG of an item, if one is kept."""
        rows = self._reader.catalogue.rows("thumbnails", "id = ?", (int(id),))
        return rows[0][1] if rows else None

    def info(self) -> dict[str, Any]:
        """What the database is and holds, in plain types."""
        with self._reader.current() as snapshot:
            classes = snapshot.item_classes()
            numbers = classes.of(snapshot.places.live_ids())
            sizes = {n: int(c) for n, c in zip(*np.unique(numbers, return_counts=True), strict=True)}
            undoable = snapshot.log.undoable()
            return {
                "path": str(self.path),
                "format": snapshot.meta["format"],
                "version": snapshot.version,
                "operation": snapshot.operation,
                "n_items": len(snapshot.index),
                "n_unlabelled": sizes.pop(-1, 0),
                "classes": {snapshot.classes[int(n)]: size for n, size in sizes.items()},
                "n_bits": snapshot.n_bits,
                "n_features": snapshot.width,
                "features": snapshot.meta["features"]["name"],
                "thumbnails": snapshot.meta["thumbnails"],
                "index": snapshot.index.describe(),
                "n_segments": len(snapshot.places.segments),
                "undoable": undoable.kind if undoable else None,
                "bytes": sum(p.stat().st_size for p in self.path.rglob("*") if p.is_file()),
            }


def _margins(snapshot: Snapshot, X: Array) -> Array:
    """Signed scores of the bits, n × n_bits."""
    return snapshot.hasher.decision_function(X)


def _present(snapshot: Snapshot, ids: Iterable[int]) -> Array:
    wanted = np.array(list(ids), dtype=np.int64)
    missing = wanted[~snapshot.places.alive(wanted)]
    if len(missing):
        raise DatabaseError(f"No item has the id {missing[0]}.")
    return wanted


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON gives them back."""
    import json

    return json.loads(json.dumps(settings))
