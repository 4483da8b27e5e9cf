"""Copies of a database, made beside its writers: a folder that is brought up to date, or a tar archive.

A copy is what one moment's catalogue says. Files never change and are never named twice, so a file that the
copy has already is not copied again. The catalogue comes last, in one rename: a copy that is interrupted is
still the one before. Meanwhile additions go on; what deletes files (updates, compactions) waits.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sihash.store import files
from sihash.store.atomic_file import sync_folder, whole_file
from sihash.store.catalogue import FILE, Catalogue, refuse_missing
from sihash.store.errors import DatabaseError
from sihash.store.files import MODELS_FOLDER, SEGMENTS_FOLDER, Written
from sihash.store.locks import locked
from sihash.store.writer import UNFINISHED, UPDATER, WRITER, disk_errors_told, new_folder, strays

PATIENCE = 3600.0  # seconds, for an update to end
BLOCK = 512  # bytes: the unit of tar
MEMBER = re.compile(rf"({SEGMENTS_FOLDER}|{MODELS_FOLDER})/[\w.-]+|{re.escape(FILE)}", re.ASCII)


@dataclass(frozen=True)
class Copied:
    """What a backup has done: the operation that it reaches to, files copied and their bytes, files that
    were there already.
    """

    operation: int
    n_copied: int
    n_bytes: int
    n_kept: int


@dataclass(frozen=True)
class _Moment:
    """A database at one moment: a copy of its catalogue, and the files that this names."""

    operation: int
    catalogue: Path
    files: list[Written]


@contextmanager
def _held(root: Path, folder: Path, patience: float) -> Iterator[_Moment]:
    """A moment of a database, none of whose files is deleted before the end. The copy of its catalogue lies
    in ``folder``, and goes at the end unless it was given another name.
    """
    lock: AbstractContextManager[None] = nullcontext()  # nobody writes in a folder that is read-only
    if os.access(root, os.W_OK):
        lock = locked(root / UPDATER, "is updating or copying it", patience)
    for left in folder.glob(UNFINISHED):  # by one that was killed
        left.unlink(missing_ok=True)
    copy = folder / UNFINISHED.replace("*", secrets.token_hex(4))
    with lock, closing(Catalogue(root)) as catalogue:
        try:
            with catalogue.snapshot():
                operation = catalogue.last_operation()  # the first look decides which moment it is
                catalogue.copy_to(copy)
                named = [file for *_, file in catalogue.files()]
            if not operation:
                raise DatabaseError(f"The creation of {root} never finished; create it again.")
            yield _Moment(operation, copy, named)
        finally:
            copy.unlink(missing_ok=True)


def back_up(root: Path, target: Path, patience: float = PATIENCE) -> Copied:
    """Bring a copy of a database up to date, or make it where nothing is. Every byte copied is checked."""
    refuse_missing(root)
    is_new = not (target / FILE).exists()
    with (
        new_folder(target) if is_new else nullcontext(),
        disk_errors_told(target),
        locked(target / WRITER, "is writing to it"),
        _held(root, target, patience) as moment,
    ):
        if not is_new:
            _check_earlier(root, target)
        missing = [file for file in moment.files if not _is_there(target, file)]
        for file in missing:
            with _opened(root, file) as original, whole_file(target / file.path) as out:
                shutil.copyfileobj(original, out, files.CHUNK)
            _check_copied(target, file)
        with open(moment.catalogue, "rb+") as copy:
            os.fsync(copy.fileno())
        moment.catalogue.replace(target / FILE)
        sync_folder(target)
        with closing(Catalogue(target)) as now:
            now.check()
            for path in strays(target, now):
                path.unlink(missing_ok=True)
    n_bytes = sum(file.size for file in missing)
    return Copied(moment.operation, len(missing), n_bytes, len(moment.files) - len(missing))


def _check_earlier(root: Path, target: Path) -> None:
    """Refuse to write over anything but an earlier state of the same database."""
    with closing(Catalogue(root)) as catalogue, closing(Catalogue(target)) as other:
        last = other.last_operation()
        same = [each.rows("operations", "number = ?", (last,)) for each in (catalogue, other)]
    if same[0] != same[1]:
        raise DatabaseError(
            f"{target} holds no earlier state of {root}, but another database, or changes of its own; choose "
            "a new folder."
        )


def _check_copied(target: Path, file: Written) -> None:
    try:
        files.check(target, file)
    except DatabaseError:
        (target / file.path).unlink(missing_ok=True)  # the next backup would take it for whole
        raise


def _is_there(target: Path, file: Written) -> bool:
    """Names are used once: what has this name and size is this file, whole as `whole_file` left it."""
    try:
        return (target / file.path).stat().st_size == file.size
    except FileNotFoundError:
        return False


def _opened(root: Path, file: Written) -> BinaryIO:
    try:
        return open(root / file.path, "rb")
    except FileNotFoundError:
        files.check(root, file)  # which says so
        raise


# Archives.


@dataclass
class Archive:
    """A tar archive of a database: its size in bytes, and the pieces that it consists of."""

    size: int
    pieces: Iterator[bytes]


@contextmanager
def archived(root: Path) -> Iterator[Archive]:
    """A database as an archive; the catalogue is the last of its files."""
    refuse_missing(root)
    folder = root if os.access(root, os.W_OK) else Path(tempfile.gettempdir())
    with _held(root, folder, 0.0) as moment:
        members = [(root / file.path, file.path, file.size) for file in moment.files]
        members.append((moment.catalogue, FILE, moment.catalogue.stat().st_size))
        size = sum(BLOCK + size + -size % BLOCK for *_, size in members) + 2 * BLOCK
        yield Archive(size, _pieces(members))


def _pieces(members: list[tuple[Path, str, int]]) -> Iterator[bytes]:
    for path, name, size in members:
        about = tarfile.TarInfo(name)
        about.size, about.mode = size, 0o644
        yield about.tobuf(tarfile.USTAR_FORMAT)
        with open(path, "rb") as file:
            while chunk := file.read(files.CHUNK):
                yield chunk
        yield bytes(-size % BLOCK)
    yield bytes(2 * BLOCK)


def restore(backup: Path, root: Path) -> Copied:
    """Make a database of a copy, in a new or empty folder; every byte is checked."""
    if backup.is_dir():
        if (root / FILE).exists():
            raise DatabaseError(f"{root} is there already and is not empty; choose another place.")
        return back_up(backup, root)
    with new_folder(root):
        try:
            with tarfile.open(backup, "r|*") as archive:
                _unpack(archive, root)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise DatabaseError(f"{backup} is no whole archive of a database: {error}.") from None
        try:
            with closing(Catalogue(root)) as catalogue, catalogue.snapshot():
                catalogue.check()
                named = [file for *_, file in catalogue.files()]
                for file in named:
                    files.check(root, file)
                return Copied(catalogue.last_operation(), len(named), sum(file.size for file in named), 0)
        except DatabaseError:
            (root / FILE).unlink(missing_ok=True)  # so that it is no database, and goes
            raise


def _unpack(archive: tarfile.TarFile, root: Path) -> None:
    """Only plain files with names of ours; the catalogue gets its name when all others are there."""
    for member in archive:
        content = archive.extractfile(member) if member.isreg() and MEMBER.fullmatch(member.name) else None
        if content is None:
            raise DatabaseError(f"The archive holds {member.name[:80]!r}, which belongs to no database.")
        with suppress(FileNotFoundError):
            (root / member.name).unlink()
        with whole_file(root / member.name) as out:
            shutil.copyfileobj(content, out, files.CHUNK)
        if member.name == FILE:
            return
    raise DatabaseError("The archive ends before the catalogue, the last of its files.")
