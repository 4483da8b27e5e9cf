"""Retrieval measures by Hamming radius."""

from sihash.evaluation.retrieval import RetrievalScores, leave_one_out

__all__ = ["RetrievalScores", "leave_one_out"]
