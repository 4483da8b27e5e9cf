"""A database beside what its user would otherwise take: who asks, and how the database itself answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.checks import check_count
from sihash.database import ranking, searching
from sihash.database.answers import Answer
from sihash.database.errors import DatabaseError
from sihash.database.ranking import DEFAULT
from sihash.database.snapshot import Snapshot
from sihash.database.updating import training_ids
from sihash.evaluation import AlternativeScore, Comparison
from sihash.evaluation import compare as compare_with_alternatives
from sihash.evaluation.comparison import median_milliseconds, ranked_scores

ENOUGH_UNSEEN = 100  # items that were not learned from: then they alone ask
ASKING_SHARE = 5  # one item of so many asks at most; the others are there to learn from


@dataclass(frozen=True)
class Asked:
    """Items that answer, queries that ask them, and which item a query is itself (−1: none).

    ``y`` and ``labels`` are class numbers, −1 for a query whose class no item has.
    """

    ids: Array
    X: Array
    y: Array
    queries: Array
    labels: Array
    own: Array
    note: str


def check_limits(max_queries: int, max_items: int | None) -> None:
    try:
        check_count("max_queries", max_queries)
        check_count("max_items", max_items or 1)
    except ValueError as error:
        raise DatabaseError(str(error)) from None


def ask(
    root: Path,
    snapshot: Snapshot,
    given: tuple[Array, list[Any]] | None,
    max_queries: int,
    max_items: int | None,
) -> Asked:
    """The labelled items, and queries: those given (vectors, labels), else some of the items themselves."""
    ids = snapshot.places.live_ids()
    y = snapshot.item_classes().of(ids)
    ids, y = ids[y >= 0], y[y >= 0]
    if not len(ids):
        raise DatabaseError("Nothing to compare by: no item has a label.")
    notes = []
    if max_items is not None and len(ids) > max_items:
        notes.append(
            f"A sample of {max_items:,} of the {len(ids):,} labelled items answers; only sihash was timed on "
            "all of them."
        )
        some = _sample(len(ids), max_items)
        ids, y = ids[some], y[some]
    X = snapshot.vectors(ids)
    if given is None:
        own, note = _asking_items(training_ids(root, snapshot.catalogue, snapshot.version), ids, max_queries)
        return Asked(ids, X, y, X[own], y[own], own, " ".join([*notes, note]))
    vectors, names = given
    if len(vectors) > max_queries:
        notes.append(f"A sample of {max_queries:,} of the {len(vectors):,} queries was asked.")
    asking = _sample(len(vectors), max_queries)
    number_of = {str(label): number for number, label in snapshot.classes.items()}  # "9" where a class is 9
    labels = np.array([number_of.get(str(names[place]), -1) for place in asking])
    queries = searching.fitting(snapshot, vectors)[asking]
    return Asked(ids, X, y, queries, labels, np.full(len(asking), -1), " ".join(notes))


def _asking_items(known: Array, ids: Array, max_queries: int) -> tuple[Array, str]:
    """Places of items to ask with, and what to know about them; rather those that were not learned from."""
    unseen = np.flatnonzero(~np.isin(ids, known))
    pool = unseen if len(unseen) >= ENOUGH_UNSEEN else np.arange(len(ids))
    own = pool[_sample(len(pool), min(max_queries, max(1, len(ids) // ASKING_SHARE)))]
    n_known = int(np.isin(ids[own], known).sum())
    if n_known:
        return own, (
            f"The hash functions learned from {n_known:,} of these {len(own):,} queries, so the figures of "
            "sihash are too good; those of the others are not: ask with queries that it has never seen."
        )
    return own, "The queries are items of the collection that the hash functions did not learn from."


def _sample(n: int, most: int) -> Array:
    """Places in ascending order: all, or ``most`` drawn with one seed."""
    return np.arange(n) if n <= most else np.sort(np.random.RandomState(0).choice(n, most, replace=False))


def own_row(snapshot: Snapshot, asked: Asked, thumbnail: Callable[[int], bytes | None]) -> AlternativeScore:
    """How the default ranking of the database answers the queries; ties by id, as its searches have them."""
    codes, wanted = snapshot.codes(asked.ids), searching.wanted(10, None, None, None)

    def all_scores(queries: Array) -> Array:
        return ranking.scores(DEFAULT, snapshot.hasher, searching.margins(snapshot, queries), codes)

    def answer(query: Array) -> list[Answer]:
        margins = searching.margins(snapshot, query[None])
        return searching.answers(snapshot, snapshot.catalogue, margins, wanted, thumbnail)

    found = ranked_scores(all_scores, asked.y, asked.queries, asked.labels, asked.own)
    ms = median_milliseconds(answer, asked.queries)
    return AlternativeScore("sihash", snapshot.n_bytes, found.p_at_1, found.p_at_10, found.map, ms)


def beside_alternatives(own: AlternativeScore, asked: Asked) -> Comparison:
    """The whole table; needs no snapshot any more."""
    try:
        return compare_with_alternatives(
            own,
            asked.X,
            asked.y,
            asked.queries,
            asked.labels,
            own.bytes_per_item,
            own=asked.own,
            note=asked.note,
        )
    except ValueError as error:
        raise DatabaseError(str(error)) from None
