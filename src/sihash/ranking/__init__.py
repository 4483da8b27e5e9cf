"""What puts candidates in order: the classes that a query may be of, labels of items, and vectors."""

from sihash.ranking.ranker import DEFAULT, RANKS, Found, Rank, Ranker, Reasons, check_rank
from sihash.ranking.score import Weights
from sihash.ranking.sketch import Sketcher
from sihash.ranking.weights import fit_weights

__all__ = [
    "DEFAULT",
    "RANKS",
    "Found",
    "Rank",
    "Ranker",
    "Reasons",
    "Sketcher",
    "Weights",
    "check_rank",
    "fit_weights",
]
