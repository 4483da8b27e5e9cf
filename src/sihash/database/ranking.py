"""How answers are ordered: by codes alone, by the query's margins, or by what the classes say.

- ``hamming``: items by the distance of their code to the query's.
- ``asymmetric``: by Σ_j tanh(margin_j) · b_j, with the query's real margins against the item's bits: a bit
  in doubt counts less. Orders the candidates that the index finds.
- ``semantic``: by the agreement of the class probabilities of query and item, times their nearness
  (`sihash.index.semantic`). The query's probabilities come from its margins, the item's from its code.
  Orders all items where a table of their codes fits, else the candidates.

Of the three, semantic ranking measures best and is the default (docs/search.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sihash._typing import Array
from sihash.codes import hamming, pack, sign, unpack
from sihash.hashing import SIH
from sihash.index import CodeIndex, SemanticIndex, semantic_scores

Rank = Literal["hamming", "asymmetric", "semantic"]
RANKS: tuple[Rank, ...] = get_args(Rank)
DEFAULT: Rank = "semantic"
N_CANDIDATES = 1000  # ordered anew, at least, where not all items are
TABLE_ENTRIES = 100_000_000  # probabilities of codes kept in memory at most: 400 MB


@dataclass
class Ranker:
    """Searches an index and orders what it finds.

    ``codes_of`` gives the packed codes of ids. ``semantic`` holds the same ids as ``index``, or is None where
    `fits_table` says no or the index is on a server; whoever changes the one changes the other.
    Answers are one pair of scores (float32, larger is better) and ids a query, best first, ties by id.
    """

    hasher: SIH
    index: CodeIndex
    codes_of: Callable[[Array], Array]
    semantic: SemanticIndex | None = None

    def nearest(
        self, rank: Rank, margins: Array, k: int, allowed: Array | None = None
    ) -> list[tuple[Array, Array]]:
        """The k best items for each query, given by its margins (n_queries × n_bits)."""
        queries = pack(sign(margins))
        if k > N_CANDIDATES:  # room is made for k answers, so for no more than there are
            k = min(k, max(1, len(self.index)))
        if rank == "semantic" and self.semantic is not None:
            probabilities = self.hasher.code_proba(soft_codes(margins))
            best, ids = self.semantic.search(queries, probabilities, k, allowed)
            return [(s[i >= 0], i[i >= 0]) for s, i in zip(best, ids, strict=True)]
        n = k if rank == "hamming" else max(N_CANDIDATES, 2 * k)
        distances, ids = self.index.search(queries, n, allowed)
        found = [(d[i >= 0], i[i >= 0]) for d, i in zip(distances, ids, strict=True)]
        return [(s[:k], i[:k]) for s, i in self._ordered(rank, margins, found)]

    def within(
        self, rank: Rank, margins: Array, r: int, allowed: Array | None = None
    ) -> list[tuple[Array, Array]]:
        """All items within Hamming distance ``r`` of each query."""
        return self._ordered(rank, margins, self.index.radius(pack(sign(margins)), r, allowed))

    def _ordered(
        self, rank: Rank, margins: Array, found: list[tuple[Array, Array]]
    ) -> list[tuple[Array, Array]]:
        """Distances and ids that the index found, as scores and ids in the order of the ranking."""
        if rank == "hamming":
            return [(-near.astype(np.float32), ids) for near, ids in found]
        answers = []
        for row, (_, ids) in zip(margins, found, strict=True):
            own = scores(rank, self.hasher, row[None], self.codes_of(ids))[0]
            order = np.lexsort((ids, -own))
            answers.append((own[order], ids[order]))
        return answers


def scores(rank: Rank, hasher: SIH, margins: Array, codes: Array) -> Array:
    """Scores (n_queries × n_items) of packed ``codes`` for queries with ``margins``, larger is better."""
    n_bits = margins.shape[1]
    queries, B = pack(sign(margins)), unpack(codes, n_bits)
    if rank == "hamming":
        return -hamming(queries, codes).astype(np.float32)
    soft = soft_codes(margins)
    if rank == "asymmetric":
        return soft.astype(np.float32) @ B.T.astype(np.float32)
    asked, stored = (queries, hasher.code_proba(soft)), (codes, hasher.code_proba(B))
    return semantic_scores(asked, stored, n_bits).astype(np.float32)


def soft_codes(margins: Array) -> Array:
    """Codes between −1 and +1: the signs of the margins as far as they are sure."""
    return np.tanh(margins)


def semantic_index(hasher: SIH) -> SemanticIndex:
    """An empty index of codes of ``hasher``, searched by its classes."""
    n_bits = len(hasher.bit_coef_)
    return SemanticIndex(n_bits, lambda codes: hasher.code_proba(unpack(codes, n_bits)))


def fits_table(n_items: int, n_classes: int) -> bool:
    """Whether semantic ranking goes over all items: even if no two codes are the same, the table fits."""
    return n_items * n_classes <= TABLE_ENTRIES


def check_rank(rank: str | None) -> Rank:
    """The ranking meant; None is the default."""
    for known in RANKS:
        if rank == known:
            return known
    if rank is None:
        return DEFAULT
    raise ValueError(f"Expected the ranking {', '.join(map(repr, RANKS))}, got {rank!r}.")
