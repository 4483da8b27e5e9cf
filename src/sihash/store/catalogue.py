"""The catalogue: SQLite tables, every row with a checksum, and totals that miss no row.

What the database holds follows from its ``operations``: each add, remove, relabel, update, undo and compact
is one row, written in the same transaction as the rows that belong to it. Nothing is ever changed in place;
an undone operation is one that a later ``undo`` names. ``compact`` deletes rows of items that are gone. Rows
of ``segments`` and ``files`` are also deleted when small segments are merged and old versions are dropped.

SQLite does not notice a flipped byte in its pages. So every row has a CRC-32 of its values, checked whenever
it is read; and the last operation states for every table how many rows it has and the sum of their checksums,
so that a table read whole is known to be whole. The number of the last operation is SQLite's ``user_version``
too: that is also how a reader learns, in microseconds, that something happened.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sihash.store.errors import CorruptFile, DatabaseBusy, DatabaseError, gone
from sihash.store.files import Written
from sihash.store.log import Operation

FILE = "catalogue.sqlite"
FORMAT = 6
APPLICATION = 0x53494844  # "SIHD" in the header of the SQLite file
COMMIT_SECONDS = 10.0  # for another connection's commit; these take milliseconds
EXCHANGE_SECONDS = 1.0  # between two renamings, by which another database takes the place of this one
CHECKPOINT_SECONDS = 0.5  # for readers in the middle of a long look
KEPT_ITEMS = 50_000  # rows of items in memory
SQL_VALUES = 500  # values in one "IN (…)"

# Columns in the order in which they are checksummed. The last, "check", is added to each.
TABLES: dict[str, tuple[str, ...]] = {
    "meta": ("key TEXT PRIMARY KEY", "value TEXT NOT NULL"),
    "classes": ("number INTEGER PRIMARY KEY", "label TEXT NOT NULL"),
    "segments": ("number INTEGER PRIMARY KEY", "operation INTEGER NOT NULL", "n INTEGER NOT NULL"),
    "files": (
        "path TEXT PRIMARY KEY",
        "kind TEXT NOT NULL",
        "segment INTEGER",
        "version INTEGER",
        "size INTEGER NOT NULL",
        "sha256 BLOB NOT NULL",
    ),
    "items": (
        "id INTEGER PRIMARY KEY",
        "operation INTEGER NOT NULL",
        "class INTEGER",
        "name TEXT NOT NULL",
        "content BLOB NOT NULL",
        "given TEXT",
        "folded TEXT",
    ),
    "removed": ("number INTEGER PRIMARY KEY", "operation INTEGER NOT NULL", "id INTEGER NOT NULL"),
    "relabelled": (
        "number INTEGER PRIMARY KEY",
        "operation INTEGER NOT NULL",
        "id INTEGER NOT NULL",
        "class INTEGER NOT NULL",
    ),
    "thumbnails": ("id INTEGER PRIMARY KEY", "image BLOB NOT NULL"),
    "operations": (
        "number INTEGER PRIMARY KEY",
        "kind TEXT NOT NULL",
        "at TEXT NOT NULL",
        "version INTEGER NOT NULL",
        "target INTEGER",
        "totals TEXT NOT NULL",
        "details TEXT NOT NULL",
    ),
}
COLUMNS = {table: [column.split()[0] for column in columns] for table, columns in TABLES.items()}
INDEXES = (
    "CREATE INDEX items_content ON items (content)",
    "CREATE INDEX items_folded ON items (folded) WHERE folded IS NOT NULL",
    "CREATE INDEX removed_operation ON removed (operation)",
    "CREATE INDEX relabelled_operation ON relabelled (operation)",
)
COUNTED = [table for table in TABLES if table != "operations"]  # its own count is its last number

SqlRow = tuple[Any, ...]


def checksum(values: Sequence[Any]) -> int:
    """CRC-32 of a row: any single altered byte, and any run of four, changes it."""
    return zlib.crc32("\0".join(map(str, values)).encode())


def refuse_missing(root: Path) -> None:
    """One sentence where there is no database; the command line asks before it loads anything heavy."""
    if not (root / FILE).is_file():
        raise DatabaseError(f"There is no database at {root}; make one with `sihash create`.")


def is_finished(root: Path) -> bool:
    """Whether there is a database, and not only the start of one whose creation was killed."""
    if not (root / FILE).is_file():
        return False
    try:
        with closing(Catalogue(root)) as catalogue:
            return catalogue.last_operation() > 0
    except DatabaseError:  # it is damaged, perhaps
        return True


class Catalogue:
    """One connection, for reading or for one writer; several threads may share it."""

    def __init__(self, root: Path, *, write: bool = False, create: bool = False) -> None:
        self.path = root / FILE
        if create:
            self.path.touch()
        self._lock = threading.RLock()
        self._items: dict[int, SqlRow] = {}
        while True:
            self._opened = OpenedFile(self.path, write)
            try:
                self._connect("rw" if write else "ro&immutable=1" if self._opened.immutable else "ro")
                break
            except DatabaseError:
                if OpenedFile(self.path, write).immutable == self._opened.immutable:
                    raise  # else the log went meanwhile, and it is to be opened in the other way
        if create:
            self.execute("PRAGMA journal_mode = WAL")
        if write:
            self.execute("PRAGMA wal_autocheckpoint = 0")  # `commit` does it
        self.check_in_place()

    def _connect(self, mode: str) -> None:
        with self._told():
            self._db = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=COMMIT_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        self.execute("PRAGMA synchronous = FULL")
        self.execute("PRAGMA cell_size_check = ON")
        self.execute("PRAGMA cache_size = -65536")  # KiB: names of items are read at random
        self.last_operation()  # SQLite finds its log by name, at the first look

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # The file itself.

    def is_current(self) -> bool:
        """Whether this connection sees what is at its path now; not once a copy was put in its place."""
        return self._opened.is_current()

    def check_in_place(self) -> None:
        """Raise `DatabaseBusy` if another file was put in the place of this one."""
        if not self._opened.is_in_place():
            raise self._replaced()

    def check_same(self, other: Catalogue) -> None:
        """Raise `DatabaseBusy` unless both are connections to one file."""
        if self._opened.inode != other._opened.inode:
            raise self._replaced()

    def _replaced(self) -> DatabaseBusy:
        return DatabaseBusy(f"{self.path} was replaced meanwhile, and nothing was changed; try again.")

    @contextmanager
    def beside(self) -> Iterator[Catalogue]:
        """Another connection to the same file, for a long look that must not hold up others."""
        other = Catalogue(self.path.parent)
        try:
            other.check_same(self)
            yield other
        finally:
            other.close()

    def copy_to(self, path: Path) -> None:
        """Write what is seen now to a new file."""
        with self._lock, self._told(), closing(sqlite3.connect(path)) as copy:
            self._db.backup(copy)

    # Reading.

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[SqlRow]:
        """All rows of a statement, not checked."""
        with self._lock, self._told():
            return self._db.execute(sql, values).fetchall()

    def rows(self, table: str, where: str = "1", values: Sequence[Any] = ()) -> list[SqlRow]:
        """Checked rows of a table in the order of its key, without their checksums."""
        key = COLUMNS[table][0]
        found = self.execute(f"SELECT * FROM {table} WHERE {where} ORDER BY {key}", values)
        return [self._checked(table, row) for row in found]

    def rows_in(self, table: str, column: str, values: Sequence[Any]) -> Iterator[SqlRow]:
        """Checked rows whose ``column`` is one of ``values``."""
        for start in range(0, len(values), SQL_VALUES):
            part = values[start : start + SQL_VALUES]
            yield from self.rows(table, f"{column} IN ({','.join('?' * len(part))})", part)

    def items(self, ids: Sequence[int]) -> dict[int, SqlRow]:
        """Checked rows of items by their ids. All but the class in a row stays as it is, and nobody reads the
        class here once items may be relabelled: rows asked for often are kept.
        """
        found = {number: row for number in ids if (row := self._items.get(number)) is not None}
        missing = [number for number in ids if number not in found]
        if missing:
            fresh = {row[0]: row for row in self.rows_in("items", "id", missing)}
            found |= fresh
            if len(self._items) > KEPT_ITEMS:
                self._items.clear()
            self._items.update(fresh)
        return found

    def checked(self, sql: str, table: str, size: int = 10_000) -> Iterator[list[SqlRow]]:
        """Checked rows of a long statement over one table, in lists, with their checksums."""
        with self._told():
            cursor = self._db.execute(sql)
            while rows := cursor.fetchmany(size):
                for row in rows:
                    self._checked(table, row)
                yield rows

    def check_table(self, table: str, totals: dict[str, list[int]]) -> None:
        """Raise `CorruptFile` unless every row of a table is as it was written, and none is missing."""
        n = total = 0
        for rows in self.checked(f"SELECT * FROM {table} ORDER BY {COLUMNS[table][0]}", table):
            n += len(rows)
            total += sum(row[-1] for row in rows)
        self.compare(table, [n, total], totals)

    def compare(self, table: str, found: list[int], totals: dict[str, list[int]]) -> None:
        """Raise `CorruptFile` unless the rows found are all that the last operation counted."""
        if found != totals[table]:
            raise self.corrupt(
                f"table {table} has {found[0]} rows where the last operation counted {totals[table][0]}"
            )

    def operations(self, after: int = 0) -> list[Operation]:
        """The operations after number ``after``, in order and without a gap."""
        with self.snapshot():
            found = [Operation(*row) for row in self.rows("operations", "number > ?", (after,))]
            last = self.last_operation()  # of the same moment; damage may have made it any number
        numbers = range(after + 1, last + 1)
        if len(found) != len(numbers) or any(o.number != n for o, n in zip(found, numbers, strict=True)):
            raise self.corrupt("operations are missing")
        return found

    def last_operation(self) -> int:
        return int(self.execute("PRAGMA user_version")[0][0])

    @property
    def meta(self) -> dict[str, Any]:
        """What was settled at the creation; features may change later."""
        return {key: json.loads(value) for key, value in self.rows("meta")}

    def files(self, where: str = "1", values: Sequence[Any] = ()) -> Iterator[tuple[str, Any, Any, Written]]:
        """``(kind, segment, version, file)`` of the files that belong to the database."""
        for path, kind, segment, version, size, sha256 in self.rows("files", where, values):
            yield kind, segment, version, Written(path, size, sha256)

    def file_of_version(self, kind: str, version: int) -> Written:
        for _, _, _, file in self.files("kind = ? AND version = ?", (kind, version)):
            return file
        raise self.corrupt(f"it names no {kind} file of version {version}")

    def file_of_kind(self, kind: str) -> Written:
        """The one file of a kind that there is one of."""
        for _, _, _, file in self.files("kind = ?", (kind,)):
            return file
        raise self.corrupt(f"it names no {kind} file")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """What is read inside a ``with`` block is of one moment."""
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            self.execute("BEGIN")
            try:
                yield
            finally:
                self.execute("COMMIT")

    def check(self, checked_items: int | None = None) -> None:
        """Raise `CorruptFile` unless this is a catalogue and its tables are whole.

        The tables with a row for every item, and SQLite's own structures, are passed over if there are more
        than ``checked_items``.
        """
        application, last = self.execute("PRAGMA application_id")[0][0], self.last_operation()
        if application == last == 0:
            raise DatabaseError(f"{self.path} is empty: the database was never finished; create it again.")
        if application != APPLICATION:
            raise self.corrupt("it is not the catalogue of a sihash database")
        made = self.meta.get("format")
        if isinstance(made, int) and made > FORMAT:
            raise DatabaseError(
                f"{self.path} has format {made}, newer than the {FORMAT} that this sihash reads; "
                "install a newer sihash to open it."
            )
        if isinstance(made, int) and made < FORMAT:
            raise DatabaseError(
                f"{self.path} has format {made}, older than the {FORMAT} that this sihash reads; "
                "export it with the sihash that made it, and create it again."
            )
        totals = self.operations(last - 1)[-1].totals  # a snapshot reads the others
        deep = checked_items is None or totals["items"][0] <= checked_items
        for table in COUNTED:
            if deep or table not in ("items", "thumbnails"):
                self.check_table(table, totals)
        if deep:
            problems = [row[0] for row in self.execute("PRAGMA integrity_check(3)")]
            if problems != ["ok"]:
                raise self.corrupt(str(problems[0]))

    def _checked(self, table: str, row: SqlRow) -> SqlRow:
        values = row[:-1]
        if len(row) != len(COLUMNS[table]) + 1 or checksum(values) != row[-1]:
            raise self.corrupt(f"a row of table {table} ({COLUMNS[table][0]} {row[0]!r}) was altered")
        return values

    def corrupt(self, what: str) -> CorruptFile:
        return CorruptFile(f"{self.path} is damaged: {what}; restore it from a copy of the database.")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """SQLite's errors as ours: what is damaged, what is full, who is in the way."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise DatabaseBusy(f"{self.path} is busy ({error}); try again.") from None
            damaged = ("malformed", "no such", "unsupported file format", "encod", "has no column")
            if any(word in str(error) for word in damaged):
                raise self.corrupt(str(error)) from None
            raise DatabaseError(f"{self.path} cannot be used: {error}; nothing was changed.") from None
        except sqlite3.DataError as error:  # a value past SQLite's limits, which says nothing of the file
            raise DatabaseError(f"{self.path} cannot take this: {error}; nothing was changed.") from None
        except sqlite3.ProgrammingError as error:  # closed, for one
            raise DatabaseError(f"{self.path} cannot be used: {error}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError) as error:
            raise self.corrupt(str(error)) from None

    # Writing.

    def lay_out(self) -> None:
        """Make the tables of a new catalogue, inside the transaction that creates the database."""
        self.execute(f"PRAGMA application_id = {APPLICATION}")
        for table, columns in TABLES.items():
            self.execute(f'CREATE TABLE {table} ({", ".join(columns)}, "check" INTEGER NOT NULL)')

    def make_indexes(self) -> None:
        """After the items of the creation: sorting them once is faster than finding a place for each."""
        for statement in INDEXES:
            self.execute(statement)

    def begin(self) -> None:
        """Start the one transaction of an operation."""
        self.execute("BEGIN IMMEDIATE")
        known = bool(self.execute("SELECT 1 FROM sqlite_master WHERE name = 'operations'"))
        last = self.operations(max(0, self.last_operation() - 1)) if known else []
        self._totals = last[-1].totals if last else {table: [0, 0] for table in COUNTED}

    def insert(self, table: str, rows: Iterable[SqlRow]) -> None:
        """Add rows, each with its checksum, and count them in the totals."""
        sealed = [(*row, checksum(row)) for row in rows]
        marks = ",".join("?" * (len(COLUMNS[table]) + 1))
        with self._lock, self._told():
            self._db.executemany(f"INSERT INTO {table} VALUES ({marks})", sealed)
        if table in self._totals:
            self._totals[table][0] += len(sealed)
            self._totals[table][1] += sum(row[-1] for row in sealed)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A part of a transaction that is as if it had never been if it fails."""
        totals = {table: list(counts) for table, counts in self._totals.items()}
        self.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK TO part")
            self.execute("RELEASE part")
            self._totals = totals
            self._items.clear()
            raise
        self.execute("RELEASE part")

    def set_aside(self, table: str, numbers: Iterable[int]) -> None:
        """A temporary table of one column ``id``, for this connection alone."""
        self.execute(f"CREATE TEMP TABLE IF NOT EXISTS {table} (id INTEGER PRIMARY KEY)")
        self.execute(f"DELETE FROM {table}")
        with self._lock, self._told():
            self._db.executemany(f"INSERT INTO {table} VALUES (?)", ((int(n),) for n in numbers))

    def delete(self, table: str, where: str) -> None:
        """Delete rows and take them out of the totals; for ``compact`` alone."""
        found = self.execute(f'SELECT count(*), coalesce(sum("check"), 0) FROM {table} WHERE {where}')[0]
        self.execute(f"DELETE FROM {table} WHERE {where}")
        self._totals[table] = [a - b for a, b in zip(self._totals[table], found, strict=True)]

    def record(self, kind: str, version: int, details: dict[str, Any], target: int | None = None) -> int:
        """Record an operation, with the totals of now."""
        number = self.last_operation() + 1
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        row = (number, kind, at, version, target, json.dumps(self._totals), json.dumps(details))
        self.insert("operations", [row])
        self.execute(f"PRAGMA user_version = {number}")
        return number

    def commit(self, kind: str, version: int, details: dict[str, Any], target: int | None = None) -> int:
        """Record an operation and commit: the one moment at which the database changes."""
        number = self.record(kind, version, details, target)
        self.execute("COMMIT")
        self._checkpoint()
        return number

    def _checkpoint(self) -> None:
        """Move the commit from the log into the catalogue.

        SQLite takes a damaged log for one that ends earlier, and what was acknowledged would be gone without
        a word. So no log is left behind. If a reader is in the way for long, the next commit does it.
        """
        with suppress(DatabaseError):
            self.execute(f"PRAGMA busy_timeout = {int(1000 * CHECKPOINT_SECONDS)}")
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.execute(f"PRAGMA busy_timeout = {int(1000 * COMMIT_SECONDS)}")

    def vacuum(self) -> None:
        """Give back the space of deleted rows; if there is no room to do it, it stays."""
        with suppress(DatabaseError):
            self.execute("VACUUM")
            self._checkpoint()

    def rollback(self) -> None:
        """Give up the transaction, if one is open."""
        with self._lock:
            if self._db.in_transaction:
                self._db.rollback()


class OpenedFile:
    """A catalogue as it was found at its path.

    ``immutable`` says that SQLite must be told to take no locks: it would make its log and index beside the
    file, they are not there, and this user may not write in the folder. SQLite never looks again then, so
    that size and time of the file are watched here, and whether a writer has made a log.
    """

    def __init__(self, path: Path, write: bool) -> None:
        self.path = path
        self._log, self._index = (path.with_name(path.name + ending) for ending in ("-wal", "-shm"))
        self.immutable = not (write or os.access(path.parent, os.W_OK) or self._has_log())
        self._seen = self._look()

    @property
    def inode(self) -> tuple[int, ...]:
        return self._seen[:2]

    def is_in_place(self) -> bool:
        """Whether it is still the file at the path."""
        return self._look()[:2] == self.inode

    def is_current(self) -> bool:
        """Whether it is, and SQLite sees what is in it now; by one call of ``stat``, as a rule."""
        return self._look() == self._seen and not (self.immutable and self._has_log())

    def _has_log(self) -> bool:
        """Whether SQLite finds what it needs, or there is a log that must not be passed over."""
        try:
            return os.stat(self._log).st_size > 0 or self._index.exists()
        except FileNotFoundError:
            return False

    def _look(self) -> tuple[int, ...]:
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            found = self._look_again()
        inode = (found.st_dev, found.st_ino)
        if not self.immutable:
            return inode
        return (*inode, found.st_size, found.st_mtime_ns)

    def _look_again(self) -> os.stat_result:
        """Where nothing is, another database may be in a moment; if not, say what is missing."""
        deadline = time.monotonic() + EXCHANGE_SECONDS
        while True:
            try:
                return os.stat(self.path)
            except (FileNotFoundError, NotADirectoryError):
                if time.monotonic() >= deadline:
                    break
            time.sleep(0.01)
        if not self.path.parent.is_dir():
            raise gone(self.path.parent)
        raise CorruptFile(f"{self.path} is missing; restore it from a copy of the database.")
