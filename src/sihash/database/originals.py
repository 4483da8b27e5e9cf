"""The files that items were made of. They belong to the user; the database only knows where they were."""

from __future__ import annotations

import hashlib
import os
import stat

MAX_BYTES = 64 << 20  # a larger one is not read into memory only to be looked at


def unchanged(path: str, sha256: str) -> bytes | None:
    """The content of a file if it is still what it was; None if it is gone, altered, or too large.

    What lies at the path by now may be anything: a pipe would be waited for, so only plain files are read,
    and nothing is handed out that has another hash.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_BYTES:
                return None
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError):  # gone, not ours to read, or no name for a file
        return None
    return data if hashlib.sha256(data).hexdigest() == sha256 else None


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
