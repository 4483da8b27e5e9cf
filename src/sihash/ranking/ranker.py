"""Two stages: codes find candidates, then what is known of them puts them in order.

- ``combined``, the default: by the score of `sihash.ranking.score`.
- ``vector``: by the cosine between the centred vectors.
- ``hamming``: by the distance between the codes.

Ties go to the larger cosine, then by a hash of the id. Nothing depends on the order in which items came:
where not all items at one distance fit among the candidates, none of them is taken, or all are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sihash._typing import Array
from sihash.codes import pack, sign, unpack
from sihash.index import CodeIndex, ScanIndex
from sihash.ranking.score import (
    SAME,
    SMALLEST,
    Candidates,
    ItemLabels,
    Weights,
    class_log_probabilities,
    combined_scores,
    familiarity,
    label_scores,
    votes,
)
from sihash.ranking.sketch import Sketcher
from sihash.splitmix import mixed

Rank = Literal["combined", "hamming", "vector"]
RANKS: tuple[Rank, ...] = get_args(Rank)
DEFAULT: Rank = "combined"
N_CANDIDATES = 500  # at least; from 300 to 3,000 P@1 and P@10 are the same within 0.005
PER_ANSWER = 2  # candidates for every answer, where many answers are asked for
LIKELIEST, FEW_ITEMS = 8, 50  # classes whose items are candidates wherever their codes lie, if they are few


@dataclass(frozen=True)
class Query:
    """One query: margins (n_bits,), vector (d,), and the item that it is, to be left out (−1: none)."""

    margins: Array
    vector: Array
    own: int = -1


@dataclass(frozen=True)
class Found:
    """Ids of items, best first, with their scores.

    ``familiar`` is None where not all items were asked, or by another ranking than the default.
    """

    ids: Array
    scores: Array
    familiar: bool | None = None


@dataclass(frozen=True)
class Reasons:
    """Why items were found, a number for each.

    ``same_class``, the probability that query and item are of one class; ``margin``, how far the query's
    margins agree with the bits of the item, and ``vector``, the cosine between the centred vectors: −1 to 1.
    """

    same_class: Array
    margin: Array
    vector: Array


@dataclass
class Ranker:
    """Searches a collection and orders what it finds.

    ``index`` holds the learned codes, ``near`` codes followed by sketches; ``near`` is None where the index
    is on a server, and the codes alone find candidates then. What is known of items comes by their ids:
    ``codes_of`` (packed), ``sketches_of`` (packed), ``labels_of`` (positions in the probabilities; classes
    that are not learned yet come last), ``vectors_of``, ``cosines_of`` (given a query vector and ids).
    ``class_log_proba`` gives log p (n × n_classes) of vectors and margins, ``few_items_of`` the ids of items
    that have a class, by its position, if they are no more than so many. Classes behind the first
    ``n_learned`` came after the hash functions.
    """

    index: CodeIndex
    near: CodeIndex | None
    sketcher: Sketcher
    weights: Weights
    class_log_proba: Callable[[Array, Array], Array]
    n_learned: int
    codes_of: Callable[[Array], Array]
    sketches_of: Callable[[Array], Array]
    labels_of: Callable[[Array], ItemLabels]
    few_items_of: Callable[[int, int], Array]
    vectors_of: Callable[[Array], Array]
    cosines_of: Callable[[Array, Array], Array]

    def nearest(self, rank: Rank, query: Query, k: int, allowed: Array | None = None) -> Found:
        """The k best items."""
        room = min(k + (query.own >= 0), max(1, len(self.index)))
        if rank == "hamming":
            ids = self._nearest_codes(query, room, allowed)
        else:
            ids = self._candidates(query, max(N_CANDIDATES, PER_ANSWER * room), room, allowed)
        found = self._ordered(rank, query, ids)
        familiar = found.familiar if allowed is None else None
        return Found(found.ids[:k], found.scores[:k], familiar)

    def within(
        self, rank: Rank, query: Query, r: int, allowed: Array | None = None, k: int | None = None
    ) -> Found:
        """All items within Hamming distance ``r`` of the query's code, or the ``k`` best of them."""
        ((distances, ids),) = self.index.radius(_code(query.margins), r, allowed)
        n = len(ids) if k is None else max(N_CANDIDATES, PER_ANSWER * (k + 1))
        if len(ids) > n:
            ids = _least(distances + self._sketch_distances(query, ids), ids, n)
        found = self._ordered(rank, query, ids)
        return Found(found.ids[:k], found.scores[:k])

    def reasons(self, rank: Rank, query: Query, found: Found, allowed: Array | None = None) -> Reasons:
        """Why a ranking found what it did.

        Classes are as likely as its scores have them, or by the class model alone: where it does not ask for
        classes, and where only ``allowed`` items had a vote on them.
        """
        cosines = self.cosines_of(query.vector, found.ids)
        if rank == "combined" and allowed is None:
            log_same = np.where(cosines >= SAME, 0, found.scores - 1 + self.weights.vector * (1 - cosines))
        else:
            log_same = label_scores(self.log_proba(query), self.known_of(query, found.ids))
        pulls = np.tanh(query.margins)
        agreement = unpack(self.codes_of(found.ids), len(pulls)) @ pulls
        return Reasons(
            np.exp(np.minimum(log_same, 0)), agreement / max(np.abs(pulls).sum(), SMALLEST), cosines
        )

    # The first stage.

    def candidates(self, query: Query) -> Array:
        """Ids that the default ranking looks at for a few answers, in any order."""
        ids = self._candidates(query, N_CANDIDATES, 1, None)
        return ids[ids != query.own]

    def _candidates(self, query: Query, n: int, at_least: int, allowed: Array | None) -> Array:
        """About ``n`` ids that are near by code and sketch, and the items of likely classes that have few.

        All of those at one distance, or none.
        """
        code = _code(query.margins)
        if self.near is None:
            near = _whole_rings(self.index, code, n, at_least, allowed)
        else:
            both = np.concatenate([code, self.sketcher(query.vector[None])], axis=1)
            near = _whole_rings(self.near, both, n, at_least, allowed)
        log_p = self.log_proba(query)
        likeliest = np.argpartition(-log_p, min(LIKELIEST, len(log_p)) - 1)[:LIKELIEST]
        more = np.unique(np.concatenate([self.few_items_of(k, FEW_ITEMS) for k in likeliest.tolist()]))
        more = more if allowed is None else np.intersect1d(more, allowed)
        return np.union1d(near, more) if len(more) else near

    def _nearest_codes(self, query: Query, k: int, allowed: Array | None) -> Array:
        """Ids of the k nearest codes; of those that tie at the last places, the ones nearest by sketch."""
        code = _code(query.margins)
        distances, ids = (row[0] for row in self.index.search(code, k, allowed))
        ids, distances = ids[ids >= 0], distances[ids >= 0]
        if len(ids) < k:
            return ids
        inner = ids[distances < distances[-1]]
        ((_, ball),) = self.index.radius(code, int(distances[-1]), allowed)
        ring = np.setdiff1d(ball, inner)
        if len(ring) > max(N_CANDIDATES, k):
            ring = _least(self._sketch_distances(query, ring), ring, max(N_CANDIDATES, k))
        return np.concatenate([inner, ring])

    def _sketch_distances(self, query: Query, ids: Array) -> Array:
        own = self.sketcher(query.vector[None])
        return np.bitwise_count(self.sketches_of(ids) ^ own).sum(axis=1, dtype=np.int64)

    # The second stage.

    def known_of(self, query: Query, ids: Array) -> Candidates:
        """What the score needs to know of some items."""
        labels = self.labels_of(ids)
        unlabelled = ids[labels.counts == 0]
        guessed = np.empty((0, 0))
        if len(unlabelled):
            bits = unpack(self.codes_of(unlabelled), len(query.margins))
            guessed = np.exp(self.class_log_proba(self.vectors_of(unlabelled), bits))
        return Candidates(self.cosines_of(query.vector, ids), labels, guessed)

    def log_proba(self, query: Query) -> Array:
        """log p (n_classes,) of the class model."""
        return self.class_log_proba(query.vector[None], query.margins[None])[0]

    def _ordered(self, rank: Rank, query: Query, ids: Array) -> Found:
        """Ids in the order of a ranking."""
        ids = ids[ids != query.own]
        if rank == "combined":
            known = self.known_of(query, ids)
            cosines = known.cosines
            scores = combined_scores(self._log_r(query, known), known, self.weights.vector)
        else:
            cosines = self.cosines_of(query.vector, ids)
            scores = cosines if rank == "vector" else self._by_code(query, ids)
        order = np.lexsort((mixed(ids), -cosines, -scores))
        familiar = familiarity(scores) >= self.weights.familiar_from if rank == "combined" else None
        return Found(ids[order], scores[order].astype(np.float32), familiar)

    def log_r(self, query: Query) -> Array:
        """log r (n_classes,): which class a query is of."""
        return self._log_r(query, self.known_of(query, self.candidates(query)))

    def _log_r(self, query: Query, known: Candidates) -> Array:
        log_p = self.log_proba(query)
        share = votes(known, len(log_p), self.weights.sharpness)
        return class_log_probabilities(log_p, share, self.weights, self.n_learned)

    def _by_code(self, query: Query, ids: Array) -> Array:
        differ = self.codes_of(ids) ^ _code(query.margins)
        return -np.bitwise_count(differ).sum(axis=1, dtype=np.int64).astype(float)


def _code(margins: Array) -> Array:
    return pack(sign(margins[None]))


def _whole_rings(index: CodeIndex, code: Array, n: int, at_least: int, allowed: Array | None) -> Array:
    """Ids of about ``n`` nearest codes; the last ring is left out if it was cut, unless too few are left."""
    if isinstance(index, ScanIndex):  # in one pass
        return index.nearest(code, n, at_least, allowed)
    distances, ids = (row[0] for row in index.search(code, n, allowed))
    ids, distances = ids[ids >= 0], distances[ids >= 0]
    if len(ids) < n or n >= len(index):
        return ids
    whole = ids[distances < distances[-1]]
    if len(whole) >= max(at_least, n // 2):
        return whole
    ((_, ball),) = index.radius(code, int(distances[-1]), allowed)
    return ball


def _least(distances: Array, ids: Array, n: int) -> Array:
    """The ``n`` ids at the least distances, and all that tie with the last of them."""
    return ids[distances <= np.partition(distances, n - 1)[n - 1]]


def check_rank(rank: str | None) -> Rank:
    """The ranking meant; None is the default."""
    for known in RANKS:
        if rank == known:
            return known
    if rank is None:
        return DEFAULT
    raise ValueError(f"Expected the ranking {', '.join(map(repr, RANKS))}, got {rank!r}.")
