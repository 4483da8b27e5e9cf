"""The ranking of a database: its indexes, what is known of its items, and weights found on its own items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sihash._typing import Array
from sihash.hashing.class_model import ClassModel
from sihash.hashing.hash_functions import HashFunctions
from sihash.hashing.rehearsal import Rehearsal
from sihash.index import CodeIndex, ScanIndex
from sihash.ranking import Ranker, Sketcher, Weights, fit_weights, nearness
from sihash.ranking.ranker import Query
from sihash.ranking.score import Candidates, ItemLabels
from sihash.ranking.sketch import SKETCH_BITS, SKETCH_BYTES
from sihash.store.labels import LabelTable, runs
from sihash.store.segments import Places, Segment
from sihash.threads import map_threads


def make_ranker(
    sketcher: Sketcher,
    weights: Weights,
    indexes: tuple[CodeIndex, CodeIndex | None],
    places: Places,
    classes: PresentClasses,
) -> Ranker:
    """A ranker over the items of ``places`` and their ``classes``; both follow as items come and go."""
    index, near = indexes
    n_bytes = -(-index.n_bits // 8)
    return Ranker(
        index=index,
        near=near,
        sketcher=sketcher,
        weights=weights,
        class_log_proba=classes.log_proba,
        n_learned=classes.n_learned,
        codes_of=lambda ids: places.codes(ids, n_bytes),
        sketches_of=lambda ids: places.sketches(ids, SKETCH_BYTES),
        labels_of=lambda ids: classes.labels_of(places.classes(ids)),
        few_items_of=classes.few_items_of,
        vectors_of=lambda ids: places.vectors(ids, len(sketcher.mean)),
        cosines_of=lambda query, ids: estimated_cosines(places, query, ids, sketcher),
    )


def estimated_cosines(places: Places, query: Array, ids: Array, sketcher: Sketcher) -> Array:
    """As `cosines`, by sketches; exact where all signs are those of the query: the vector may be its own."""
    sketches = places.sketches(ids, sketcher.n_bytes)
    out = sketcher.cosines(sketches, query)
    same = (sketches[:, :SKETCH_BYTES] == sketcher(query[None])).all(axis=1)
    if same.any():
        out[same] = cosines(places, query, ids[same], sketcher.mean)
    return out


def by_vectors(ranker: Ranker, places: Places) -> Ranker:
    """The same, by the vectors of items in the place of their sketches."""
    mean = ranker.sketcher.mean
    return replace(ranker, cosines_of=lambda query, ids: cosines(places, query, ids, mean))


def cosines(places: Places, query: Array, ids: Array, mean: Array) -> Array:
    """Cosines of a vector to those of items, all centred to ``mean``."""
    out = np.empty(len(ids))
    towards = nearness.direction(query, mean)
    for segment, found, rows in places.find_all(ids):
        out[found] = nearness.cosines(segment.vectors[rows], mean, towards)
    return out


@dataclass(frozen=True)
class _Seen:
    """The classes of the items of one moment."""

    segments: list[Segment]  # of that moment
    names: list[str | int]  # labels by position
    model: ClassModel
    flat: Array  # of every set of the table: positions of its labels
    counts: Array  # and how many; the last stands for no label, −1
    set_of_entry: Array  # the set behind each entry of ``flat``
    order: Array  # ids of labelled items, set after set
    starts: Array  # where each set begins there


class PresentClasses:
    """The classes that there are: those of the hash functions, and labels that came since behind them.

    Items from the number ``first_new`` on came after the hash functions, and are counted in as soon as they
    are there (`ClassModel.with_rows`); None where there are none. Class numbers of ``places`` mean the sets
    of the ``table``.
    """

    def __init__(
        self, hasher: HashFunctions, places: Places, table: LabelTable, first_new: int | None
    ) -> None:
        self._hasher, self._places, self._table, self._first_new = hasher, places, table, first_new
        self._seen: _Seen | None = None

    @property
    def n_learned(self) -> int:
        """How many classes the hash functions know; these come first."""
        return len(self._hasher.classes_)

    def names(self) -> list[str | int]:
        """Labels by position."""
        return self._now().names

    def log_proba(self, X: Array, margins: Array) -> Array:
        """log p (n × number of classes) of vectors with these margins."""
        return self._now().model.log_proba(self._hasher.directions(X), margins)

    def labels_of(self, numbers: Array) -> ItemLabels:
        """Positions of the labels behind class numbers."""
        now = self._now()
        starts = np.cumsum(now.counts) - now.counts
        return ItemLabels(now.flat[runs(starts, now.counts, numbers)], now.counts[numbers])

    def few_items_of(self, position: int, most: int) -> Array:
        """Ids of the items that have the label at a position; none if they are more than ``most``."""
        now = self._now()
        which = now.set_of_entry[now.flat == position]
        if (now.starts[which + 1] - now.starts[which]).sum() > most:
            which = which[:0]
        return np.concatenate(
            [np.empty(0, dtype=np.int64), *(now.order[now.starts[k] : now.starts[k + 1]] for k in which)]
        )

    def _now(self) -> _Seen:
        if self._seen is None or self._seen.segments is not self._places.segments:
            self._seen = self._look(self._places.segments)
        return self._seen

    def _look(self, segments: list[Segment]) -> _Seen:
        ids = np.concatenate([np.empty(0, dtype=np.int64), *(s.ids[s.alive] for s in segments)])
        numbers = np.concatenate([np.empty(0, dtype=np.intp), *(s.classes[s.alive] for s in segments)])
        position = {label: k for k, label in enumerate(self._hasher.classes_.tolist())}
        n_learned, n = len(position), len(self._table)
        if self._first_new is not None:
            for number in np.unique(numbers[numbers >= 0]).tolist():
                for label in self._table[number]:
                    position.setdefault(label, len(position))
        sets = [[position[x] for x in self._table[k] if x in position] for k in range(n)]
        counts = np.array([*map(len, sets), 0], dtype=np.intp)
        flat = np.array([k for own in sets for k in own], dtype=np.intp)
        labelled = np.flatnonzero(numbers >= 0)
        order = labelled[np.argsort(numbers[labelled], kind="stable")]
        starts = np.searchsorted(numbers[order], np.arange(n + 1))
        model = self._hasher.class_model()
        if self._first_new is not None:
            is_new = np.array([any(k >= n_learned for k in own) for own in sets] + [False])
            came = (numbers >= 0) & ((ids >= self._first_new) | is_new[numbers])
            model = self._with_rows(model, ids[came], numbers[came], sets)
        set_of_entry = np.repeat(np.arange(n + 1), counts)
        return _Seen(segments, list(position), model, flat, counts, set_of_entry, ids[order], starts)

    def _with_rows(self, model: ClassModel, ids: Array, numbers: Array, sets: list[list[int]]) -> ClassModel:
        if not len(ids):
            return model
        X = self._places.vectors(ids, len(self._hasher.kernel_.mean))
        which, place = np.unique(numbers, return_inverse=True)
        return model.with_rows(self._hasher.directions(X), place, [sets[k] for k in which.tolist()])


def codes_and_sketches(segment: Segment, rows: Array) -> Array:
    """What the index of candidates holds for some rows of a segment: code bits, then sketch bits.

    Codes take whole bytes here, the unused bits of the last one zero.
    """
    return np.concatenate([segment.codes[rows], segment.sketches[rows, :SKETCH_BYTES]], axis=1)


def n_bits_near(n_bits: int) -> int:
    """Bits of `codes_and_sketches`."""
    return 8 * -(-n_bits // 8) + SKETCH_BITS


def rehearsed(
    rehearsal: Rehearsal, sketcher: Sketcher, weights: Weights, kept: Places, table: LabelTable
) -> Ranker:
    """A ranker over the items that a rehearsal ``kept``, by the hash functions made of them alone."""
    functions = rehearsal.functions
    (segment,) = kept.segments
    segment.codes = functions.transform(segment.vectors)
    index, near = ScanIndex(functions.n_bits), ScanIndex(n_bits_near(functions.n_bits))
    every = np.arange(len(segment.ids))
    index.add(segment.ids, segment.codes)
    near.add(segment.ids, codes_and_sketches(segment, every))
    classes = PresentClasses(functions, kept, table, None)
    return make_ranker(sketcher, weights, (index, near), kept, classes)


def _known(ranker: Ranker, query: Query) -> Candidates:
    return ranker.known_of(query, ranker.candidates(query))


def learn_weights(
    rehearsals: Sequence[Rehearsal], sketcher: Sketcher, places: Places, table: LabelTable
) -> Weights:
    """Weights of the score, by the rows that asked when the class model was learned.

    ``places`` holds the items that the hash functions were learned from.
    """
    log_p: list[Array] = []
    labels: list[ItemLabels] = []
    found: list[Candidates] = []
    for rehearsal in rehearsals:
        asking, kept = (
            ids[places.alive(ids)]  # the others were removed meanwhile
            for ids in (np.sort(each.astype(np.int64)) for each in (rehearsal.asking, rehearsal.kept))
        )
        of_items = PresentClasses(rehearsal.functions, places, table, None).labels_of
        asking = asking[of_items(places.classes(asking)).counts > 0]
        X = places.vectors(asking, len(sketcher.mean))
        world = places.only(kept, places.vectors(kept, len(sketcher.mean)))
        ranker = rehearsed(rehearsal, sketcher, Weights(), world, table)
        margins = rehearsal.functions.decision_function(X)
        queries = [Query(*asked) for asked in zip(margins, X, strict=True)]
        found += map_threads(partial(_known, ranker), queries)
        log_p.append(ranker.class_log_proba(X, margins))
        labels.append(of_items(places.classes(asking)))
    if not log_p:
        return Weights()
    y = ItemLabels(*(np.concatenate([getattr(each, name) for each in labels]) for name in ("flat", "counts")))
    return fit_weights(np.concatenate(log_p), y, found)
