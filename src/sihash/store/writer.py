"""One writer at a time: the lock, the transaction, and the files that become part of the database with it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, cast

import numpy as np

from sihash._typing import Array
from sihash.store import files, segments
from sihash.store.catalogue import FILE, Catalogue
from sihash.store.columns import Table, joined, write_table
from sihash.store.errors import DatabaseBusy, DatabaseError
from sihash.store.files import MODELS_FOLDER, SEGMENTS_FOLDER, Written
from sihash.store.ids import Id, to_row
from sihash.store.labels import LabelSet, LabelTable, to_json
from sihash.store.locks import locked
from sihash.store.segments import Segment

WRITER, WAITING, UPDATER = "writer.lock", "waiting.lock", "update.lock"
LOCKS = (WRITER, WAITING, UPDATER)
SCRATCH = "described-*.part"  # results of unfinished work (`sihash.store.scratch`) in a database's folder
UNFINISHED = f".{FILE}.*.part"  # a copy of a catalogue that is being made (`sihash.store.backup`)
_OURS = re.compile(r"^\.?\d{6}\.[a-z0-9.-]+-[0-9a-f]{8}\.(npy|mapped|safetensors)(\.[0-9a-f]{8}(\.part)?)?$")


class Writer:
    """The transaction of an operation, or of several. Nothing is part of the database until `commit`."""

    def __init__(self, root: Path, catalogue: Catalogue) -> None:
        self.root, self.catalogue = root, catalogue
        self._ended: list[tuple[str, int, dict[str, Any], int | None]] = []

    @property
    def operation(self) -> int:
        """The number of the operation being written."""
        return self.catalogue.last_operation() + 1 + len(self._ended)

    def end_operation(
        self, kind: str, version: int, details: dict[str, Any], target: int | None = None
    ) -> None:
        """What is written from now on belongs to the next operation of this transaction."""
        self._ended.append((kind, version, details, target))

    def commit(self, kind: str, version: int, details: dict[str, Any], target: int | None = None) -> None:
        """Make what was written part of the database. ``version`` is the model in force from then on."""
        self.end_operation(kind, version, details, target)
        self.commit_ended()

    def commit_ended(self) -> None:
        """Make all operations that have ended part of the database."""
        for folder in (self.root / SEGMENTS_FOLDER, self.root / MODELS_FOLDER, self.root):
            files.disk.sync_folder(folder)
        self.catalogue.check_in_place()  # the files would be in one database, their rows in another
        for operation in self._ended[:-1]:
            self.catalogue.record(*operation)
        self.catalogue.commit(*self._ended[-1])

    def adopt(self, kind: str, file: Written, segment: int | None = None, version: int | None = None) -> None:
        """Name a written file in the catalogue."""
        self.catalogue.insert("files", [(file.path, kind, segment, version, file.size, file.sha256)])

    # Items.

    def insert_removed(self, ids: Array) -> None:
        """Note that this operation removes items."""
        first = self.catalogue.execute("SELECT coalesce(max(number), 0) + 1 FROM removed")[0][0]
        operation = self.operation
        self.catalogue.insert("removed", ((first + k, operation, int(i)) for k, i in enumerate(ids)))

    def insert_relabelled(self, ids: Array, numbers: Array) -> None:
        """Note that this operation gives items other class numbers; −1 stands for no label."""
        first = self.catalogue.execute("SELECT coalesce(max(number), 0) + 1 FROM relabelled")[0][0]
        operation = self.operation
        rows = enumerate(zip(ids.tolist(), numbers.tolist(), strict=True), first)
        self.catalogue.insert("relabelled", ((k, operation, *row) for k, row in rows))

    def class_numbers(self, labels: Sequence[LabelSet], table: LabelTable | None = None) -> list[int]:
        """Class numbers of label sets, −1 for none; the catalogue and its ``table`` take up new ones."""
        table = LabelTable(self.catalogue.rows("classes")) if table is None else table
        new = [own for own in dict.fromkeys(labels) if own and table.number_of(own) is None]
        self.catalogue.insert("classes", [(table.enter(own), to_json(own)) for own in new])
        number_of = {own: -1 if not own else table.number_of(own) for own in set(labels)}
        return [cast(int, number_of[own]) for own in labels]

    def insert_items(
        self,
        ids: Sequence[int],
        classes: Sequence[int],
        names: Sequence[str],
        contents: Sequence[bytes],
        given_ids: Sequence[Id | None],
        thumbnails: Sequence[bytes | None],
    ) -> None:
        """Rows of new items; a class number of −1 stands for no label."""
        operation = self.operation
        self.catalogue.insert(
            "items",
            (
                (i, operation, None if number < 0 else number, name, content, *to_row(given))
                for i, number, name, content, given in zip(
                    ids, classes, names, contents, given_ids, strict=True
                )
            ),
        )
        small = [(i, image) for i, image in zip(ids, thumbnails, strict=True) if image is not None]
        self.catalogue.insert("thumbnails", small)

    def replace_classes(self, now: dict[int, int]) -> None:
        """Rows of the table of items, with other class numbers in them."""
        rows = list(self.catalogue.rows_in("items", "id", list(now)))
        self.catalogue.set_aside("relabelled_items", (row[0] for row in rows))
        self.catalogue.delete("items", "id IN (SELECT id FROM relabelled_items)")
        self.catalogue.insert(
            "items", ((i, o, None if now[i] < 0 else now[i], *rest) for i, o, _, *rest in rows)
        )

    def add_columns(self, segment: Segment, columns: Table) -> None:
        """Write the columns of a new segment, if it has any."""
        if columns.columns:
            segment.columns_file = write_table(self.root, segment.number, columns)
            self.adopt("columns", segment.columns_file, segment.number)

    def new_segment(self, rows: Array, blocks: Sequence[Array], operation: int | None = None) -> Segment:
        """Write rows (ids ascending) and their vectors; all of them are alive."""
        number = self.next_segment()
        vectors = segments.write_vectors(self.root, number, blocks)
        segment = self.adopt_segment(number, rows, vectors, operation)
        self.write_rows(segment)
        return segment

    def join_segments(self, parts: Sequence[Segment]) -> Segment:
        """Write segments that follow each other as one, but for their codes."""
        operations = np.concatenate([part.operations for part in parts])
        last = int(operations[-1])
        rows = np.concatenate([part.rows for part in parts])
        one = self.new_segment(rows, [part.vectors for part in parts], last)
        if (operations != last).any():
            file = segments.write_operations(self.root, one.number, operations)
            self.adopt("operations", file, one.number)
        self.add_columns(one, joined([part.columns for part in parts]))
        return one

    def next_segment(self) -> int:
        """The number that the next segment gets."""
        return int(self.catalogue.execute("SELECT coalesce(max(number), 0) + 1 FROM segments")[0][0])

    def adopt_segment(
        self, number: int, rows: Array, vectors: Written, operation: int | None = None
    ) -> Segment:
        """A new segment whose vectors are written; its rows may still change until `write_rows`.

        Its items came by ``operation``, by default the one being written.
        """
        operation = operation or self.operation
        self.catalogue.insert("segments", [(number, operation, len(rows))])
        self.adopt("vectors", vectors, number)
        no_codes = np.empty((len(rows), 0), dtype=np.uint8)
        alive = np.ones(len(rows), dtype=bool)
        operations = np.broadcast_to(np.int64(operation), len(rows))
        return Segment(self.root, number, operations, rows.copy(), vectors, no_codes, alive)

    def write_rows(self, segment: Segment) -> None:
        """Write what is known of each item of a new segment."""
        self.adopt("rows", segments.write_rows(self.root, segment.number, segment.rows), segment.number)

    def write_codes(self, segment: int, version: int, codes: Array) -> None:
        """Write the packed codes that one model version gives to the items of a segment."""
        self.adopt("codes", segments.write_codes(self.root, segment, version, codes), segment, version)


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
        _locked_in_turn(root, patience),
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
def _locked_in_turn(root: Path, patience: float) -> Iterator[None]:
    """Hold the lock of writers. Of those that wait one looks for it and the others for its place, so that
    whoever has just written lets another go first.
    """
    with ExitStack() as held:
        with locked(root / WAITING, "is waiting to write to it", patience):
            held.enter_context(locked(root / WRITER, "is writing to it", patience))
        yield


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
        with nullcontext() if updating else locked(root / UPDATER, "is updating or copying it"):
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


def delete_scratch(root: Path) -> None:
    """Forget the results of unfinished work."""
    for path in root.glob(SCRATCH):
        path.unlink(missing_ok=True)


@contextmanager
def new_folder(root: Path) -> Iterator[None]:
    """A folder for a new database; if that fails, and the folder was not there before, it goes again."""
    was_there = root.exists()
    try:
        with disk_errors_told(root):
            _prepare_folder(root)
        yield
    except BaseException as error:
        if not was_there:
            _discard(root, keep=SCRATCH if isinstance(error, KeyboardInterrupt) else None)
        raise


def _discard(root: Path, keep: str | None) -> None:
    """Delete an unfinished database, but for files like ``keep``. Whoever comes meanwhile finds it busy, or
    gone; one that another process has finished stays.
    """
    with suppress(DatabaseError, OSError), locked(root / WRITER, "is creating it"):
        if (root / FILE).is_file():
            with closing(Catalogue(root)) as catalogue:
                if catalogue.last_operation():
                    return
        if keep is None or not any(root.glob(keep)):
            shutil.rmtree(root)
            return
        for path in set(root.iterdir()) - set(root.glob(keep)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _prepare_folder(root: Path) -> None:
    """It is not there yet, empty, or left by an unfinished creation."""
    expected = {SEGMENTS_FOLDER, MODELS_FOLDER, *LOCKS, FILE, f"{FILE}-wal", f"{FILE}-shm"}
    if root.is_dir():
        expected |= {path.name for form in (SCRATCH, UNFINISHED) for path in root.glob(form)}
    if root.exists() and (not root.is_dir() or {path.name for path in root.iterdir()} - expected):
        raise DatabaseError(f"{root} is there already and is not empty; choose another place.")
    for folder in (root, root / SEGMENTS_FOLDER, root / MODELS_FOLDER):
        files.disk.make_folder(folder)
    for folder in (root, root.absolute().parent):
        files.disk.sync_folder(folder)
