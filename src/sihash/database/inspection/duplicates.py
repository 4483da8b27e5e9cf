"""Pairs of items that are the same, or nearly so."""

from __future__ import annotations

import hashlib

import numpy as np

from sihash._typing import Array
from sihash.database.inspection.unseen import BATCH_ITEMS, NEAREST, Neighbours
from sihash.database.snapshot import Snapshot
from sihash.ranking.score import SAME
from sihash.ranking.sketch import SKETCH_BYTES

NEAR = 0.1  # of the usual distance to a neighbour: what re-encoding or resizing does to a picture
CHANCE = 2e-5  # that one of a few neighbours is as near without being a duplicate

Pairs = dict[tuple[int, int], float]  # ids, the smaller first, and the cosine


def pairs_of(snapshot: Snapshot, asked: Array, found: list[Neighbours]) -> Pairs:
    """Items with the vector of an earlier one, in the whole collection; and of those asked, with their
    neighbours, pairs much nearer to each other than items are elsewhere and around them.
    """
    first = _same_vectors(snapshot)
    same = {(earlier, number): 1.0 for number, earlier in first.items()}
    near = _standing_out(snapshot.width, asked, found)
    return same | {
        (a, b): cosine
        for (a, b), cosine in near.items()
        if first.get(a, a) != first.get(b, b)  # copies of one are told with the first of them
    }


def _same_vectors(snapshot: Snapshot) -> dict[int, int]:
    """Ids of items with the vector of an earlier one, each with the first that has it."""
    ids = snapshot.places.live_ids()
    sketches = snapshot.places.sketches(ids, SKETCH_BYTES).view(np.uint64).reshape(-1)
    _, which, counts = np.unique(sketches, return_inverse=True, return_counts=True)
    shared = ids[counts[which.reshape(-1)] > 1]
    seen: dict[bytes, int] = {}
    out = {}
    for part in np.array_split(shared, 1 + len(shared) // BATCH_ITEMS):
        for number, vector in zip(part.tolist(), snapshot.vectors(part), strict=True):
            digest = hashlib.blake2b((vector + 0.0).tobytes(), digest_size=16).digest()  # −0 is 0
            earlier = seen.setdefault(digest, number)
            if earlier != number:
                out[number] = earlier
    return out


def _standing_out(width: int, asked: Array, found: list[Neighbours]) -> Pairs:
    """Pairs at a small share of the usual distance to the nearest item, and of that to their ten nearest."""
    distances = [1 - each.cosines for each in found]
    nearest = [each[0] for each in distances if len(each) and each[0] > 1 - SAME]
    usual = float(np.median(nearest)) if nearest else 0.0
    share = min(NEAR, CHANCE ** (2 / width))  # in few dimensions neighbours may be as near by chance
    out: Pairs = {}
    for number, each, far in zip(asked.tolist(), found, distances, strict=True):
        if len(far) < NEAREST:
            continue
        near = far <= share * min(usual, float(np.median(far)))
        for other, cosine in zip(each.ids[near].tolist(), each.cosines[near].tolist(), strict=True):
            out[min(number, other), max(number, other)] = cosine
    return out
