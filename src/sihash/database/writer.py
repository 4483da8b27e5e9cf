"""One writer at a time: the lock, the transaction, and the files that become part of the database with it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sihash._typing import Array
from sihash.database import files, segments
from sihash.database.answers import LabelSet
from sihash.database.catalogue import FILE, Catalogue
from sihash.database.columns import Table, joined, write_table
from sihash.database.errors import DatabaseBusy, DatabaseError
from sihash.database.files import MODELS_FOLDER, SEGMENTS_FOLDER, Written
from sihash.database.ids import to_row
from sihash.database.intake import Intake
from sihash.database.label_table import LabelTable, to_json
from sihash.database.lock import locked
from sihash.database.progress import Progress
from sihash.database.segments import Places, Segment
from sihash.database.sources import ItemBlock
from sihash.ranking import Sketcher
from sihash.ranking.sketch import SKETCH_BYTES

if TYPE_CHECKING:
    from sihash.hashing.updatable import UpdatableHashFunctions

WRITER, UPDATER = "writer.lock", "update.lock"
SWEEP_SECONDS = 1.0  # that an update waits for the lock of updates: writers hold it while they sweep
PATIENCE = 3600.0  # seconds that an update waits for an addition to end, rather than lose what it learned
_OURS = re.compile(r"^\.?\d{6}\.[a-z0-9.-]+-[0-9a-f]{8}\.(npy|safetensors)(\.[0-9a-f]{8}(\.part)?)?$")


class Writer:
    """The transaction of one operation. Nothing is part of the database until `commit`."""

    def __init__(self, root: Path, catalogue: Catalogue) -> None:
        self.root, self.catalogue = root, catalogue

    @property
    def operation(self) -> int:
        """The number of the operation being written."""
        return self.catalogue.last_operation() + 1

    def commit(self, kind: str, version: int, details: dict[str, Any], target: int | None = None) -> None:
        """Make what was written part of the database. ``version`` is the model in force from then on."""
        for folder in (self.root / SEGMENTS_FOLDER, self.root / MODELS_FOLDER, self.root):
            files.disk.sync_folder(folder)
        self.catalogue.check_in_place()  # the files would be in one database, their rows in another
        self.catalogue.commit(kind, version, details, target)

    def adopt(self, kind: str, file: Written, segment: int | None = None, version: int | None = None) -> None:
        """Name a written file in the catalogue."""
        self.catalogue.insert("files", [(file.path, kind, segment, version, file.size, file.sha256)])

    # Items.

    def insert_removed(self, ids: Array) -> None:
        """Note that this operation removes items."""
        first = self.catalogue.execute("SELECT coalesce(max(number), 0) + 1 FROM removed")[0][0]
        operation = self.operation
        self.catalogue.insert("removed", ((first + k, operation, int(i)) for k, i in enumerate(ids)))

    def ingest(self, intake: Intake, first_id: int, progress: Progress) -> list[Segment]:
        """Write the vectors of all that is taken from a source; `finish` writes the rest of the segments.

        The vectors of a segment are on their way to the disk while items are noted in the catalogue and the
        next ones are read; one segment at a time, so that a slow disk holds up a fast source.
        """
        source = intake.source
        table = LabelTable(self.catalogue.rows("classes"))
        written: list[Segment] = []
        # Of the segment being filled: numbers, vectors, class numbers, columns.
        waiting: list[tuple[Array, Array, Array, Table]] = []
        with ThreadPoolExecutor(1) as pool:
            on_the_way: list[tuple[int, Array, Array, Table, Future[Written]]] = []

            def arrive() -> None:
                for number, ids, classes, columns, file in on_the_way:
                    segment = self._adopt_segment(number, ids, classes, file.result())
                    self.add_columns(segment, columns)
                    written.append(segment)
                on_the_way.clear()

            def send() -> None:
                arrive()
                number = self._next_segment()
                ids, vectors, classes, columns = zip(*waiting, strict=True)
                file = pool.submit(segments.write_vectors, self.root, number, vectors)
                about = np.concatenate(ids), np.concatenate(classes), joined(columns)
                on_the_way.append((number, *about, file))
                waiting.clear()

            for block in source.blocks(intake):
                ids = first_id + np.array(block.offsets, dtype=np.int64)
                numbers = self.class_numbers(block.labels, table)
                waiting.append((ids, block.vectors, np.array(numbers, dtype=np.int32), block.columns))
                if sum(len(each) for each, *_ in waiting) >= segments.rows_of(block.vectors.shape[1]):
                    send()
                self._insert_items(block, ids.tolist(), numbers)
                done = len(intake.taken) + len(intake.skipped) + len(intake.rejects)
                progress(source.step, min(1.0, done / max(1, len(source))))
            if waiting:
                send()
            arrive()
        self._join_labels(intake.joined_labels, written, table)
        return written

    def class_numbers(self, labels: Sequence[LabelSet], table: LabelTable | None = None) -> list[int]:
        """Class numbers of label sets, −1 for none; the catalogue and its ``table`` take up new ones."""
        table = LabelTable(self.catalogue.rows("classes")) if table is None else table
        new = [own for own in dict.fromkeys(labels) if own and table.number_of(own) is None]
        self.catalogue.insert("classes", [(table.enter(own), to_json(own)) for own in new])
        number_of = {own: -1 if not own else table.number_of(own) for own in set(labels)}
        return [cast(int, number_of[own]) for own in labels]

    def _join_labels(self, labels: dict[bytes, LabelSet], written: list[Segment], table: LabelTable) -> None:
        """Give items of this operation, by their contents, further labels that came behind them."""
        rows = list(self.catalogue.rows_in("items", "content", list(labels)))
        rows = [row for row in rows if row[1] == self.operation]
        numbers = self.class_numbers([labels[row[4]] for row in rows], table)
        self.replace_classes(dict(zip((row[0] for row in rows), numbers, strict=True)))
        places = Places(written)
        ids = np.array([row[0] for row in rows], dtype=np.int64)
        for segment, found, at in places.find(ids):
            segment.classes[at] = segment.rows["class"][at] = np.array(numbers)[found]

    def replace_classes(self, now: dict[int, int]) -> None:
        """Rows of the table of items, with other class numbers in them."""
        rows = list(self.catalogue.rows_in("items", "id", list(now)))
        self.catalogue.set_aside("relabelled_items", (row[0] for row in rows))
        self.catalogue.delete("items", "id IN (SELECT id FROM relabelled_items)")
        self.catalogue.insert(
            "items", ((i, o, None if now[i] < 0 else now[i], *rest) for i, o, _, *rest in rows)
        )

    def _insert_items(self, block: ItemBlock, ids: list[int], numbers: list[int]) -> None:
        """Rows of a block's items."""
        operation = self.operation
        self.catalogue.insert(
            "items",
            (
                (i, operation, None if number < 0 else number, name, content, *to_row(own))
                for i, number, name, content, own in zip(
                    ids, numbers, block.names, block.contents, block.ids, strict=True
                )
            ),
        )
        small = [(i, image) for i, image in zip(ids, block.thumbnails, strict=True) if image is not None]
        self.catalogue.insert("thumbnails", small)

    def add_columns(self, segment: Segment, columns: Table) -> None:
        """Write the columns of a new segment, if it has any."""
        if columns.columns:
            segment.columns_file = write_table(self.root, segment.number, columns)
            self.adopt("columns", segment.columns_file, segment.number)

    def finish(self, new: list[Segment], sketcher: Sketcher) -> None:
        """Sketch the vectors of new segments and write their rows."""
        for segment in new:
            segment.rows["sketch"] = segments.sketch_all(sketcher, segment.vectors)
            self.adopt("rows", segments.write_rows(self.root, segment.number, segment.rows), segment.number)

    def new_segment(self, rows: Array, blocks: Sequence[Array]) -> Segment:
        """Write rows (ids ascending) and their vectors; all of them are alive."""
        number = self._next_segment()
        vectors = segments.write_vectors(self.root, number, blocks)
        segment = self._adopt_segment(number, rows["id"], rows["class"], vectors)
        self.adopt("rows", segments.write_rows(self.root, number, rows), number)
        return segment

    def _next_segment(self) -> int:
        return int(self.catalogue.execute("SELECT coalesce(max(number), 0) + 1 FROM segments")[0][0])

    def _adopt_segment(self, number: int, ids: Array, classes: Array, vectors: Written) -> Segment:
        self.catalogue.insert("segments", [(number, self.operation, len(ids))])
        self.adopt("vectors", vectors, number)
        rows = segments.make_rows(ids, classes, np.zeros((len(ids), SKETCH_BYTES), dtype=np.uint8))
        no_codes = np.empty((len(ids), 0), dtype=np.uint8)
        alive = np.ones(len(ids), dtype=bool)
        operations = np.broadcast_to(np.int64(self.operation), len(ids))
        segment = Segment(self.root, number, operations, rows, vectors, no_codes, alive)
        # Just written: there is nothing to check yet.
        segment.vectors = np.load(self.root / vectors.path, mmap_mode="r", allow_pickle=False)
        return segment


def write_sketcher(root: Path, sketcher: Sketcher) -> Written:
    """The file that says how sketches are made; one for the life of a database."""
    rows = sketcher.to_array()
    name = files.unique_name(f"{MODELS_FOLDER}/{0:06d}.sketcher", "npy")
    return files.write_array(root, name, rows.shape, np.float32, [rows])


def write_models(
    root: Path, hasher: UpdatableHashFunctions, version: int, learned: Array, left_out: Array
) -> dict[str, Written]:
    """Files that are not in the catalogue yet: what searches need, what the next update needs, ids and
    classes of the training rows, and some of these with margins as if they had been left out.
    """
    stem = f"{MODELS_FOLDER}/{version:06d}"
    hashes, state = (
        files.unique_name(f"{stem}.{kind}", "safetensors") for kind in ("hash", "training-state")
    )
    training, asking = (files.unique_name(f"{stem}.{kind}", "npy") for kind in ("training", "left-out"))
    return {
        "hash": files.write_model(root, hashes, hasher, updatable=False),
        "training-state": files.write_model(root, state, hasher, vectors=False),
        "training": files.write_array(root, training, learned.shape, learned.dtype, [learned]),
        "left-out": files.write_array(root, asking, left_out.shape, left_out.dtype, [left_out]),
    }


@contextmanager
def writing(
    root: Path,
    *,
    create: bool = False,
    updating: bool = False,
    of: Catalogue | None = None,
    keep: Set[str] = frozenset(),
    patience: float = 0.0,
) -> Iterator[Writer]:
    """The transaction of one operation; what is not committed at the end is as if it had never been.

    ``updating`` says that the caller holds the lock of updates, ``of`` what it has read, ``keep`` which
    files it has made already, and ``patience`` how many seconds it waits for another writer.
    """
    with (
        disk_errors_told(root),
        locked(root / WRITER, "is writing to it", patience),
        closing(Catalogue(root, write=True, create=create)) as catalogue,
    ):
        if of is not None:
            catalogue.check_same(of)
        try:
            sweep(root, catalogue, updating, keep)
            catalogue.begin()
            yield Writer(root, catalogue)
        except BaseException:
            catalogue.rollback()
            with suppress(OSError, DatabaseError):
                catalogue.check_in_place()  # else the files in the folder are not this catalogue's
                sweep(root, catalogue, updating)
            raise


@contextmanager
def disk_errors_told(root: Path) -> Iterator[None]:
    """A disk that is full or fails, in one sentence."""
    try:
        yield
    except OSError as error:
        raise DatabaseError(f"Nothing was changed in {root}: {error.strerror or error}.") from error


def sweep(root: Path, catalogue: Catalogue, updating: bool, keep: Set[str] = frozenset()) -> None:
    """Delete files of ours that the catalogue does not name: what an interrupted writer left behind.

    While an update is at work on files that are not in the catalogue yet, others leave everything.
    """
    try:
        with nullcontext() if updating else locked(root / UPDATER, "is updating it"):
            for path in strays(root, catalogue):
                if path.relative_to(root).as_posix() not in keep:
                    with suppress(OSError):  # the next writer tries again
                        files.disk.unlink(path)
    except DatabaseBusy:
        pass


def strays(root: Path, catalogue: Catalogue) -> list[Path]:
    """Files of ours that the catalogue does not name."""
    known_table = catalogue.execute("SELECT 1 FROM sqlite_master WHERE name = 'files'")
    known = {file.path for _, _, _, file in catalogue.files()} if known_table else set()
    return [
        root / folder / name
        for folder in (SEGMENTS_FOLDER, MODELS_FOLDER)
        for name in os.listdir(root / folder)
        if f"{folder}/{name}" not in known and _OURS.match(name)
    ]


@contextmanager
def new_folder(root: Path) -> Iterator[None]:
    """A folder for a new database; if that fails, and the folder was not there before, it goes again."""
    was_there = root.exists()
    try:
        with disk_errors_told(root):
            _prepare_folder(root)
        yield
    except BaseException:
        if not was_there:
            _discard(root)
        raise


def _discard(root: Path) -> None:
    """Delete an unfinished database. Whoever comes meanwhile finds it busy, or gone; one that another
    process has finished stays.
    """
    with suppress(DatabaseError, OSError), locked(root / WRITER, "is creating it"):
        if (root / FILE).is_file():
            with closing(Catalogue(root)) as catalogue:
                if catalogue.last_operation():
                    return
        shutil.rmtree(root)


def _prepare_folder(root: Path) -> None:
    """It is not there yet, empty, or left by an unfinished creation."""
    expected = {SEGMENTS_FOLDER, MODELS_FOLDER, WRITER, UPDATER, FILE, f"{FILE}-wal", f"{FILE}-shm"}
    if root.exists() and (not root.is_dir() or {path.name for path in root.iterdir()} - expected):
        raise DatabaseError(f"{root} is there already and is not empty; choose another place.")
    for folder in (root, root / SEGMENTS_FOLDER, root / MODELS_FOLDER):
        files.disk.make_folder(folder)
    for folder in (root, root.absolute().parent):
        files.disk.sync_folder(folder)
