"""Which class an item is of, by what has never seen its label: hash functions and neighbours.

The hash functions in force were learned from the labels that are in question, wrong ones among them. So the
labelled items are dealt into folds, and each is judged by hash functions learned from the other folds. Then
its nearest items vote, itself left out. Both are mixed as the ranking mixes them (`sihash.ranking.score`), by
weights under which the labels there are, most of them right, are likeliest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.database import learning, searching
from sihash.database.snapshot import Snapshot
from sihash.ranking import fit_weights
from sihash.ranking.ranker import Query
from sihash.ranking.score import SMALLEST, Candidates, ItemLabels, class_log_probabilities, votes
from sihash.threads import map_threads

FOLDS = 3  # with eight it finds as many wrong labels in three times the time (docs/doctor.md)
SMALLEST_CLASS = 5  # items of a class to learn it from
MOST_EXAMINED, MOST_NUMBERS = 100_000, 50_000_000  # items, and their class probabilities
MOST_LEARNED = 30_000  # items that a fold's hash functions learn from, or SMALLEST_CLASS of each class
MOST_ASKED = 20_000  # items whose neighbours are asked
N_WEIGHED = 2000  # items to find the weights on
NEAREST = 10  # neighbours that the reasons speak of
BATCH_ITEMS = 4096  # items whose vectors are read at a time


@dataclass(frozen=True)
class Examined:
    """Labelled items (ids ascending) of ``classes``, places of labels; ``has`` says which of these each has.

    ``proba`` (n × n_classes) is by hash functions that did not see them, float32.
    """

    ids: Array
    has: Array  # n × n_classes, bool
    classes: Array
    proba: Array

    def labels(self, rows: Array) -> ItemLabels:
        """Of some of the items."""
        has = self.has[rows]
        return ItemLabels(np.nonzero(has)[1], has.sum(axis=1))


@dataclass(frozen=True)
class Neighbours:
    """The nearest items of one: ids and cosines, nearest first, and what the labelled candidates say."""

    ids: Array
    cosines: Array
    labelled: Candidates


def examine(snapshot: Snapshot) -> Examined | None:
    """Class probabilities of labelled items, or of a sample; None if there are no two classes to learn."""
    ids, numbers = snapshot.places.live_ids(), snapshot.places.live_classes()
    classes = np.flatnonzero(snapshot.classes.sizes(numbers) >= SMALLEST_CLASS)
    if len(classes) < 2:
        return None
    learnable = np.flatnonzero(np.isin(numbers, snapshot.classes.holding(_labels(snapshot, classes))))
    rows = learnable[some(len(learnable), min(MOST_EXAMINED, MOST_NUMBERS // len(classes)))]
    ids, has = ids[rows], snapshot.classes.indicators(numbers[rows])[:, classes]
    sizes = has.sum(axis=0)
    if sizes.min() < SMALLEST_CLASS:  # the sample has left too little of a class
        kept = np.flatnonzero(sizes >= SMALLEST_CLASS)
        has, classes = has[:, kept], classes[kept]
        left = has.any(axis=1)
        ids, has = ids[left], has[left]
    return Examined(ids, has, classes, _cross_validated(snapshot, ids, has))


def _labels(snapshot: Snapshot, places: Array) -> list[str | int]:
    return [snapshot.classes.labels[place] for place in places]


def some(n: int, most: int) -> Array:
    """Places in ascending order: all, or ``most`` drawn with one seed."""
    return np.arange(n) if n <= most else np.sort(np.random.RandomState(0).choice(n, most, replace=False))


def _cross_validated(snapshot: Snapshot, ids: Array, has: Array) -> Array:
    proba = np.zeros(has.shape, dtype=np.float32)
    y = np.where(has, has.sum(axis=0), len(has) + 1).argmin(axis=1)  # the rarest label stands for an item
    from sklearn.base import clone  # not at every start

    from sihash.hashing.training import Training

    fold, estimator = _folds(y), snapshot.estimator()
    sampled = np.zeros(len(ids), dtype=bool)
    sampled[learning.sample(ids, y, MOST_LEARNED)] = True
    for own in range(FOLDS):
        rows = sampled & (fold != own)
        hasher = clone(estimator).set_params(
            n_anchors=min(estimator.n_anchors, int(rows.sum())), codebook="learned"
        )
        hasher.fit(snapshot.vectors(ids[rows]), [np.flatnonzero(own).tolist() for own in has[rows]])
        assert isinstance(hasher.training_, Training)
        hasher.training_.take_weights(snapshot.hasher.class_model().spread)
        for part in np.array_split(np.flatnonzero(fold == own), 1 + len(ids) // MOST_ASKED):
            if len(part):
                proba[np.ix_(part, hasher.classes_)] = hasher.predict_proba(snapshot.vectors(ids[part]))
    return proba


def _folds(y: Array) -> Array:
    """A fold for every item, such that each has its share of every class."""
    order = np.random.RandomState(0).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = np.arange(len(y)) % FOLDS
    return fold


def neighbours(snapshot: Snapshot, ids: Array, classes: Array) -> list[Neighbours]:
    """The nearest other items of each, by the searches of the database."""
    position = np.full(len(snapshot.classes.labels), -1)
    position[classes] = np.arange(len(classes))
    ranker = snapshot.exact_ranker

    def one(query: Query) -> Neighbours:
        found = ranker.candidates(query)
        cosines = ranker.cosines_of(query.vector, found)
        order = np.lexsort((found, -cosines))
        found, cosines = found[order], cosines[order]
        flat, counts = snapshot.classes.apart(snapshot.places.classes(found))
        own, items = position[flat], np.repeat(np.arange(len(found)), counts)
        counts = np.bincount(items[own >= 0], minlength=len(found))
        labels = ItemLabels(own[own >= 0], counts[counts > 0])
        labelled = Candidates(cosines[counts > 0], labels, np.empty((0, 0)))
        return Neighbours(found[:NEAREST], cosines[:NEAREST], labelled)

    out: list[Neighbours] = []
    for part in np.array_split(ids, 1 + len(ids) // BATCH_ITEMS) if len(ids) else []:
        X = snapshot.vectors(part)
        queries = zip(searching.margins(snapshot, X), X, part.tolist(), strict=True)
        out += map_threads(one, [Query(*each) for each in queries])
    return out


def most_doubtful(examined: Examined) -> Array:
    """Places of the items whose neighbours are worth asking, ascending; all of them if they are not many."""
    n = len(examined.ids)
    if n <= MOST_ASKED:
        return np.arange(n)
    own = np.where(examined.has, examined.proba, 0).max(axis=1)
    return np.union1d(np.argsort(own, kind="stable")[: MOST_ASKED - N_WEIGHED], some(n, N_WEIGHED))


def mixed(examined: Examined, asked: Array, found: list[Neighbours]) -> tuple[Array, Array]:
    """log r (n × n_classes) of the items at places ``asked`` by margins and neighbours; then the votes."""
    log_p = np.log(np.maximum(examined.proba[asked], SMALLEST))
    n_classes = log_p.shape[1]
    weighed = np.searchsorted(asked, some(len(examined.ids), N_WEIGHED))
    y = examined.labels(asked[weighed])
    weights = fit_weights(log_p[weighed], y, [found[k].labelled for k in weighed])
    shares = np.array([votes(each.labelled, n_classes, weights.sharpness) for each in found])
    return class_log_probabilities(log_p, shares, weights), shares
