"""Files that are whole or not there, whatever happens while they are written.

A file is written beside its place, as ``.NAME.XXXXXXXX.part``, and locked meanwhile. A process that is killed
leaves that behind; whoever writes NAME next deletes it.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # pragma: no cover  # Windows
    fcntl = None  # type: ignore[assignment]

_PART = ".part"


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path``, on the disk, when all went well.

    Errors name ``path``.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file to write to.")
    # Not the tempfile module: its files are closed to everyone else, these follow the umask.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_PART}")
    try:
        _sweep(path)
        with open(temporary, "xb") as file:
            _lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise type(error)(f"{path} could not be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _sweep(path: Path) -> None:
    """Delete what killed writers of ``path`` left beside it."""
    form = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{8}" + re.escape(_PART))
    for name in os.listdir(path.parent):
        if form.fullmatch(name):
            with suppress(OSError), open(path.with_name(name), "rb") as file:  # another is writing to it
                _lock(file)
                path.with_name(name).unlink()


def _lock(file: BinaryIO) -> None:
    """Until it is closed; OSError if another process has done so."""
    if fcntl is not None:  # Windows does not delete files that are open
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def sync_folder(folder: Path) -> None:
    """Bring the names of the files in a folder to the disk."""
    if os.name == "nt":  # directories cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
