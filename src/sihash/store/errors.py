"""Errors of a database. Each message is one sentence."""

from __future__ import annotations

from pathlib import Path


class DatabaseError(ValueError):
    """A request that cannot be fulfilled. The database is unchanged."""


class NoSuchItem(DatabaseError):
    """An id or a class that does not exist."""


class IdTaken(DatabaseError):
    """An id that another item already has. The message names it."""


class DatabaseBusy(DatabaseError):
    """Another process is writing. The message names it."""


class CorruptFile(DatabaseError):
    """A file that is missing, truncated or altered. The message names it."""


def gone(root: Path) -> DatabaseError:
    """The folder of an open database has disappeared."""
    return DatabaseError(
        f"{root} no longer exists: the folder was moved or deleted; open the database at its new place."
    )
