"""Files that are whole or not there, whatever happens while they are written."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path``, on the disk, when all went well.

    Errors name ``path``.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file to write to.")
    # Not the tempfile module: its files are closed to everyone else, these follow the umask.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
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


def sync_folder(folder: Path) -> None:
    """Bring the names of the files in a folder to the disk."""
    if os.name == "nt":  # directories cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
