"""The ranking of a database: its indexes, what is known of its items, and weights found on its own items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sihash._typing import Array
from sihash.hashing.hash_functions import HashFunctions
from sihash.index import CodeIndex, ScanIndex
from sihash.ranking import Ranker, Sketcher, Weights, fit_weights, nearness
from sihash.ranking.ranker import Query
from sihash.ranking.score import ItemLabels
from sihash.ranking.sketch import SKETCH_BITS, SKETCH_BYTES
from sihash.store.labels import LabelTable, runs
from sihash.store.segments import Places, Segment
from sihash.threads import map_threads

if TYPE_CHECKING:
    from sihash.hashing.training import Training

N_ASKED = 1000  # items that ask for the others, to find the weights of the score


def make_ranker(
    hasher: HashFunctions,
    sketcher: Sketcher,
    weights: Weights,
    indexes: tuple[CodeIndex, CodeIndex | None],
    places: Places,
    table: LabelTable,
    only_learned: bool = False,
) -> Ranker:
    """A ranker over the items of ``places``, whose class numbers mean the sets of a ``table``; both grow.

    With ``only_learned``, labels that the hash functions do not know are passed over.
    """
    index, near = indexes
    n_bytes = -(-index.n_bits // 8)
    positions = ClassPositions(hasher, table, only_learned)
    return Ranker(
        index=index,
        near=near,
        sketcher=sketcher,
        weights=weights,
        margin_proba=hasher.margin_proba,
        code_proba=hasher.code_proba,
        codes_of=lambda ids: places.codes(ids, n_bytes),
        sketches_of=lambda ids: places.sketches(ids, SKETCH_BYTES),
        labels_of=lambda ids: positions(places.classes(ids)),
        n_classes=positions.n_classes,
        cosines_of=lambda query, ids: estimated_cosines(places, query, ids, sketcher),
    )


def estimated_cosines(places: Places, query: Array, ids: Array, sketcher: Sketcher) -> Array:
    """As `cosines`, by sketches; exact where all signs are those of the query: the vector may be its own."""
    sketches = places.sketches(ids, sketcher.n_bytes)
    out = sketcher.cosines(sketches, query)
    same = (sketches[:, :SKETCH_BYTES] == sketcher(query[None])).all(axis=1)
    if same.any():
        out[same] = cosines(places, query, ids[same], sketcher.mean)
    return out


def cosines(places: Places, query: Array, ids: Array, mean: Array) -> Array:
    """Cosines of a vector to those of items, all centred to ``mean``."""
    out = np.empty(len(ids))
    towards = nearness.direction(query, mean)
    for segment, found, rows in places.find_all(ids):
        out[found] = nearness.cosines(segment.vectors[rows], mean, towards)
    return out


class ClassPositions:
    """From class numbers of a database to positions in ``classes_`` of its hash functions.

    Labels that came since follow behind, unless they are to be passed over.
    """

    def __init__(self, hasher: HashFunctions, table: LabelTable, only_learned: bool) -> None:
        self._of_label = {label: k for k, label in enumerate(hasher.classes_.tolist())}
        self._table, self._only_learned = table, only_learned
        self._known: tuple[Array, Array] | None = None  # of every set: positions, and how many

    def n_classes(self) -> int:
        self._take_new()
        return len(self._of_label)

    def __call__(self, numbers: Array) -> ItemLabels:
        flat, counts = self._take_new()
        return ItemLabels(flat[runs(np.cumsum(counts) - counts, counts, numbers)], counts[numbers])

    def _take_new(self) -> tuple[Array, Array]:
        """What is known of every set of the table, which may have grown."""
        n = len(self._table)
        if self._known is None or len(self._known[1]) != n + 1:
            places = dict(self._of_label)
            for label in self._table.labels if not self._only_learned else ():
                places.setdefault(label, len(places))
            sets = [[places[x] for x in self._table[k] if x in places] for k in range(n)]
            counts = np.array([*map(len, sets), 0], dtype=np.intp)  # the last stands for no label, −1
            self._of_label = places  # first: whoever sees a position then counts its class
            self._known = np.array([k for own in sets for k in own], dtype=np.intp), counts
        return self._known


def codes_and_sketches(segment: Segment, rows: Array) -> Array:
    """What the index of candidates holds for some rows of a segment: code bits, then sketch bits.

    Codes take whole bytes here, the unused bits of the last one zero.
    """
    return np.concatenate([segment.codes[rows], segment.sketches[rows, :SKETCH_BYTES]], axis=1)


def n_bits_near(n_bits: int) -> int:
    """Bits of `codes_and_sketches`."""
    return 8 * -(-n_bits // 8) + SKETCH_BITS


def rows_left_out(learner: Training) -> Array:
    """Some items that the hash functions were learned from, with ``margins`` as if they had not been."""
    names, margins = learner.left_out_margins(N_ASKED)
    rows = np.empty(len(names), dtype=[("id", "<i8"), ("margins", "<f4", margins.shape[1:])])
    rows["id"], rows["margins"] = names, margins
    return rows


def learn_weights(
    hasher: HashFunctions,
    sketcher: Sketcher,
    places: Places,
    table: LabelTable,
    left_out: Array,
) -> Weights:
    """Weights of the score for a collection with these hash functions and the codes that it has.

    ``places`` holds the items that the hash functions were learned from. Some of them ask for the others, as
    if they had been left out.
    """
    near = ScanIndex(n_bits_near(hasher.n_bits))
    for segment in places.segments:
        if segment.alive.any():
            near.add(segment.ids[segment.alive], codes_and_sketches(segment, segment.alive))
    indexes = ScanIndex(hasher.n_bits), near
    ranker = make_ranker(hasher, sketcher, Weights(), indexes, places, table, only_learned=True)
    left_out = left_out[places.alive(left_out["id"])]  # the others were removed meanwhile
    ids, margins = left_out["id"], left_out["margins"]
    vectors = places.vectors(ids, len(sketcher.mean))
    queries = [Query(*asked) for asked in zip(margins, vectors, ids.tolist(), strict=True)]
    found = map_threads(lambda query: ranker.known_of(query, ranker.candidates(query)), queries)
    return fit_weights(ranker.log_proba(margins), ranker.labels_of(ids), found)
