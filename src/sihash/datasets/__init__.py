"""Data sets by name or path: images and vectors, labelled or not."""

from sihash.datasets.dataset import Dataset, Reject
from sihash.datasets.loading import load
from sihash.datasets.places import NAMED, fetch, find

__all__ = ["NAMED", "Dataset", "Reject", "fetch", "find", "load"]
