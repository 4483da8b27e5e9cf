"""A database beside what its user would otherwise take."""

from __future__ import annotations

from collections.abc import Callable

from sihash._typing import Array
from sihash.database import searching
from sihash.database.answers import Answer, Id
from sihash.database.inspection.evaluating import EvaluationSet, scores_of
from sihash.database.snapshot import Snapshot
from sihash.evaluation import AlternativeScore, Comparison, RankedScores
from sihash.evaluation import compare as compare_with_alternatives
from sihash.evaluation.comparison import Makers, median_milliseconds
from sihash.ranking import DEFAULT
from sihash.store.errors import DatabaseError

LABEL_BYTES = 4

Measured = tuple[AlternativeScore, RankedScores]


def own_row(snapshot: Snapshot, asked: EvaluationSet, thumbnail: Callable[[Id], bytes | None]) -> Measured:
    """How the default ranking answers the queries. Bytes are all that it reads of an item, on disk or not."""
    wanted = searching.wanted(10, None, None, None)

    def answer(query: Array) -> list[Answer]:
        return searching.answers(snapshot, snapshot.catalogue, query[None], wanted, thumbnail)

    found = scores_of(snapshot, asked, DEFAULT)
    ms = median_milliseconds(answer, asked.queries)
    n_bytes = snapshot.n_bytes + snapshot.sketcher.n_bytes + LABEL_BYTES
    return AlternativeScore("sihash", n_bytes, found.p_at_1, found.p_at_10, found.map, ms), found


def beside_alternatives(
    own: Measured, asked: EvaluationSet, code_bytes: int, more: Makers = ()
) -> Comparison:
    """The whole table, with ``more`` alternatives as `compare` takes them; needs no snapshot any more."""
    try:
        return compare_with_alternatives(
            *own,
            asked.X,
            asked.y,
            asked.queries,
            asked.labels,
            code_bytes,
            own=asked.own,
            more=more,
            note=asked.note,
        )
    except ValueError as error:
        raise DatabaseError(str(error)) from None
