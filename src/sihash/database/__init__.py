"""A collection on disk that is always searchable, follows as it changes, and is never lost."""

from sihash.database.database import ImageDatabase
from sihash.database.errors import CorruptFile, DatabaseBusy, DatabaseError, IdTaken, NoSuchItem
from sihash.database.inspecting import verify

__all__ = ["CorruptFile", "DatabaseBusy", "DatabaseError", "IdTaken", "ImageDatabase", "NoSuchItem", "verify"]
