"""What can be wrong with a database, each told in one sentence."""

from __future__ import annotations

from pathlib import Path


class DatabaseError(ValueError):
    """A request that cannot be met; the database is as it was before."""


class NoSuchItem(DatabaseError):
    """An id or a class that the collection does not have."""


class IdTaken(DatabaseError):
    """An id under which the collection has another item; it is named in the message."""


class DatabaseBusy(DatabaseError):
    """Another process is writing; its number is in the message."""


class CorruptFile(DatabaseError):
    """A file that is missing, cut short or altered; it is named in the message."""


def gone(root: Path) -> DatabaseError:
    """The folder of an open database is not there."""
    return DatabaseError(f"{root} is gone: the folder was moved or deleted; open the database where it is.")
