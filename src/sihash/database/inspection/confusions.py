"""Which classes are taken for which others: first hits of another class than the query."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from sihash.database.answers import Confusion, Evaluation, Label
from sihash.database.inspection.evaluating import EvaluationSet, queries_of
from sihash.database.snapshot import Snapshot
from sihash.ranking import Rank, check_rank
from sihash.store.ids import ids_of_numbers
from sihash.threads import map_threads

MOST_CLASSES, MOST_ITEMS = 3, 20  # told of a class: what it is taken for, and items that were


def with_confusions(evaluation: Evaluation, snapshot: Snapshot, asked: EvaluationSet) -> Evaluation:
    """An evaluation with the `Confusion`s of each class; without, if not all queries are items."""
    if (asked.own < 0).any():
        return evaluation
    taken_for = _taken_for(snapshot, asked, check_rank(evaluation.rank))
    classes = [
        replace(one, confused=_worst(snapshot, taken_for.get(one.label, {}))) for one in evaluation.classes
    ]
    return replace(evaluation, classes=classes)


def _taken_for(snapshot: Snapshot, asked: EvaluationSet, rank: Rank) -> dict[Label, dict[Label, list[int]]]:
    """Of each class, and each class of its wrong first hits, the queries (numbers of items)."""
    allowed = None if len(asked.ids) == snapshot.n_items else asked.ids
    ranker = snapshot.ranker
    found = map_threads(lambda query: ranker.nearest(rank, query, 1, allowed).ids[:1], queries_of(asked))
    answered = np.array([len(ids) for ids in found], dtype=bool)
    numbers = asked.ids[asked.own[answered]]
    hits = np.concatenate([np.empty(0, dtype=np.int64), *found])
    wrong: dict[Label, dict[Label, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, own, other in zip(
        numbers.tolist(), snapshot.labels(numbers), snapshot.labels(hits), strict=True
    ):
        if not set(own) & set(other):
            for label in own:
                for taken_for in other:
                    wrong[label][taken_for].append(number)
    return wrong


def _worst(snapshot: Snapshot, taken_for: dict[Label, list[int]]) -> list[Confusion]:
    counts = Counter({label: len(numbers) for label, numbers in taken_for.items()})
    return [
        Confusion(label, n, ids_of_numbers(snapshot.catalogue, taken_for[label][:MOST_ITEMS]))
        for label, n in counts.most_common(MOST_CLASSES)
    ]
