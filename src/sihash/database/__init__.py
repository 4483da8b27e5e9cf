"""A collection on disk that is always searchable, follows as it changes, and is never lost."""

from typing import TYPE_CHECKING

from sihash._lazy import lazy_attributes
from sihash.store.errors import CorruptFile, DatabaseBusy, DatabaseError, IdTaken, NoSuchItem

if TYPE_CHECKING:
    from sihash.database.database import Database
    from sihash.database.inspection.inspecting import verify

__all__ = ["CorruptFile", "Database", "DatabaseBusy", "DatabaseError", "IdTaken", "NoSuchItem", "verify"]

__getattr__ = lazy_attributes(
    __name__, {"Database": "sihash.database.database", "verify": "sihash.database.inspection.inspecting"}
)
