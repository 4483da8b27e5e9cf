"""From queries to answers, all of them by one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sihash import codes as codes_module
from sihash._typing import Array
from sihash.database.answers import Answer, Hit
from sihash.database.catalogue import Catalogue
from sihash.database.errors import CorruptFile, DatabaseError
from sihash.database.snapshot import Snapshot
from sihash.database.sources import Features, ImageSource, describe, open_source


@dataclass(frozen=True)
class Wanted:
    """What is to be found: the ``k`` best or all within ``radius``; of ``classes`` only, if given."""

    k: int = 10
    radius: int | None = None
    rank: str | None = None
    classes: Iterable[Any] | None = None


def query_vectors(queries: Any, features: Features, width: int) -> Array:
    """Queries as vectors (n × width), float32: images described as the items were, vectors as they are."""
    if isinstance(queries, np.ndarray) and queries.dtype.kind == "f" and queries.ndim in (1, 2):
        X = np.atleast_2d(queries).astype(np.float32, copy=False)
    elif features.name == "none":
        X = _as_vectors(queries)
    else:
        X = _image_vectors(queries, features)
    if X.shape[1] != width:
        raise DatabaseError(f"Expected vectors of {width} numbers, as in the database, got {X.shape[1]}.")
    if not np.isfinite(X).all():
        raise DatabaseError("A query holds NaN or infinite numbers; leave it out.")
    return X


def _as_vectors(queries: Any) -> Array:
    try:
        X = np.atleast_2d(np.asarray(queries, dtype=np.float32))
    except (TypeError, ValueError):
        raise DatabaseError(
            "This database holds vectors; search for vectors (n × d), not for images."
        ) from None
    if X.ndim != 2:
        raise DatabaseError(f"Expected vectors (n × d), got an array of shape {X.shape}.")
    return X


def _image_vectors(queries: Any, features: Features) -> Array:
    several = isinstance(queries, list | tuple) or (isinstance(queries, np.ndarray) and queries.ndim == 4)
    source = open_source(list(queries) if several else [queries])
    assert isinstance(source, ImageSource)
    found, problems = describe(list(source.images), features.extractor(), False)
    if problems:
        number, reason = min(problems.items())
        raise DatabaseError(f"{source.names[number]} cannot be searched for: {reason}.")
    return np.concatenate([vectors for vectors, _ in found])


def margins(snapshot: Snapshot, X: Array) -> Array:
    """Signed scores of the bits (n × n_bits); what `SIH.decision_function` gives for rows already checked."""
    hasher = snapshot.hasher
    return hasher.kernel_(X) @ hasher.bit_coef_.T


def answers(
    snapshot: Snapshot,
    catalogue: Catalogue,
    scores: Array,
    wanted: Wanted,
    thumbnail: Callable[[int], bytes | None],
    own: Array | None = None,
) -> list[Answer]:
    """Answers to queries given by their margins (n × n_bits); ``own`` are items to leave out, one a query."""
    packed = codes_module.pack(codes_module.sign(scores))
    found = _find(snapshot, packed, wanted, own)
    rows = _rows(snapshot, catalogue, [ids for _, ids in found])
    out = []
    for code, (distances, ids) in zip(packed, found, strict=True):
        codes = snapshot.codes(ids)
        hits = []
        for number, distance, own_code in zip(ids.tolist(), distances.tolist(), codes, strict=True):
            label, name = rows[number]
            hits.append(Hit(number, label, distance, -float(distance), name, own_code.tobytes()))
        out.append(Answer(snapshot.version, "hamming", code.tobytes(), hits, thumbnail))
    return out


def _find(snapshot: Snapshot, packed: Array, wanted: Wanted, own: Array | None) -> list[tuple[Array, Array]]:
    """Distances and ids for each query."""
    allowed = None if wanted.classes is None else snapshot.ids_of(wanted.classes)
    if wanted.radius is None:
        distances, ids = snapshot.index.search(packed, wanted.k if own is None else wanted.k + 1, allowed)
        found = [(d[i >= 0], i[i >= 0]) for d, i in zip(distances, ids, strict=True)]
    else:
        found = snapshot.index.radius(packed, wanted.radius, allowed)
    if own is not None:
        found = [(d[i != me], i[i != me]) for (d, i), me in zip(found, own, strict=True)]
    stop = wanted.k if wanted.radius is None else None
    return [(d[:stop], i[:stop]) for d, i in found]


def _rows(snapshot: Snapshot, catalogue: Catalogue, ids: list[Array]) -> dict[int, tuple[Any, str]]:
    """Label and name of items by their ids."""
    every = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *ids])).tolist()
    rows = {row[0]: (snapshot.classes.get(row[2]), row[3]) for row in catalogue.rows_in("items", "id", every)}
    if len(rows) < len(every):
        raise Stale(
            f"{catalogue.path} is damaged: items are missing; restore it from a copy of the database."
        )
    return rows


class Stale(CorruptFile):
    """Something that the snapshot counts on is gone: by a compaction in another process, or by damage."""
