"""Supervised incremental hashing: binary codes for semantic search that follow a changing collection."""

import importlib
from typing import Any

from sihash.hashing import SIH

__version__ = "0.1.0"
__all__ = ["SIH", "ImageDatabase", "__version__"]


def __getattr__(name: str) -> Any:
    """The database is imported when it is asked for: who only hashes need not wait for it."""
    if name == "ImageDatabase":
        return importlib.import_module("sihash.database").ImageDatabase
    raise AttributeError(f"module 'sihash' has no attribute {name!r}")
