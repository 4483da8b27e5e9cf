"""Supervised incremental hashing: binary codes for semantic search that follow a changing collection."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sihash.client import Client
    from sihash.database import ImageDatabase
    from sihash.hashing import SIH

__version__ = "0.1.0"
__all__ = ["SIH", "Client", "ImageDatabase", "__version__"]

# Found when first asked for: `sihash --help` and shell completion need none of them, and they take seconds.
_HOMES = {"SIH": "sihash.hashing", "ImageDatabase": "sihash.database", "Client": "sihash.client"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sihash' has no attribute {name!r}")
