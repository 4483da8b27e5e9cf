"""Supervised incremental hashing: binary codes for semantic search that follow a changing collection."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from sihash._lazy import lazy_attributes

if TYPE_CHECKING:
    from sihash.client import Client
    from sihash.database import Database
    from sihash.hashing import SIH

__version__ = version("sihash")
__all__ = ["SIH", "Client", "Database", "__version__"]

__getattr__ = lazy_attributes(
    __name__,
    {"SIH": "sihash.hashing", "Database": "sihash.database", "Client": "sihash.client"},
)
