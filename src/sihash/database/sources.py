"""Where items come from: folders and archives of images, vector files, arrays; read block by block."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sihash._typing import Array
from sihash.checks import as_numbers
from sihash.database.answers import Id, LabelSet
from sihash.database.describing import SHORT, Describer, Features, read_ahead
from sihash.database.intake import Intake
from sihash.datasets import Reject, arrow
from sihash.datasets.dataset import Collection
from sihash.datasets.label_files import columns_by_name, is_label_file, labels_by_name
from sihash.datasets.loading import read
from sihash.datasets.roles import NO_COLUMNS, ColumnChoice
from sihash.datasets.tables import is_table_in_memory, read_table
from sihash.kernel import Middle, row_blocks
from sihash.labels import several
from sihash.store.columns import Table, make_table
from sihash.store.errors import DatabaseError
from sihash.store.files import release
from sihash.store.ids import plain_ids
from sihash.store.labels import joined_labels, label_set, label_sets, plain_label, printable
from sihash.store.scratch import Scratch
from sihash.store.segments import rows_of


@dataclass
class ItemBlock:
    """Items in the order of their rows, all lists of one length; ids and thumbnails may be None.

    ``offsets`` are what is added to the first new number of the collection to get the number of each.
    """

    vectors: Array
    labels: list[LabelSet]
    names: list[str]
    contents: list[bytes]
    thumbnails: list[bytes | None]
    ids: list[Id | None]
    columns: Table
    offsets: list[int]


class Source:
    """Items that are read once, from the first to the last, and what is said of each of them.

    ``ids`` are the user's (``ids_said``) or the paths of files, or None where items have only their numbers.
    ``rejects`` are those that cannot be read, as far as it is known before. ``replace`` says that items may
    take the place of those that have their ids. What becomes of each, an `Intake` decides.
    """

    step = "reading"  # what `blocks` does
    holds_vectors = False

    def __init__(self, place: str | None, names: Sequence[str], labels: Sequence[LabelSet]) -> None:
        self.place = place
        self.names, self.labels = names, labels
        self.ids: Sequence[Id] | None = None
        self.ids_said = False
        self.columns = Table(len(names), {})
        self.rejects: list[Reject] = []
        self.replace = False
        self.note = ""  # which columns of a table were taken for what

    def __len__(self) -> int:
        return len(self.names)

    def blocks(self, intake: Intake) -> Iterator[ItemBlock]:
        """What ``intake`` takes, block by block."""
        raise NotImplementedError

    def forget_notes(self) -> None:
        """Of reading it: the items are in the database."""

    def _block(
        self, intake: Intake, vectors: Array, contents: list[bytes], thumbnails: list[bytes | None]
    ) -> ItemBlock:
        """The items that were taken last, with what is said of them."""
        numbers = intake.taken[len(intake.taken) - len(contents) :]
        return ItemBlock(
            vectors,
            [self.labels[k] for k in numbers],
            [self.names[k] for k in numbers],
            contents,
            thumbnails,
            [None if self.ids is None else self.ids[k] for k in numbers],
            self.columns.take(np.asarray(numbers, dtype=np.intp)),
            intake.offsets[len(intake.offsets) - len(contents) :],
        )


class VectorSource(Source):
    """Rows of a matrix that has a shape and gives slices: in memory, memory-mapped, or in a table."""

    holds_vectors = True

    def __init__(self, X: Any, place: str | None, names: Sequence[str], labels: Sequence[LabelSet]) -> None:
        super().__init__(place, names, labels)
        self.X = X
        self.width = X.shape[1]
        self.middle: Middle | None = None  # of the collection; without one that of the first rows
        if not self.width:
            raise DatabaseError("Expected vectors of at least one number, got a matrix without columns.")

    def in_memory(self) -> Array | None:
        """The matrix, if it lies in memory as it can be learned from."""
        plain = type(self.X) is np.ndarray and self.X.dtype in (np.float32, np.float64)
        return self.X if plain else None

    def blocks(self, intake: Intake) -> Iterator[ItemBlock]:
        for rows in row_blocks(len(self.X), rows_of(self.width)):
            with np.errstate(over="ignore"):  # beyond float32 is infinite, and rejected
                X = np.array(self.X[rows], dtype=np.float32, order="C")
            release(self.X)
            good = np.isfinite(X).all(axis=1)
            self.middle = self.middle or Middle.of(X)
            wrong = dict.fromkeys(np.flatnonzero(~good).tolist(), "a vector with NaN or infinite numbers")
            finite = np.flatnonzero(good)
            wrong |= {int(finite[k]): problem for k, problem in self.middle.absurd(X[finite]).items()}
            for k, problem in sorted(wrong.items()):
                intake.reject(rows.start + k, problem)
            kept = np.setdiff1d(np.arange(len(X)), list(wrong))
            places, X = (rows.start + kept).tolist(), X[kept] if wrong else X
            contents = [hashlib.sha256(row).digest() for row in X]
            taken = intake.take(places, contents, intake.new(places, contents), {})
            if taken:
                own = X if len(taken) == len(X) else X[taken]
                yield self._block(intake, own, [contents[k] for k in taken], [None] * len(taken))


class ImageSource(Source):
    """Files, or pictures in memory, that ``features`` turn into vectors.

    What is described is noted at ``notes_in``, if that is said, until `forget_notes`.
    """

    def __init__(
        self, images: Iterable[Any], place: str | None, names: Sequence[str], labels: Sequence[LabelSet]
    ) -> None:
        super().__init__(place, names, labels)
        self.images = images
        self.features = Features("none")
        self.thumbnails = False
        self.notes_in: Path | None = None
        self._describer: Describer | None = None
        self._notes: Scratch | None = None

    @property
    def step(self) -> str:  # type: ignore[override]
        return "reading" if self._describer is None else self._describer.step

    def blocks(self, intake: Intake) -> Iterator[ItemBlock]:
        describer = self._describer = Describer(self.features, self.thumbnails, len(self))
        if self.notes_in is not None and len(self) > SHORT:
            self._notes = describer.noted_in(self.notes_in)
        start = 0
        for chunk, contents in read_ahead(self.images):
            places = range(start, start + len(chunk))
            start += len(chunk)
            new = intake.new(places, contents)
            found, problems = describer([chunk[k] for k in new], [contents[k] for k in new])
            reasons = {contents[new[place]]: reason for place, reason in problems.items()}
            taken = intake.take(places, contents, new, reasons)
            described = {new[place]: each for place, each in found.items()}
            describer.done(start)
            if taken:
                yield self._block(
                    intake,
                    np.stack([described[k][0] for k in taken]),
                    [contents[k] for k in taken],
                    [described[k][1] for k in taken],
                )

    def forget_notes(self) -> None:
        if self._notes is not None:
            self._notes.delete()


# From what the caller gave to a source.


def open_source(
    source: Any,
    labels: Any = None,
    names: Sequence[str] | None = None,
    ids: Any = None,
    columns: Any = None,
    replace: bool = False,
    prefix: str = "",
    vectors: Any = None,
) -> Source:
    """A folder, archive, table or file of vectors by its path, a data set by its name, or tables, arrays and
    lists in memory.

    ``labels`` are one an item (None for an item without), a list of labels for each item, an indicator matrix
    (n × number of labels), a CSV or JSONL file that says them by name, or the name of the column of a table.
    ``names`` replace those that follow from the source. ``ids`` are one an item, or the name of the column
    that holds them. ``columns`` are values by name, one an item, or the names of those to keep. ``prefix`` is
    put before the paths that are ids of files. ``vectors`` names the column of a table that holds vectors, or
    the columns that hold their numbers.
    """
    source, labels, ids = plain_column(source), plain_column(labels), plain_column(ids)
    if arrow.is_frame(columns):
        columns = arrow.as_table(columns).to_pydict()
    chosen = None if columns is None or hasattr(columns, "items") else _names_of(columns)
    asked = ColumnChoice(
        ids if isinstance(ids, str) else None, chosen, None if vectors is None else _names_of(vectors)
    )
    try:
        opened = _open(source, labels, asked)
    except (IsADirectoryError, PermissionError) as error:
        raise DatabaseError(f"{error.filename} cannot be read: {error.strerror}.") from None
    if names is not None:
        names = several(names)
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


def plain_column(values: Any) -> Any:
    """A Series, or an array of Arrow, as a matrix or a list; anything else as it is."""
    if not arrow.is_column(values):
        return values
    return (
        values.tolist() if hasattr(values, "iloc") else arrow.column_values(values)
    )  # pandas needs no Arrow


def _names_of(columns: Any) -> list[str]:
    names = several(columns)
    if not all(isinstance(name, str) for name in names):
        raise DatabaseError(f"Columns are values by name, or names of those to keep; got {names[:3]!r}.")
    return names


def _open(source: Any, labels: Any, asked: ColumnChoice) -> Source:
    if isinstance(source, str | os.PathLike):
        return _from_path(source, labels, asked)
    if is_table_in_memory(source := as_list(source)):
        return _from_table(source, labels, asked)
    opened: Source
    X = _matrix(source)
    if X is not None:
        names = [f"row {k}" for k in range(len(X))]
        opened = VectorSource(X, None, names, _labels_for(names, labels))
    else:
        if not _is_one_image(source) and not isinstance(source, list | tuple | np.ndarray):
            raise DatabaseError(
                f"Expected a path, a name, vectors (n × d) or a list of images, got {source!r:.80}."
            )
        images = [source] if _is_one_image(source) else list(source)
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


def _matrix(source: Any) -> Array | None:
    """Vectors in memory, given as a matrix or as a list of rows; None for anything else."""
    rows: Any = source if isinstance(source, np.ndarray) and source.ndim == 2 else None
    if isinstance(source, list | tuple) and source and not isinstance(source[0], Image.Image):
        rows = source if np.ndim(source[0]) == 1 else None
    if rows is None or getattr(rows, "dtype", None) == np.uint8:
        return None
    try:
        X = as_numbers(rows, "A matrix of vectors")
    except ValueError as error:
        raise DatabaseError(str(error)) from None
    if X.ndim != 2:
        raise DatabaseError(f"Expected vectors (n × d), one row per item, got an array of shape {X.shape}.")
    return X


def as_list(source: Any) -> Any:
    """What can only be gone through, such as a generator of rows or images, as a list."""
    known = (str, os.PathLike, list, tuple, np.ndarray, Mapping, bytes, Image.Image)
    if isinstance(source, known) or arrow.is_frame(source) or not isinstance(source, Iterable):
        return source
    return list(source)


def _is_one_image(source: Any) -> bool:
    """A file's content or a picture where a list of them is usual."""
    is_picture = isinstance(source, np.ndarray) and source.ndim == 3 and source.shape[2] in (3, 4)
    return is_picture or isinstance(source, bytes | Image.Image)


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
    if source != "digits" and path.is_file() and _looks_like_image(path):
        return _open([path], labels, asked)
    beside = labels if isinstance(labels, str | os.PathLike) and not table else None
    collection = read(source, beside, mapped=True, asked=NO_COLUMNS if table else asked)
    place = str(path.absolute()) if path.is_dir() else None
    if collection.kind == "a table of files":
        place = str(path.absolute().parent)
    made = _from_collection(collection, None if beside else labels, place)
    if table:
        _take_columns(made, labels, asked)
    return made


def _from_table(source: Any, labels: Any, asked: ColumnChoice) -> Source:
    """A table in memory; ``labels`` may be the name of its column."""
    column = labels if isinstance(labels, str) and not is_label_file(labels) else None
    wanted = column if column is not None or labels is None else ""
    collection = read_table(source, wanted, asked)
    place = str(Path.cwd()) if collection.kind == "a table of files" else None
    made = _from_collection(collection, None if column else labels, place)
    made.note = collection.note
    return made


def _from_collection(collection: Collection, labels: Any, place: str | None) -> Source:
    """What a reader found, with its own labels, or others if they are given."""
    n = len(collection.is_test)
    ids = None
    if collection.ids is not None:
        ids = plain_ids(collection.ids if collection.ids_said else map(printable, collection.ids), n)
    called = collection.names or (map(str, ids) if ids is not None else (f"row {k}" for k in range(n)))
    names = [printable(name) for name in called]
    own = _labels_of(collection, n) if labels is None else _labels_for(names, labels)
    made: Source
    if collection.holds_vectors:
        made = VectorSource(collection.X, place, names, own)
    else:
        made = ImageSource(collection.X, place, names, own)
    made.ids, made.ids_said = ids, collection.ids_said
    made.columns = make_table(n, collection.columns)
    made.rejects += collection.rejects
    made.note = collection.note if labels is None else ""
    return made


def _looks_like_image(path: Path) -> bool:
    with open(path, "rb") as file:
        head = file.read(12)
    starts = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"P5\n", b"P6\n")
    in_a_box = (head[:4] == b"RIFF" and head[8:] == b"WEBP") or head[4:8] == b"ftyp"  # WebP; AVIF and HEIC
    return head.startswith(starts) or in_a_box


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
    from sihash.labels import read_labels

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
    if labels is None or isinstance(labels, str | int | float | np.generic):
        return [label_set(labels)] * n
    if not isinstance(labels, Iterable):
        raise DatabaseError(f"Expected one label, or one for each item, got {labels!r:.80}.")
    given: Any = labels
    shape: tuple[int, ...] = getattr(given, "shape", ())
    if len(shape) == 2 and shape[1] != 1:
        if shape[0] != n:
            raise DatabaseError(f"Expected a row of labels an item, got {shape[0]} rows for {n} items.")
        names = list(given.columns) if hasattr(given, "columns") else None
        return _of_indicators(given, names)
    values = np.ravel(given).tolist() if len(shape) == 2 else None
    if values is None:
        values = given.tolist() if hasattr(given, "tolist") else list(given)
    if len(values) != n:
        raise DatabaseError(f"Expected as many labels as items, got {len(values)} labels for {n} items.")
    if getattr(getattr(given, "dtype", None), "kind", "") in ("i", "u"):
        return [() if value == -1 else (value,) for value in values]  # whole numbers, every one
    return label_sets(values)
