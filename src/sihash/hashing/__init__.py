"""The method of the paper, and its incremental updates."""

from sihash.hashing.sih import SIH
from sihash.hashing.strategies import Change, from_scratch, incremental, passive

__all__ = ["SIH", "Change", "from_scratch", "incremental", "passive"]
