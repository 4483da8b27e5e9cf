"""Retrieval measures by Hamming radius and by rank, what one would otherwise take, statistics of the bits."""

from typing import TYPE_CHECKING

from sihash._lazy import lazy_attributes

if TYPE_CHECKING:
    from sihash.evaluation.alternatives import AlternativeScore
    from sihash.evaluation.bits import BitStatistics, bit_statistics
    from sihash.evaluation.comparison import Comparison, compare
    from sihash.evaluation.ranked import ClassScores, RankedScores, RankedTally
    from sihash.evaluation.retrieval import RetrievalScores, against_database, leave_one_out

__all__ = [
    "AlternativeScore",
    "BitStatistics",
    "ClassScores",
    "Comparison",
    "RankedScores",
    "RankedTally",
    "RetrievalScores",
    "against_database",
    "bit_statistics",
    "compare",
    "leave_one_out",
]

_HOMES = {
    "alternatives": ["AlternativeScore"],
    "bits": ["BitStatistics", "bit_statistics"],
    "comparison": ["Comparison", "compare"],
    "ranked": ["ClassScores", "RankedScores", "RankedTally"],
    "retrieval": ["RetrievalScores", "against_database", "leave_one_out"],
}
__getattr__ = lazy_attributes(
    __name__, {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}
)
