"""A collection on disk that is always searchable, follows as it changes, and is never lost."""

from sihash.database.database import ImageDatabase
from sihash.database.errors import CorruptFile, DatabaseBusy, DatabaseError

__all__ = ["CorruptFile", "DatabaseBusy", "DatabaseError", "ImageDatabase"]
