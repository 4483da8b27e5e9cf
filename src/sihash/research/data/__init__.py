"""The data sets of the experiments, by name or in their official files; everything else as
`sihash.datasets`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sihash._typing import Progress
from sihash.datasets import Dataset, loading
from sihash.datasets.dataset import Collection
from sihash.datasets.files import open_tree
from sihash.research.data import cifar10, idx, nuswide
from sihash.research.data.places import NAMED, fetch, find

__all__ = ["NAMED", "fetch", "find", "load", "read"]


def load(
    source: str | os.PathLike[str],
    features: str | None = None,
    *,
    labels: str | os.PathLike[str] | None = None,
    cache: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> Dataset:
    """Load ``cifar10``, ``mnist``, ``nuswide`` or ``digits``, or a path; parameters as in
    `sihash.datasets.load`.

    A named data set is searched in ``SIHASH_DATA``, then in the user's cache, and downloaded otherwise. A
    path may also hold IDX files, CIFAR-10 batches or NUS-WIDE; ``labels`` "81" or "21" takes all images of
    the latter with their labels among the 81 or 21, as an indicator matrix.
    """
    collection = read(source, labels, progress)
    return loading.dataset_of(collection, source, features, cache=cache, progress=progress, **options)


def read(
    source: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    *,
    mapped: bool = False,
) -> Collection:
    """The collection as it is found; images are not decoded yet."""
    if isinstance(source, str) and source in NAMED and source != "digits":
        source = fetch(source, progress=progress)
    path = Path(source).expanduser()
    if not path.exists() and source != "digits":
        raise FileNotFoundError(
            f"There is nothing at {path}; give a path, or one of the names {', '.join(NAMED)}."
        )
    tree = open_tree(path) if path.exists() else None
    if tree is not None and nuswide.recognise(tree):
        return nuswide.read(tree, str(labels) if labels else None)
    for kind in (cifar10, idx):
        if tree is not None and kind.recognise(tree):
            return kind.read(tree)
    return loading.read(source, labels, mapped=mapped)
