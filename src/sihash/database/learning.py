"""From the labelled items of a database to hash functions: at first, by an update, or again from scratch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from sihash._typing import Array, Progress
from sihash.codes import n_bytes
from sihash.database.answers import LabelSet
from sihash.hashing.hash_functions import HashFunctions
from sihash.hashing.report import watched_by
from sihash.hashing.training_sample import Budget, class_rates, in_sample
from sihash.kernel import row_blocks
from sihash.ranking import Sketcher
from sihash.store import files
from sihash.store.catalogue import Catalogue
from sihash.store.errors import DatabaseError
from sihash.store.files import MODELS_FOLDER, MappedArray, Written
from sihash.store.labels import LabelTable
from sihash.store.segments import Places, Segment

if TYPE_CHECKING:
    from sihash.hashing import SIH
    from sihash.hashing.training import Training as Learner

SAMPLE = "sample"  # the kind of file that holds training vectors
SAMPLE_SHARE = 0.1  # of the items: when more are learned from, their vectors are not kept twice
ENCODED_ROWS = 1 << 15  # hashed at a time
LEARNED = np.dtype([("id", "<i8"), ("class", "<i4")])
ROUNDS = 5  # that learning may take, unless its settings say so


@contextmanager
def told(progress: Progress, max_rounds: int = ROUNDS) -> Iterator[None]:
    """Tell how far learning within a ``with`` block has come: what it does, and its rounds."""

    def tell(phase: str, n_rounds: int) -> None:
        share = 0.2 + 0.8 * n_rounds / max_rounds if phase.startswith("round") else 0.1
        progress(f"learning: {phase}", min(share, 0.99))

    with watched_by(tell):
        yield


@dataclass(frozen=True)
class Training:
    """The rows to learn from: ids (ascending), class numbers and label sets."""

    ids: Array
    classes: Array
    labels: list[LabelSet]

    @property
    def n_labels(self) -> int:
        return len({label for own in self.labels for label in own})

    def record(self) -> Array:
        """What is kept of them: ids, and the class numbers that they were learned as."""
        rows = np.empty(len(self.ids), dtype=LEARNED)
        rows["id"], rows["class"] = self.ids, self.classes
        return rows


def training_of(ids: Array, numbers: Array, table: LabelTable, budget: Budget) -> Training:
    """The labelled ones of some items, or of many a fair sample."""
    ids, numbers = ids[numbers >= 0], numbers[numbers >= 0]
    chosen = sample(ids, table.homes(numbers), budget)
    return Training(ids[chosen], numbers[chosen], [table[k] for k in numbers[chosen].tolist()])


def sample(ids: Array, classes: Array, budget: Budget) -> Array:
    """Positions to learn from: all, or a fair share of each class (`sihash.hashing.training_sample`)."""
    rates = class_rates(np.bincount(classes, minlength=1), budget)
    return np.flatnonzero(in_sample(ids, classes, rates))


def fit(hasher: SIH, X: Array, training: Training) -> Learner:
    """Learn from scratch, from all of these rows: the database has drawn the sample."""
    n_classes = training.n_labels
    if n_classes < 2:
        raise DatabaseError(
            f"Hash functions are learned from labels of at least two classes; got {n_classes}. "
            "Put images into class folders, or give labels."
        )
    from sklearn.base import clone  # not at every start

    try:
        whole = clone(hasher).set_params(training_rows="all")
        learned = whole.fit(X, list(map(list, training.labels)), ids=training.ids.tolist()).training_
        assert learned is not None
        return learned
    except ValueError as error:
        raise DatabaseError(str(error)) from error


def as_learned(training: Training, learned: Array) -> Array:
    """Which of the rows were learned from with the labels that they have now; ``learned`` is a `record`."""
    places = np.minimum(np.searchsorted(learned["id"], training.ids), max(len(learned) - 1, 0))
    if not len(learned):
        return np.zeros(len(training.ids), dtype=bool)
    same = learned[places]
    return (same["id"] == training.ids) & (same["class"] == training.classes)


def update(learner: Learner, X: Array, training: Training, learned: Array) -> tuple[Learner, int, int]:
    """Bring a training to the present rows ``X`` in one run: it, and how many rows came and went.

    ``learned`` is the `record` of the rows that it knows. One with another label goes and comes.
    """
    from sihash.hashing.training import Change  # not at every start

    known = np.array(learner.ids, dtype=np.int64)
    fresh = np.flatnonzero(~as_learned(training, learned))
    gone = np.setdiff1d(known, np.delete(training.ids, fresh))
    labels = [list(training.labels[k]) for k in fresh]
    if not len(gone) and not len(fresh):
        return learner, 0, 0
    change = Change(remove_ids=gone.tolist())
    if len(fresh):
        change = replace(change, X=X[fresh], y=labels, ids=training.ids[fresh].tolist())
    try:
        return learner.after(change), len(fresh), len(gone)
    except ValueError as error:
        raise DatabaseError(f"The hash functions cannot be updated: {error}") from error


# Where items are many more than training rows, those rows lie scattered over all segments, a page or more of
# the disk for each. So their vectors are also kept together, in one file: a sample, written again when it is
# missing or has become too old. As the vector of an item never changes, a sample written by any version is
# right for every other.


def sample_type(width: int) -> np.dtype:
    return np.dtype([("id", "<i8"), ("vector", "<f4", (width,))])


def training_vectors(root: Path, catalogue: Catalogue, places: Places, ids: Array, width: int) -> Array:
    """Vectors of items (ids ascending), from the copy where it has them, else from the segments."""
    kept = _sample(root, catalogue)
    if kept is None:
        return places.vectors(ids, width, release=True)
    X = np.empty((len(ids), width), dtype=np.float32)
    there = np.isin(ids, kept["id"])
    X[there] = kept["vector"][np.searchsorted(kept["id"], ids[there])]
    X[~there] = places.vectors(ids[~there], width, release=True)
    return X


def write_sample_if_needed(
    root: Path, catalogue: Catalogue, version: int, ids: Array, X: Array, n_items: int, share: float
) -> Written | None:
    """A new sample of the rows that a version was learned from, if there is none with a ``share`` of them."""
    if len(ids) > SAMPLE_SHARE * n_items:
        return None  # the segments are soon read
    kept = _sample(root, catalogue)
    if kept is not None and np.isin(ids, kept["id"]).mean() >= share:
        return None
    rows = np.empty(len(ids), dtype=sample_type(X.shape[1]))
    rows["id"], rows["vector"] = ids, X
    name = files.unique_name(f"{files.MODELS_FOLDER}/{version:06d}.{SAMPLE}", files.MAPPED)
    return files.write_mapped(root, name, rows.shape, rows.dtype, [rows])


def _sample(root: Path, catalogue: Catalogue) -> Array | None:
    """The copy, every byte checked; None where there is none, or somebody took it away."""
    for _, _, _, file in catalogue.files("kind = ?", (SAMPLE,)):
        if (root / file.path).exists():
            return np.asarray(MappedArray(root, file))
    return None


def sample_has_any(root: Path, catalogue: Catalogue, ids: Array) -> bool:
    """Whether the copy holds vectors of some of these items."""
    kept = _sample(root, catalogue)
    return kept is not None and bool(np.isin(ids, kept["id"]).any())


def write_sketcher(root: Path, sketcher: Sketcher) -> Written:
    """The file that says how sketches are made; one for the life of a database."""
    rows = sketcher.to_array()
    name = files.unique_name(f"{MODELS_FOLDER}/{0:06d}.sketcher", "npy")
    return files.write_array(root, name, rows.shape, np.float32, [rows])


def write_models(root: Path, learner: Learner, version: int, learned: Array) -> dict[str, Written]:
    """Files that are not in the catalogue yet: what searches need, what the next update needs, and ids and
    classes of the training rows.
    """
    stem = f"{MODELS_FOLDER}/{version:06d}"
    hashes, state = (
        files.unique_name(f"{stem}.{kind}", "safetensors") for kind in ("hash", "training-state")
    )
    training = files.unique_name(f"{stem}.training", "npy")
    return {
        "hash": files.write_model(root, hashes, learner.functions()),
        "training-state": files.write_model(root, state, learner, vectors=False),
        "training": files.write_array(root, training, learned.shape, learned.dtype, [learned]),
    }


class Encoder:
    """Hashes vectors, unless the codes of their items are known already: ``ids`` (ascending), ``codes``."""

    def __init__(self, hasher: HashFunctions, ids: Array | None = None, codes: Array | None = None) -> None:
        self.hasher = hasher
        width = n_bytes(hasher.n_bits)
        self._ids = np.empty(0, dtype=np.int64) if ids is None else ids
        self._codes = np.empty((0, width), dtype=np.uint8) if codes is None else codes

    @classmethod
    def after_learning(cls, learner: Learner) -> Self:
        """Learning has left the codes of the items that it learned from."""
        codes, certain = learner.hashes()
        ids = np.array(learner.ids, dtype=np.int64)[certain]
        order = np.argsort(ids)
        return cls(learner.functions(), ids[order], codes[certain][order])

    def codes(self, segment: Segment) -> Array:
        """Packed codes of all items of a segment, n × n_bytes."""
        codes = np.empty((len(segment.ids), self._codes.shape[1]), dtype=np.uint8)
        places = np.minimum(self._ids.searchsorted(segment.ids), max(len(self._ids) - 1, 0))
        known = self._ids[places] == segment.ids if len(self._ids) else np.zeros(len(codes), dtype=bool)
        codes[known] = self._codes[places[known]]
        unknown = np.flatnonzero(~known)
        for part in row_blocks(len(unknown), ENCODED_ROWS):
            rows = unknown[part]
            codes[rows] = self.hasher.transform(segment.vectors[rows])
        return codes
