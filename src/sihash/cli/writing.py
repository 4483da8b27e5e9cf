"""Files that verbs write: whole, or not there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path`` when all went well; errors name ``path``."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file to write to.")
    # Not the tempfile module: its files are closed to everyone else, these follow the umask.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            yield file
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(f"{path} could not be written: {error.strerror or error}.") from None
    finally:
        with suppress(OSError):
            temporary.unlink()
