"""Supervised incremental hashing: binary codes for semantic search that follow a changing collection."""

from sihash.hashing import SIH

__version__ = "0.1.0"
__all__ = ["SIH", "__version__"]
