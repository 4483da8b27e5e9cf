"""How well a database answers: who asks, and how the ranking that answers puts items in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.checks import check_count
from sihash.codes import hamming, pack, sign, unpack
from sihash.database import searching
from sihash.database.answers import ClassEvaluation, Evaluation, LabelSet
from sihash.database.ranking import by_vectors, rehearsed
from sihash.database.snapshot import Snapshot
from sihash.database.updating import training_ids
from sihash.evaluation.ranked import RankedScores, RankedTally, ranked_scores, relevant_to
from sihash.hashing.rehearsal import as_they_come, rehearse
from sihash.ranking import Rank, Ranker
from sihash.ranking.ranker import Query
from sihash.store.errors import DatabaseError
from sihash.store.labels import LabelTable
from sihash.store.segments import Places
from sihash.threads import map_threads

ENOUGH_UNSEEN = 100  # items that were not learned from: then they alone ask
ASKING_SHARE = 5  # at most one item of this many is a query: what answers has to be learned from the others
ENOUGH_ASKING = 500  # queries: with so many at hand, one item of ten is enough
JUDGED_HITS = 10  # hits that a search is judged by
TIE = 1e-4  # what a cosine counts where scores tie


@dataclass(frozen=True)
class EvaluationSet:
    """Items that answer by a ``ranker``, and queries: vectors, margins, and which item each is (−1: none).

    ``y`` and ``labels`` are the places of labels in the database's table, −1 for a query whose label no item
    has; where some have several labels, both are indicators (bool, a column a label).
    """

    ids: Array
    X: Array
    y: Array
    queries: Array
    margins: Array
    labels: Array
    own: Array
    note: str
    ranker: Ranker
    places: Places


def check_limits(max_queries: int, max_items: int | None) -> None:
    try:
        check_count("max_queries", max_queries)
        check_count("max_items", max_items or 1)
    except ValueError as error:
        raise DatabaseError(str(error)) from None


def ask(
    root: Path,
    snapshot: Snapshot,
    given: tuple[Array, list[LabelSet]] | None,
    max_queries: int,
    max_items: int | None,
) -> EvaluationSet:
    """The labelled items, and queries: those given (vectors, labels), else some of the items themselves."""
    ids, numbers = snapshot.places.live_ids(), snapshot.places.live_classes()
    ids, numbers = ids[numbers >= 0], numbers[numbers >= 0]
    if not len(ids):
        raise DatabaseError("Nothing to evaluate: no item has a label.")
    notes: list[str] = []
    asking = np.empty(0, dtype=np.int64)
    if given is None:
        most = min(max_queries, max(1, len(ids) // ASKING_SHARE))
        unseen = np.setdiff1d(ids, training_ids(root, snapshot.catalogue, snapshot.version))
        if len(unseen) < ENOUGH_UNSEEN:
            return _rehearsal(snapshot, ids, numbers, min(most, max(ENOUGH_ASKING, len(ids) // 10)))
        asking = unseen[_sample(len(unseen), most)]
        notes.append("The queries are items of the collection that the hash functions did not learn from.")
    if max_items is not None and len(ids) > max_items:
        notes.append(f"A sample of {max_items:,} of the {len(ids):,} labelled items answers.")
        some = np.union1d(_sample(len(ids), max_items), np.searchsorted(ids, asking))
        ids, numbers = ids[some], numbers[some]
    X, answering = snapshot.vectors(ids), (snapshot.ranker, snapshot.places)
    if given is None:
        own = np.searchsorted(ids, asking)
        y = _places(snapshot.classes, numbers)
        margins = searching.margins(snapshot, X[own])
        return EvaluationSet(ids, X, y, X[own], margins, y[own], own, " ".join(notes), *answering)
    vectors, names = given
    if len(vectors) > max_queries:
        notes.append(f"A sample of {max_queries:,} of the {len(vectors):,} queries was asked.")
    some = _sample(len(vectors), max_queries)
    y, labels = _with_queries(snapshot.classes, numbers, [names[place] for place in some])
    queries = searching.fitting(snapshot, vectors)[some]
    margins, nobody = searching.margins(snapshot, queries), np.full(len(some), -1)
    return EvaluationSet(ids, X, y, queries, margins, labels, nobody, " ".join(notes), *answering)


def _rehearsal(snapshot: Snapshot, ids: Array, numbers: Array, n: int) -> EvaluationSet:
    """``n`` items ask all others, from which hash functions and class statistics are made again."""
    hasher, labels = snapshot.hasher, [snapshot.classes[k] for k in numbers.tolist()]
    X = snapshot.vectors(ids)
    divisions = [as_they_come(labels, n)]
    found = next(iter(rehearse(hasher.settings, hasher.kernel_.width, X, labels, divisions)), None)
    if found is None:
        raise DatabaseError("Nothing to evaluate by: every item is the only one of its class; give queries.")
    found = found.with_spread(hasher.class_model().spread)
    kept, queries = ids[found.kept], X[found.asking]
    world = snapshot.places.only(kept, X[found.kept])
    ranker = rehearsed(found, snapshot.sketcher, snapshot.weights, world, snapshot.classes)
    margins = found.functions.decision_function(queries)
    y = _places(snapshot.classes, numbers)
    note = (
        f"{len(queries):,} items asked a collection without them: hash functions and class statistics were "
        "made again from the others."
    )
    nobody = np.full(len(queries), -1)
    return EvaluationSet(
        kept, X[found.kept], y[found.kept], queries, margins, y[found.asking], nobody, note, ranker, world
    )


def _places(table: LabelTable, numbers: Array) -> Array:
    """Labels of items by their class numbers, as in `EvaluationSet`."""
    flat, counts = table.apart(numbers)
    return flat if counts.max(initial=0) <= 1 else table.indicators(numbers)


def _with_queries(table: LabelTable, numbers: Array, asked: list[LabelSet]) -> tuple[Array, Array]:
    """Labels of items and of queries, as in `EvaluationSet`."""
    place_of = {str(label): place for place, label in enumerate(table.labels)}  # "9" where a class is 9
    y, places = _places(table, numbers), [[place_of.get(str(x), -1) for x in own] for own in asked]
    if y.ndim == 1 and all(len(own) == 1 for own in places):
        return y, np.array([own[0] for own in places])
    labels = np.zeros((len(places), len(table.labels)), dtype=bool)
    for row, own in zip(labels, places, strict=True):
        row[[place for place in own if place >= 0]] = True
    return table.indicators(numbers), labels


def _sample(n: int, most: int) -> Array:
    """Places in ascending order: all, or ``most`` drawn with one seed."""
    return np.arange(n) if n <= most else np.sort(np.random.RandomState(0).choice(n, most, replace=False))


def scores_of(snapshot: Snapshot, asked: EvaluationSet, rank: Rank) -> RankedScores:
    """P@1 and P@10 of what searches answer, and mAP of the same score over all items."""
    first = _first_hits(snapshot, asked, rank)
    whole = ranked_scores(
        _all_scores(snapshot, asked, rank), asked.y, np.arange(len(asked.labels)), asked.labels, asked.own
    )
    per_class = tuple(replace(a, map=b.map) for a, b in zip(first.per_class, whole.per_class, strict=True))
    return replace(first, map=whole.map, per_class=per_class)


def queries_of(asked: EvaluationSet) -> list[Query]:
    own = [int(asked.ids[place]) if place >= 0 else -1 for place in asked.own]
    return [Query(*each) for each in zip(asked.margins, asked.queries, own, strict=True)]


def _first_hits(snapshot: Snapshot, asked: EvaluationSet, rank: Rank) -> RankedScores:
    """By the searches themselves."""
    ranker = by_vectors(asked.ranker, asked.places) if rank == "vector" else asked.ranker  # as a search does
    allowed = None if len(asked.ids) == len(ranker.index) else asked.ids
    found = map_threads(lambda query: ranker.nearest(rank, query, JUDGED_HITS, allowed), queries_of(asked))
    relevant = np.zeros((len(found), JUDGED_HITS), dtype=bool)
    for row, each, label in zip(relevant, found, asked.labels, strict=True):
        places = np.searchsorted(asked.ids, each.ids)
        row[: len(each.ids)] = relevant_to(label[None], asked.y[places])[0]
    distinct, counts = np.unique(asked.y, axis=0, return_counts=True)
    n_relevant = relevant_to(asked.labels, distinct) @ counts
    tally = RankedTally()
    tally.add(relevant, n_relevant - (asked.own >= 0), asked.labels)
    return tally.scores()


def _all_scores(snapshot: Snapshot, asked: EvaluationSet, rank: Rank) -> Any:
    """A function from places of queries to their scores for all items that answer."""
    ranker, mean = asked.ranker, snapshot.sketcher.mean
    Z, Q = _directions(asked.X - mean), _directions(asked.queries - mean)
    codes = ranker.codes_of(asked.ids)
    if rank == "combined":
        labels, vector = ranker.labels_of(asked.ids), ranker.weights.vector
        log_r = np.array(map_threads(ranker.log_r, queries_of(asked)))
        none = labels.counts == 0
        guessed = np.empty((0, log_r.shape[1]))
        if none.any():
            guessed = np.exp(ranker.class_log_proba(asked.X[none], unpack(codes[none], snapshot.n_bits)))

    def by_class(log_p: Array) -> Array:
        out = np.empty((len(log_p), len(labels.counts)))
        out[:, ~none] = labels.log_sums(log_p)
        out[:, none] = np.log(np.exp(log_p) @ guessed.T + np.finfo(float).tiny)
        return out

    def scores(places: Array) -> Array:
        cosines = Q[places] @ Z.T
        if rank == "combined":
            return by_class(log_r[places]) + vector * cosines
        if rank == "vector":
            return cosines
        return TIE * cosines - hamming(pack(sign(asked.margins[places])), codes)

    return scores


def _directions(Z: Array) -> Array:
    lengths = np.sqrt(np.einsum("ij,ij->i", Z, Z))
    return Z / np.where(lengths > 0, lengths, 1)[:, None]


def evaluation(snapshot: Snapshot, asked: EvaluationSet, rank: Rank) -> Evaluation:
    """The scores with the labels of classes in them."""
    found = scores_of(snapshot, asked, rank)
    if not found.n_queries:
        raise DatabaseError(
            f"None of the {len(asked.labels)} queries has an item of its class to find; ask with classes "
            "that the collection has."
        )
    sizes = snapshot.classes.sizes(snapshot.places.live_classes())
    classes = [
        ClassEvaluation(
            label=snapshot.classes.labels[each.label],
            n_queries=each.n_queries,
            p_at_1=each.p_at_1,
            p_at_10=each.p_at_10,
            mAP=each.map,
            n_items=int(sizes[each.label]),
        )
        for each in found.per_class
    ]
    return Evaluation(
        version=snapshot.version,
        rank=rank,
        p_at_1=found.p_at_1,
        p_at_10=found.p_at_10,
        mAP=found.map,
        n_queries=found.n_queries,
        n_left_out=found.n_left_out,
        n_items=len(asked.ids),
        classes=classes,
        note=asked.note,
    )
