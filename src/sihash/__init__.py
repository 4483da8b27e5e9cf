"""Supervised incremental hashing: binary codes for semantic search that follow a changing collection."""

__version__ = "0.1.0"
