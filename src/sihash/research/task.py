"""The data of an experiment: training rows, test rows, and held-out rows cut from the training rows only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sihash._typing import Array, Progress
from sihash.research import data as research_data

FEATURES_OF: dict[str, str | None] = {
    "cifar10": "gist",
    "mnist": "pixels",
    "nuswide": None,
    "digits": "pixels",
}
N_PARTS = 5  # a fold holds out one of these parts


@dataclass(frozen=True)
class Rows:
    """Vectors ``X`` (n × d, float32) and class numbers ``y`` (n)."""

    X: Array
    y: Array

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Array) -> Rows:
        return Rows(self.X[rows], self.y[rows])


@dataclass(frozen=True)
class Task:
    """A data set as the experiments see it. Nothing but a final score may look at ``test``."""

    name: str
    train: Rows
    test: Rows

    @property
    def classes(self) -> Array:
        return np.unique(self.train.y)

    def subset(self, n_train: int | None, seed: int) -> Rows:
        """``n_train`` training rows drawn uniformly, or all of them for None."""
        if n_train is None or n_train >= len(self.train):
            return self.train
        return self.train[np.random.RandomState(seed).permutation(len(self.train))[:n_train]]


def folds(train: Rows, n_folds: int) -> Iterator[tuple[Rows, Rows]]:
    """Pairs (to fit, held out) for choosing parameters, both from the training rows."""
    parts = np.array_split(np.random.RandomState(0).permutation(len(train)), N_PARTS)
    for k in range(n_folds):
        rest = np.concatenate([part for j, part in enumerate(parts) if j != k])
        yield train[rest], train[parts[k]]


def load_task(
    name: str,
    n_train: int | None,
    n_test: int | None,
    progress: Progress | None = None,
    *,
    features: str | None = None,
    several: bool = False,
) -> Task:
    """A data set by name or path, cut to at most ``n_train`` and ``n_test`` rows (a fixed random draw).

    ``features`` are those of images, by default the usual ones of the data set. With ``several``, rows may
    have several labels: ``y`` are then indicators (n × n_labels, 0 and 1).
    """
    data = research_data.load(name, features or _features(name), progress=progress)
    if data.y_train is None or data.y_test is None or (np.ndim(data.y_train) != 1 and not several):
        raise ValueError(f"{name} has no labels, one per row; supervised hashing learns from them.")
    train, test = Rows(data.X_train, data.y_train), Rows(data.X_test, data.y_test)
    if not len(test):
        rest, held_out = next(folds(train, 1))
        train, test = rest, held_out
    return Task(name, _cut(train, n_train), _cut(test, n_test))


def _features(name: str) -> str | None:
    if name in FEATURES_OF:
        return FEATURES_OF[name]
    return None if research_data.read(name).holds_vectors else "gist"


def _cut(rows: Rows, n: int | None) -> Rows:
    if n is not None and n < len(rows):
        rows = rows[np.sort(np.random.RandomState(0).permutation(len(rows))[:n])]
    return Rows(np.ascontiguousarray(rows.X, dtype=np.float32), np.asarray(rows.y))


def available() -> list[str]:
    """The data sets of the paper that are on this machine; the digits of scikit-learn if there is none."""
    found = [
        name for name in ("cifar10", "mnist", "nuswide") if research_data.find(research_data.NAMED[name])
    ]
    return found or ["digits"]
