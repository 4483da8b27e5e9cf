"""Collections from files: images and vectors, labelled or not."""

from typing import TYPE_CHECKING

from sihash._lazy import found_when_asked
from sihash.datasets.dataset import Dataset, Reject

if TYPE_CHECKING:
    from sihash.datasets.loading import load

__all__ = ["Dataset", "Reject", "load"]

__getattr__ = found_when_asked(__name__, {"load": "sihash.datasets.loading"})
