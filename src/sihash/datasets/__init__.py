"""Collections from files: images and vectors, labelled or not."""

from typing import TYPE_CHECKING

from sihash._lazy import lazy_attributes
from sihash.datasets.dataset import Dataset, Reject

if TYPE_CHECKING:
    from sihash.datasets.loading import load

__all__ = ["Dataset", "Reject", "load"]

__getattr__ = lazy_attributes(__name__, {"load": "sihash.datasets.loading"})
