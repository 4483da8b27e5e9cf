"""The folder that the processes of a service share while it runs: counters, progress, sockets.

It goes when the service ends. One that is killed cannot take it away, so the next service does: a folder in
which nobody holds a lock any more belongs to nobody. The first process and every worker hold one, and an
update, which may outlive them all, holds its own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "sihash-service-"
IN_USE = "in-use.lock"


@contextmanager
def run_folder() -> Iterator[str]:
    """A new folder, in use until the end; those that killed services left behind are swept first."""
    parent = _in_memory() or Path(tempfile.gettempdir())
    sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    lock = os.open(folder / f"new-{IN_USE}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.rename(folder / f"new-{IN_USE}", folder / IN_USE)  # whoever sees it sees it locked
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def hold(folder: str) -> int | None:
    """Have the folder in use as long as the file that is given back is open; None if it is no such folder."""
    try:
        lock = os.open(Path(folder) / IN_USE, os.O_RDWR)
    except FileNotFoundError:
        return None
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def sweep(parent: Path) -> None:
    """Delete what services of this user left behind in ``parent``."""
    for folder in parent.glob(f"{PREFIX}*"):
        ours = folder.lstat().st_uid == os.getuid() and (folder / IN_USE).exists()
        if ours and not any(_is_locked(lock) for lock in folder.glob("*.lock")):
            shutil.rmtree(folder, ignore_errors=True)  # which follows no symbolic link


def _is_locked(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDWR)
    except FileNotFoundError:  # swept by another service that starts now
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(lock)


def _in_memory() -> Path | None:
    """A place for what is written all the time, which takes its time on a busy disk."""
    places = (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm")
    return next((Path(place) for place in places if place and os.access(place, os.W_OK | os.X_OK)), None)
