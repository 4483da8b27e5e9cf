"""From the labelled items of a database to hash functions: at first, by an update, or anew."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from sihash._typing import Array
from sihash.database import files
from sihash.database.errors import DatabaseError
from sihash.database.segments import Places
from sihash.hashing import SIH

LEARNED = np.dtype([("id", "<i8"), ("class", "<i4")])


@dataclass(frozen=True)
class Training:
    """The rows to learn from: ids (ascending), class numbers and labels."""

    ids: Array
    classes: Array
    labels: list[Any]

    def record(self) -> Array:
        """What is kept of them: ids, and the classes that they were learned as."""
        rows = np.empty(len(self.ids), dtype=LEARNED)
        rows["id"], rows["class"] = self.ids, self.classes
        return rows


def sample(ids: Array, classes: Array, per_class: int | None, keep: Array) -> Array:
    """Positions to learn from: all, or at most ``per_class`` of each class, those in ``keep`` first."""
    if per_class is None:
        return np.arange(len(ids))
    rng = np.random.RandomState(0)
    known = np.isin(ids, keep)
    chosen = []
    for number in np.unique(classes):
        own = np.flatnonzero(classes == number)
        order = np.concatenate([own[known[own]], rng.permutation(own[~known[own]])])
        chosen.append(order[:per_class])
    return np.sort(np.concatenate([np.empty(0, dtype=np.intp), *chosen]))


def fit(hasher: SIH, places: Places, width: int, training: Training, whole: Array | None = None) -> SIH:
    """Learn from scratch; ``whole`` are the vectors of all items, if somebody has them at hand."""
    n_classes = len(set(training.labels))
    if n_classes < 2:
        raise DatabaseError(
            f"Hash functions are learned from labels of at least two classes; got {n_classes}. "
            "Put images into class folders, or give labels."
        )
    at_hand = whole is not None and len(whole) == len(training.ids)
    X = whole if at_hand else places.vectors(training.ids, width)
    try:
        return clone(hasher).fit(X, training.labels, ids=training.ids.tolist())
    except ValueError as error:
        raise DatabaseError(str(error)) from error


def load_learner(root: Path, file: files.Written, places: Places, width: int) -> SIH:
    """The hasher of a version with all that is needed to go on learning."""
    files.check(root, file)
    hasher = SIH.load(root / file.path)
    return hasher.attach_vectors(places.vectors(np.array(hasher.ids_, dtype=np.int64), width))


def as_learned(training: Training, learned: Array) -> Array:
    """Which of the rows were learned from with the labels that they have now; ``learned`` is a `record`."""
    places = np.minimum(np.searchsorted(learned["id"], training.ids), max(len(learned) - 1, 0))
    if not len(learned):
        return np.zeros(len(training.ids), dtype=bool)
    same = learned[places]
    return (same["id"] == training.ids) & (same["class"] == training.classes)


def update(
    hasher: SIH, places: Places, width: int, training: Training, learned: Array
) -> tuple[SIH, int, int]:
    """Bring a hasher to the present rows in one run: it, and how many rows came and went.

    ``learned`` is the `record` of the rows that it knows. One with another label goes and comes.
    """
    known = np.array(hasher.ids_, dtype=np.int64)
    fresh = np.flatnonzero(~as_learned(training, learned))
    gone = np.setdiff1d(known, np.delete(training.ids, fresh))
    labels = [training.labels[k] for k in fresh]
    if not len(gone) and not len(fresh):
        return hasher, 0, 0
    ids = training.ids[fresh]
    new = (places.vectors(ids, width), labels, ids.tolist()) if len(ids) else (None, None, None)
    try:
        return hasher.update(*new, remove=gone.tolist()), len(fresh), len(gone)
    except ValueError as error:
        raise DatabaseError(f"The hash functions cannot be updated: {error}") from error
