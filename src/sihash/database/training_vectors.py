"""The vectors that an update learns from, without reading the whole collection.

Where items are more than training rows, those rows lie scattered over all segments, and a segment is checked
whole before the first of its vectors is used. So their vectors are also kept together, in a file of their
own: a copy, which is bounded by ``training_rows`` and made again when it is missing or has become too old.
The vector of an id never changes, so a copy made by any version is right for every other.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sihash._typing import Array
from sihash.store import files
from sihash.store.catalogue import Catalogue
from sihash.store.files import Written
from sihash.store.segments import Places

KIND = "sample"
FRESH = 0.9  # of the rows to learn from that the copy has, or it is written again


def sample_type(width: int) -> np.dtype:
    return np.dtype([("id", "<i8"), ("vector", "<f4", (width,))])


def read(root: Path, catalogue: Catalogue, places: Places, ids: Array, width: int) -> Array:
    """Vectors of items (ids ascending), from the copy where it has them, else from the segments."""
    kept = _copy(root, catalogue)
    if kept is None:
        return places.vectors(ids, width)
    X = np.empty((len(ids), width), dtype=np.float32)
    there = np.isin(ids, kept["id"])
    X[there] = kept["vector"][np.searchsorted(kept["id"], ids[there])]
    X[~there] = places.vectors(ids[~there], width)
    return X


def write_if_needed(
    root: Path, catalogue: Catalogue, version: int, ids: Array, X: Array, n_items: int
) -> Written | None:
    """A new copy for the rows that a version was learned from, if it takes one."""
    if len(ids) >= n_items:
        return None  # everything is learned from: the segments hold it already
    kept = _copy(root, catalogue)
    if kept is not None and np.isin(ids, kept["id"]).mean() >= FRESH:
        return None
    rows = np.empty(len(ids), dtype=sample_type(X.shape[1]))
    rows["id"], rows["vector"] = ids, X
    name = files.unique_name(f"{files.MODELS_FOLDER}/{version:06d}.{KIND}", "npy")
    return files.write_array(root, name, rows.shape, rows.dtype, [rows])


def _copy(root: Path, catalogue: Catalogue) -> Array | None:
    """The copy, every byte checked; None where there is none, or somebody took it away."""
    for _, _, _, file in catalogue.files("kind = ?", (KIND,)):
        if (root / file.path).exists():
            return files.map_array(root, file)
    return None


def has_any(root: Path, catalogue: Catalogue, ids: Array) -> bool:
    """Whether the copy holds vectors of some of these items."""
    kept = _copy(root, catalogue)
    return kept is not None and bool(np.isin(ids, kept["id"]).any())
