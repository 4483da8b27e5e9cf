"""From the labelled items of a database to hash functions: at first, by an update, or anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sihash._typing import Array
from sihash.database import files
from sihash.database.errors import DatabaseError
from sihash.database.progress import Progress
from sihash.database.segments import Places
from sihash.hashing.report import watched_by

if TYPE_CHECKING:
    from sihash.hashing import SIH


ROUNDS = 5  # that learning may take, unless its settings say so


@contextmanager
def told(progress: Progress, max_rounds: int = ROUNDS) -> Iterator[None]:
    """Tell how far learning within a ``with`` block has come: what it does, and its rounds."""

    def tell(phase: str, n_rounds: int) -> None:
        share = 0.2 + 0.8 * n_rounds / max_rounds if phase.startswith("round") else 0.1
        progress(f"learning: {phase}", min(share, 0.99))

    progress("learning", 0.0)
    with watched_by(tell):
        yield
    progress("learning", 1.0)


@dataclass(frozen=True)
class Training:
    """The rows to learn from: ids (ascending) and labels."""

    ids: Array
    labels: list[Any]


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
    from sklearn.base import clone  # not at every start

    try:
        return clone(hasher).fit(X, training.labels, ids=training.ids.tolist())
    except ValueError as error:
        raise DatabaseError(str(error)) from error


def load(root: Path, file: files.Written) -> SIH:
    """The hasher in a file of the database."""
    from sihash.hashing import SIH

    files.check(root, file)
    return SIH.load(root / file.path)


def load_learner(root: Path, file: files.Written, places: Places, width: int) -> SIH:
    """The hasher of a version with all that is needed to go on learning."""
    hasher = load(root, file)
    return hasher.attach_vectors(places.vectors(np.array(hasher.ids_, dtype=np.int64), width))


def update(hasher: SIH, places: Places, width: int, training: Training) -> tuple[SIH, int, int]:
    """Bring a hasher to the present rows in one run: it, and how many rows came and went."""
    known = np.array(hasher.ids_, dtype=np.int64)
    gone = np.setdiff1d(known, training.ids)
    fresh = np.flatnonzero(~np.isin(training.ids, known))
    labels = [training.labels[k] for k in fresh]
    if not len(gone) and not len(fresh):
        return hasher, 0, 0
    ids = training.ids[fresh]
    new = (places.vectors(ids, width), labels, ids.tolist()) if len(ids) else (None, None, None)
    try:
        return hasher.update(*new, remove=gone.tolist()), len(fresh), len(gone)
    except ValueError as error:
        raise DatabaseError(f"The hash functions cannot be updated: {error}") from error
