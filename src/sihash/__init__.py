"""Supervised incremental hashing: binary codes for semantic search that follow a changing collection."""

from typing import TYPE_CHECKING, Any

from sihash._lazy import lazy_attributes

if TYPE_CHECKING:
    from sihash.client import Client
    from sihash.database import Database
    from sihash.hashing import SIH

    __version__: str

__all__ = ["SIH", "Client", "Database", "__version__"]

_find = lazy_attributes(
    __name__,
    {"SIH": "sihash.hashing", "Database": "sihash.database", "Client": "sihash.client"},
)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # takes a tenth of the start of a search

        return version("sihash")
    return _find(name)
