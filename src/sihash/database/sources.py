"""Where items come from: folders and archives of images, vector files, arrays; read block by block."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from sihash._typing import Array
from sihash.database.answers import Id, JoinedLabels, LabelConflict, LabelSet, Value
from sihash.database.label_files import columns_by_name, is_label_file, labels_by_name
from sihash.datasets import NAMED, Reject
from sihash.datasets.dataset import NO_COLUMNS, Collection, ColumnChoice
from sihash.datasets.loading import read
from sihash.datasets.tables import is_table
from sihash.features import extractor
from sihash.features.extract import Extractor, chunks, decode_all, process
from sihash.kernel import row_blocks
from sihash.store.columns import Table, make_table
from sihash.store.errors import DatabaseError, IdTaken
from sihash.store.ids import plain_ids
from sihash.store.labels import joined_labels, label_set, label_sets, plain_label, printable
from sihash.store.segments import rows_of

THUMBNAIL_PIXELS = 96  # pixels of the longer side


@dataclass(frozen=True)
class Present:
    """An item that the collection has: its number, and what a source would say of it."""

    number: int
    id: Id
    content: bytes
    labels: LabelSet
    columns: dict[str, Value]


class Known(Protocol):
    """What the collection had before."""

    def contents(self, contents: list[bytes], but: Set[Id] = frozenset()) -> dict[bytes, LabelSet]:
        """Which of these it has, with their labels; items with the ids ``but`` left out."""

    def under(self, ids: list[Id]) -> dict[Id, Present]:
        """The items that it has under these ids; an id too much like one of its own is refused."""


class Nothing:
    """See `Known`. A collection that has nothing yet."""

    def contents(self, contents: list[bytes], but: Set[Id] = frozenset()) -> dict[bytes, LabelSet]:
        return {}

    def under(self, ids: list[Id]) -> dict[Id, Present]:
        return {}


@dataclass(frozen=True)
class Features:
    """How images become vectors; ``name`` is "none" where the items are vectors."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

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
                    "the old ones; bring the old file back, or create a database with the new one."
                )
            raise DatabaseError(
                f"The features {self.name!r} are not those that this database was made with: expected "
                f"{self.settings}, got {made.settings}."
            )
        return made


def _changed_file(network: str, before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """The first file that features come from and that has changed, or is gone, or is new."""
    if before.get("model") != now.get("model"):
        return network
    old, new = before.get("files", {}), now.get("files", {})
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return str(Path(network).with_name(names[0])) if names else None


@dataclass
class ItemBlock:
    """Items in the order of their rows, all lists of one length; ids and thumbnails may be None."""

    vectors: Array
    labels: list[LabelSet]
    names: list[str]
    contents: list[bytes]
    thumbnails: list[bytes | None]
    ids: list[Id | None]
    columns: Table


class Source:
    """A collection that is read once, from its beginning to its end.

    ``ids`` are the user's, or None where items have only their numbers. Items that come under ids that the
    user said (``ids_said``) are all kept; of others, such as files of a folder, each content once.
    ``skipped`` names the items that were there already, or whose content came before in the source. If they
    have another label here, that is a conflict with the item that was there, which keeps its labels
    (``conflicts``); but an item of this source gets it, too (``joined``; ``joined_labels`` are its labels
    then, by content). ``rejects`` are those that cannot be used; ``replaced`` are items of the collection
    whose ids come again, which is refused unless ``replace``. These, and ``taken_ids``, are complete when
    `blocks` has come to its end.
    """

    step = "reading"  # what `blocks` does

    def __init__(self, place: str | None, names: Sequence[str], labels: Sequence[LabelSet]) -> None:
        self.place = place
        self.names, self.labels = names, labels
        self.ids: Sequence[Id] | None = None
        self.ids_said = False
        self.columns = Table(len(names), {})
        self.replace = False
        self.skipped: list[str] = []
        self.rejects: list[Reject] = []
        self.conflicts: list[LabelConflict] = []
        self.joined: list[JoinedLabels] = []
        self.joined_labels: dict[bytes, LabelSet] = {}
        self.replaced: list[Present] = []
        self.taken_ids: list[Id] = []
        self._taken: dict[bytes, LabelSet] = {}  # by content
        self._kept: dict[bytes, LabelSet] = {}  # by content, of what the collection had before
        self._present: dict[Id, Present] = {}  # of the chunk at hand

    def __len__(self) -> int:
        return len(self.names)

    def whole(self) -> Array | None:
        """After the last block: the matrix of all vectors, if it lies in memory and every row was taken."""
        return None

    def blocks(self, known: Known) -> Iterator[ItemBlock]:
        raise NotImplementedError

    def _fresh(self, numbers: Sequence[int], contents: list[bytes], known: Known) -> Sequence[int]:
        """Positions of what is new, the first of equal contents; what comes under an id of the collection is
        new unless all of it is there already.
        """
        if self.ids is not None:
            return self._fresh_by_id(numbers, contents, known)
        self._kept.update(known.contents(contents))
        seen = self._seen(contents)
        if not seen and len(set(contents)) == len(contents):
            return range(len(contents))
        first = {content: k for k, content in reversed(list(enumerate(contents))) if content not in seen}
        return sorted(first.values())

    def _fresh_by_id(self, numbers: Sequence[int], contents: list[bytes], known: Known) -> Sequence[int]:
        assert self.ids is not None
        own = [self.ids[number] for number in numbers]
        self._present = known.under(own)
        seen: set[bytes] = set()
        if not self.ids_said:
            # What an item has that this source may replace is not there until the item is known to stay.
            self._kept.update(known.contents(contents, self._replaceable))
            seen = self._seen(contents)
        fresh = []
        for k, (number, id, content) in enumerate(zip(numbers, own, contents, strict=True)):
            present = self._present.get(id)
            if present is None:
                new = self.ids_said or content not in seen
            else:
                new = not self._is_there(number, content, present)
                if not new:
                    self._kept[content] = present.labels
            if new:
                fresh.append(k)
            seen.add(content)
        return fresh

    def _seen(self, contents: list[bytes]) -> set[bytes]:
        return {content for content in contents if content in self._taken or content in self._kept}

    def _is_there(self, number: int, content: bytes, present: Present) -> bool:
        """Whether an item is what comes under its id. One whose labels come from several files of one content
        is each of these.
        """
        labels = self.labels[number]
        if not self.ids_said and not self.replace and set(labels) < set(present.labels):
            labels = present.labels
        return (content, labels, self.columns.row(number)) == (
            present.content,
            present.labels,
            present.columns,
        )

    @cached_property
    def _replaceable(self) -> Set[Id]:
        """Ids under which items of the collection may be replaced by this source."""
        return frozenset(self.ids or ()) if self.replace else frozenset()

    def _sort_out(
        self, numbers: Sequence[int], contents: list[bytes], fresh: Sequence[int], reasons: dict[bytes, str]
    ) -> Sequence[int]:
        """The positions among ``fresh`` that are taken. Contents with a reason are rejected, every one of
        them; the others are skipped.
        """
        taken = [k for k in fresh if contents[k] not in reasons] if reasons else fresh
        self._taken.update((contents[k], self.labels[numbers[k]]) for k in taken)
        if len(taken) < len(contents):
            for k in sorted(set(range(len(contents))).difference(taken)):
                name = self.names[numbers[k]]
                if contents[k] in reasons:
                    self.rejects.append(Reject(name, reasons[contents[k]]))
                else:
                    self.skipped.append(name)
                    self._same_content(name, self.labels[numbers[k]], contents[k])
        if self._present:
            self._replace([numbers[k] for k in taken])
        return taken

    def _same_content(self, name: str, labels: LabelSet, content: bytes) -> None:
        """Tell of what is skipped if it has labels that the item with its content has not."""
        if content in self._kept:
            if not set(labels) <= set(self._kept[content]):
                self.conflicts.append(LabelConflict(name, labels, self._kept[content]))
        elif not set(labels) <= set(self._taken[content]):
            both = joined_labels(self._taken[content], labels)
            self._taken[content] = self.joined_labels[content] = both
            self.joined.append(JoinedLabels(name, both))

    def _replace(self, numbers: list[int]) -> None:
        """Note which items of the collection these replace; refused unless the caller wants it."""
        assert self.ids is not None
        found = [self._present[self.ids[n]] for n in numbers if self.ids[n] in self._present]
        if found and not self.replace:
            raise IdTaken(
                f"The id {found[0].id!r} is there already, with other content, label or columns; nothing was "
                "added. Replace it (--replace, replace=True), or give the new item another id; a prefix "
                "(--prefix, prefix=) makes other ids of paths."
            )
        self.replaced += found

    def _block(
        self,
        numbers: Sequence[int],
        vectors: Array,
        contents: list[bytes],
        thumbnails: list[bytes | None] | None = None,
    ) -> ItemBlock:
        """What is known of some items, beside their vectors and contents."""
        if self.ids is not None:
            self.taken_ids += [self.ids[k] for k in numbers]
        return ItemBlock(
            vectors,
            [self.labels[k] for k in numbers],
            [self.names[k] for k in numbers],
            contents,
            [None] * len(numbers) if thumbnails is None else thumbnails,
            [None if self.ids is None else self.ids[k] for k in numbers],
            self.columns.take(np.asarray(numbers, dtype=np.intp)),
        )


class VectorSource(Source):
    """Rows of a matrix that has a shape and gives slices: in memory, memory-mapped, or in a table."""

    def __init__(self, X: Any, place: str | None, names: Sequence[str], labels: Sequence[LabelSet]) -> None:
        super().__init__(place, names, labels)
        self.X = X
        self.width = X.shape[1]
        if not self.width:
            raise DatabaseError("Expected vectors of at least one number, got a matrix without columns.")

    def whole(self) -> Array | None:
        return self.X if type(self.X) is np.ndarray and not self.skipped and not self.rejects else None

    def blocks(self, known: Known) -> Iterator[ItemBlock]:
        for rows in row_blocks(len(self.X), rows_of(self.width)):
            with np.errstate(over="ignore"):  # beyond float32 is infinite, and rejected
                X = np.ascontiguousarray(self.X[rows], dtype=np.float32)
            good = np.isfinite(X).all(axis=1)
            for k in np.flatnonzero(~good):
                self.rejects.append(
                    Reject(self.names[rows.start + k], "a vector with NaN or infinite numbers")
                )
            numbers = (rows.start + np.flatnonzero(good)).tolist()
            X = X if good.all() else X[good]
            contents = [hashlib.sha256(row).digest() for row in X]
            fresh = self._sort_out(numbers, contents, self._fresh(numbers, contents, known), {})
            if fresh:
                own = X if len(fresh) == len(X) else X[fresh]
                yield self._block([numbers[k] for k in fresh], own, [contents[k] for k in fresh])


class ImageSource(Source):
    """Files, or pictures in memory, that the extractor turns into vectors."""

    def __init__(
        self, images: Iterable[Any], place: str | None, names: Sequence[str], labels: Sequence[LabelSet]
    ) -> None:
        super().__init__(place, names, labels)
        self.images = images
        self.features = Features("none")
        self.thumbnails = False

    @property
    def step(self) -> str:  # type: ignore[override]
        return f"reading: images, {self.features.name.partition(':')[0]} features"

    def blocks(self, known: Known) -> Iterator[ItemBlock]:
        chosen = self.features.extractor()
        start = 0
        for chunk in chunks(self.images):
            numbers = range(start, start + len(chunk))
            start += len(chunk)
            contents = [content_of(image) for image in chunk]
            fresh = self._fresh(numbers, contents, known)
            found, problems = describe([chunk[k] for k in fresh], chosen, self.thumbnails)
            reasons = {contents[fresh[place]]: reason for place, reason in problems.items()}
            used = self._sort_out(numbers, contents, fresh, reasons)
            if used:
                yield self._block(
                    [numbers[k] for k in used],
                    np.concatenate([vectors for vectors, _ in found]),
                    [contents[k] for k in used],
                    [small for _, some in found for small in some],
                )


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


# From what the caller gave to a source.


def open_source(
    source: Any,
    labels: Any = None,
    names: Sequence[str] | None = None,
    ids: Any = None,
    columns: Any = None,
    replace: bool = False,
    prefix: str = "",
) -> Source:
    """A folder, archive or vector file by its path, a data set by its name, or arrays and lists in memory.

    ``labels`` are one an item (None for an item without), a list of labels for each item, an indicator matrix
    (n × number of labels), or a CSV or JSONL file that says them by name.
    ``names`` replace those that follow from the source. ``ids`` are one an item, or the name of the column
    that holds them. ``columns`` are values by name, one an item, or the names of those to keep. ``prefix`` is
    put before the paths that are ids of files.
    """
    chosen = None if columns is None or hasattr(columns, "items") else _names_of(columns)
    opened = _open(source, labels, ColumnChoice(ids if isinstance(ids, str) else None, chosen))
    if names is not None:
        if len(names) != len(opened):
            raise DatabaseError(
                f"Expected one name per item, got {len(names)} names for {len(opened)} items."
            )
        opened.names = [printable(str(name)) for name in names]
    if ids is not None and not isinstance(ids, str):
        opened.ids, opened.ids_said = plain_ids(ids, len(opened)), True
    if prefix:
        if opened.ids is None or opened.ids_said:
            raise DatabaseError(
                f"A prefix ({prefix!r}) is for paths that are ids, in folders and archives; the source has "
                f"{'ids of its own' if opened.ids_said else 'none'}."
            )
        opened.ids = plain_ids([f"{prefix}{path}" for path in opened.ids], len(opened))
    if columns is not None and chosen is None:
        opened.columns = make_table(len(opened), columns)
    opened.replace = replace
    return opened


def _names_of(columns: Any) -> list[str]:
    names = [columns] if isinstance(columns, str) else list(columns)
    if not all(isinstance(name, str) for name in names):
        raise DatabaseError(f"Columns are values by name, or names of those to keep; got {names[:3]!r}.")
    return names


def _open(source: Any, labels: Any, asked: ColumnChoice) -> Source:
    if isinstance(source, str | os.PathLike):
        return _from_path(source, labels, asked)
    opened: Source
    if isinstance(source, np.ndarray) and source.ndim == 2 and source.dtype != np.uint8:
        names = [f"row {k}" for k in range(len(source))]
        opened = VectorSource(_numbers(source), None, names, _labels_for(names, labels))
    else:
        images = list(source)
        if not images:
            raise DatabaseError("Nothing to add: the source is empty.")
        names = [
            printable(str(x)) if isinstance(x, str | os.PathLike) else f"image {k}"
            for k, x in enumerate(images)
        ]
        opened = ImageSource(_readable(images), None, names, _labels_for(names, labels))
    _take_columns(opened, labels, asked)
    return opened


def _take_columns(opened: Source, labels: Any, asked: ColumnChoice) -> None:
    """Ids and columns that a file of labels has, too."""
    if is_label_file(labels):
        ids, columns = columns_by_name(Path(labels).expanduser(), list(opened.names), asked)
        if ids is not None:
            opened.ids, opened.ids_said = plain_ids(ids, len(opened)), True
        opened.columns = make_table(len(opened), columns)
    elif asked.id is not None or asked.columns:
        raise DatabaseError(
            f"There is no column {asked.id or (asked.columns or [''])[0]!r}: the source is no table."
        )


def _numbers(X: Array) -> Array:
    if X.dtype.kind not in "fiub":
        raise DatabaseError(f"Vectors must be a matrix of numbers, one row per item; got {X.dtype}.")
    return X


def _readable(images: list[Any]) -> Iterator[Any]:
    """Contents of files given by their paths; pictures in memory as they are."""
    from sihash.features import BadImage

    for image in images:
        if isinstance(image, str | os.PathLike):
            try:
                yield Path(image).read_bytes()
            except OSError as error:
                yield BadImage(f"cannot be read: {error.strerror}")
        else:
            yield image


def _from_path(source: str | os.PathLike[str], labels: Any, asked: ColumnChoice) -> Source:
    path = Path(source).expanduser()
    table = is_label_file(labels)
    if source not in NAMED and path.is_file() and _looks_like_image(path):
        return _open([path], labels, asked)
    beside = labels if isinstance(labels, str | os.PathLike) and not table else None
    collection = read(source, beside, mapped=True, asked=NO_COLUMNS if table else asked)
    n = len(collection.is_test)
    ids = None
    if collection.ids is not None:
        ids = plain_ids(collection.ids if collection.ids_said else map(printable, collection.ids), n)
    called = collection.names or (map(str, ids) if ids is not None else (f"row {k}" for k in range(n)))
    names = [printable(name) for name in called]
    own = _labels_of(collection, n) if labels is None or beside else _labels_for(names, labels)
    place = str(path.absolute()) if path.is_dir() else None
    made: Source
    if collection.holds_vectors:
        made = VectorSource(collection.X, place, names, own)
    else:
        if path.is_file() and is_table(path):
            place = str(path.absolute().parent)
        made = ImageSource(collection.X, place, names, own)
    made.ids, made.ids_said = ids, collection.ids_said
    made.columns = make_table(n, collection.columns)
    made.rejects += collection.rejects
    if table:
        _take_columns(made, labels, asked)
    return made


def _looks_like_image(path: Path) -> bool:
    with open(path, "rb") as file:
        head = file.read(12)
    starts = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"P5\n", b"P6\n")
    return head.startswith(starts) or (head[:4] == b"RIFF" and head[8:] == b"WEBP")


def _labels_of(collection: Collection, n: int) -> list[LabelSet]:
    y = collection.y
    if y is None:
        return [()] * n
    if y.ndim == 2:
        return _of_indicators(y, collection.class_names)
    if collection.class_names is not None:
        sets = [label_set(name) for name in collection.class_names]
        return [() if k == -1 else sets[int(k)] for k in y]
    return label_sets(y.tolist())


def _of_indicators(Y: Any, names: Sequence[Any] | None) -> list[LabelSet]:
    """Labels by an indicator matrix, whose columns have ``names``, or are numbered."""
    from sihash.hashing.row_labels import read_labels

    found = read_labels(Y, Y.shape[0])
    columns = range(Y.shape[1]) if names is None else [plain_label(name) for name in names]
    if None in columns:
        raise DatabaseError("One of the labels that name the columns of the indicator matrix is empty.")
    ends = np.cumsum(found.counts).tolist()
    flat = found.flat.tolist()
    return [
        joined_labels(columns[k] for k in flat[end - n : end])
        for end, n in zip(ends, found.counts.tolist(), strict=True)
    ]


def _labels_for(names: list[str], labels: Any) -> list[LabelSet]:
    """Labels of the caller, or of a table that says them by name."""
    if is_label_file(labels):
        return labels_by_name(Path(labels).expanduser(), names)
    return _given_labels(labels, len(names))


def _given_labels(labels: Any, n: int) -> list[LabelSet]:
    """Labels of the caller: one for all (``repeat(label)`` if text would name a file), one or several an
    item, none.
    """
    if isinstance(labels, repeat):
        return [label_set(next(labels))] * n
    if labels is None or isinstance(labels, str | int):
        return [label_set(labels)] * n
    shape: tuple[int, ...] = getattr(labels, "shape", ())
    if len(shape) == 2 and shape[1] != 1:
        if shape[0] != n:
            raise DatabaseError(f"Expected a row of labels an item, got {shape[0]} rows for {n} items.")
        names = list(labels.columns) if hasattr(labels, "columns") else None
        return _of_indicators(labels, names)
    values = np.ravel(labels).tolist() if len(shape) == 2 else None
    if values is None:
        values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if len(values) != n:
        raise DatabaseError(f"Expected as many labels as items, got {len(values)} labels for {n} items.")
    if getattr(getattr(labels, "dtype", None), "kind", "") in ("i", "u"):
        return [() if value == -1 else (value,) for value in values]  # whole numbers, every one
    return label_sets(values)
