"""The method of the paper, and its incremental updates."""

from typing import TYPE_CHECKING

from sihash._lazy import lazy_attributes

if TYPE_CHECKING:
    from sihash.hashing.sih import SIH
    from sihash.hashing.strategies import from_scratch, incremental, passive
    from sihash.hashing.training import Change

__all__ = ["SIH", "Change", "from_scratch", "incremental", "passive"]

# A search needs `hash_functions`, an update `training`; the estimator brings scikit-learn with it.
__getattr__ = lazy_attributes(
    __name__,
    {
        "SIH": "sihash.hashing.sih",
        "Change": "sihash.hashing.training",
        "from_scratch": "sihash.hashing.strategies",
        "incremental": "sihash.hashing.strategies",
        "passive": "sihash.hashing.strategies",
    },
)
