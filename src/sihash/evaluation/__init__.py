"""Retrieval measures by Hamming radius and by rank, and statistics of the bits."""

from sihash.evaluation.bits import BitStatistics, bit_statistics
from sihash.evaluation.ranked import ClassScores, RankedScores, RankedTally
from sihash.evaluation.retrieval import RetrievalScores, against_database, leave_one_out

__all__ = [
    "BitStatistics",
    "ClassScores",
    "RankedScores",
    "RankedTally",
    "RetrievalScores",
    "against_database",
    "bit_statistics",
    "leave_one_out",
]
