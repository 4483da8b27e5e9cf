"""A map of the collection: places in the plane at which items of one class lie together.

Two discriminant directions cannot keep 150 classes apart, so the map is made in three steps:

1. A space in which classes differ: the leading directions of a discriminant analysis of the stored vectors,
   z, of unit length. With the scatter W within classes, shrunk towards a multiple of the identity, they are
   the principal directions of the class means in coordinates in which W = 1.
2. Landmarks, the means of near rows of each class (`sihash.anchors`), are laid out in the plane by t-SNE.
3. An item lies at a weighted mean of the landmarks nearest to it, of whatever class. So an item with a wrong
   label lies where it looks like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sihash._typing import Array
from sihash.anchors import class_anchors, shares_of_classes
from sihash.database.answers import Id, LabelSet, Shortened
from sihash.kernel import normalise, row_blocks
from sihash.splitmix import mixed
from sihash.store.errors import DatabaseError
from sihash.store.ids import ids_of_numbers
from sihash.threads import map_threads

if TYPE_CHECKING:
    from sihash.database.snapshot import Snapshot

N_LANDMARKS = 1000  # t-SNE of so many takes two seconds
LEARNED_ROWS = 20_000  # rows that directions and landmarks are found from
SHRINKAGE = 0.3
MOST_DIRECTIONS = 64
NEAREST, STEEPNESS = 4, 4  # landmarks of an item; weights fall with this power of the squared distance
PERPLEXITY, STEPS = 30, 500  # of t-SNE


@dataclass(frozen=True, repr=False)
class Map(Shortened):
    """Items in the plane: ``coordinates`` (n × 2, float32) from −1 to 1, their ``ids`` and ``labels``.

    ``n_items`` counts all items of the collection; the map may show a sample of them.
    """

    version: int
    coordinates: Array
    ids: list[Id]
    labels: list[LabelSet]
    n_items: int

    def plot(self, axes: Any = None) -> Any:
        """Draw it with matplotlib, coloured by class."""
        from sihash.database import plots

        return plots.draw_map(self, axes)


@dataclass(frozen=True)
class Layout:
    """Where items of a ``model`` (the digest of its hash functions) lie: steps 1 and 2.

    Landmarks are at ``landmarks`` in the ``space``, and at ``plane`` (n × 2, from −1 to 1) on the map.
    """

    model: str
    space: Array
    landmarks: Array
    plane: Array


def lay_out(snapshot: Snapshot) -> Layout:
    """The layout of a collection, found from some of its items."""
    numbers = _items(snapshot)
    learned = np.argsort(mixed(numbers), kind="stable")[:LEARNED_ROWS]  # as good as drawn
    space, landmarks = _landmarks(snapshot, numbers[learned], snapshot.places.live_classes()[learned])
    plane = _laid_out(landmarks)
    plane = plane - (plane.min(axis=0) + plane.max(axis=0)) / 2
    plane /= max(float(np.abs(plane).max()), 1e-9)
    return Layout(snapshot.model, space, landmarks, plane)


def project(snapshot: Snapshot, layout: Layout, n: int = 100_000) -> Map:
    """The map of a collection, of at most ``n`` items: the same ones as long as none come or go."""
    numbers = _items(snapshot)
    order = np.argsort(mixed(numbers), kind="stable")  # as good as shuffled
    shown = np.sort(order[:n])
    mean = snapshot.hasher.kernel_.mean

    def place(rows: slice) -> Array:
        X = snapshot.vectors(numbers[shown[rows]])
        return _placed(normalise(X, mean) @ layout.space, layout.landmarks, layout.plane)

    found = np.concatenate(map_threads(place, row_blocks(len(shown))))
    ids = ids_of_numbers(snapshot.catalogue, numbers[shown].tolist())
    return Map(snapshot.version, found, ids, snapshot.labels(numbers[shown]), len(numbers))


def _items(snapshot: Snapshot) -> Array:
    numbers = snapshot.places.live_ids()
    if not len(numbers):
        raise DatabaseError("There is nothing to draw: the database has no items.")
    return numbers


def _landmarks(snapshot: Snapshot, numbers: Array, classes: Array) -> tuple[Array, Array]:
    """The space (width × directions) and the landmarks in it, found from some items."""
    ascending = np.argsort(numbers)
    numbers, classes = numbers[ascending], classes[ascending]
    labelled = classes >= 0
    if labelled.any():
        numbers, classes = numbers[labelled], snapshot.classes.homes(classes[labelled])
    y = np.unique(classes, return_inverse=True)[1]
    X, mean = snapshot.vectors(numbers), snapshot.hasher.kernel_.mean
    space = directions(normalise(X, mean), y)
    shares = shares_of_classes(np.bincount(y), N_LANDMARKS)
    landmarks, _, _ = class_anchors(X, mean, y, shares, "classes", np.random.RandomState(0))
    return space, landmarks @ space


def directions(Z: Array, y: Array) -> Array:
    """Discriminant directions (width × at least two) of rows ``Z`` with class numbers ``y``."""
    from scipy.linalg import cholesky, solve_triangular

    counts = np.bincount(y)
    order = np.argsort(y, kind="stable")
    means = np.add.reduceat(Z[order], np.cumsum(counts) - counts, axis=0) / counts[:, None]
    rest = Z - means[y]
    W = (rest.T @ rest).astype(np.float64) / len(Z)
    round_part = SHRINKAGE * np.trace(W) / len(W) + 1e-9
    L = cholesky((1 - SHRINKAGE) * W + round_part * np.eye(len(W)), lower=True)
    between = np.sqrt(counts)[:, None] * (means - counts @ means / len(Z))
    # Fewer than three classes have fewer than two directions: the rest come from the rows.
    rows = [between] if len(counts) > 2 else [between, 1e-3 * rest[: 10 * MOST_DIRECTIONS]]
    _, _, V = np.linalg.svd(solve_triangular(L, np.concatenate(rows).T, lower=True).T, full_matrices=False)
    found = solve_triangular(L.T, V[: min(MOST_DIRECTIONS, max(2, len(counts) - 1))].T)
    return found.astype(np.float32)


def _laid_out(landmarks: Array) -> Array:
    """Landmarks in the plane (n × 2), always the same for the same landmarks."""
    if len(landmarks) < 4 or landmarks.shape[1] < 2:
        return np.column_stack([landmarks, np.zeros_like(landmarks)])[:, :2]
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity = min(PERPLEXITY, len(landmarks) / 4)
    method: Any = TSNE(init="pca", random_state=0, perplexity=perplexity, max_iter=STEPS)
    with threadpool_limits(1, "openmp"):  # several would add in an order of their own
        return method.fit_transform(landmarks)


def _placed(points: Array, landmarks: Array, plane: Array) -> Array:
    """Where points lie (n × 2), by the landmarks nearest to them."""
    n = min(NEAREST, len(landmarks))
    D = np.square(points).sum(axis=1)[:, None] + np.square(landmarks).sum(axis=1) - 2 * points @ landmarks.T
    near = np.argpartition(D, n - 1, axis=1)[:, :n]
    squares = np.maximum(np.take_along_axis(D, near, axis=1), 1e-6)
    weights = (squares.min(axis=1, keepdims=True) / squares) ** STEEPNESS
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("ij,ijk->ik", weights, plane[near])
