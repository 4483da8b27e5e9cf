"""The method of the paper, and its incremental updates."""

from sihash.hashing.sih import SIH

__all__ = ["SIH"]
