"""From queries to answers, all of them by one snapshot."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from sihash._typing import Array
from sihash.checks import as_numbers, check_count
from sihash.codes import pack, sign
from sihash.database.answers import Answer, Hit, Id, LabelSet, Why
from sihash.database.describing import Features, describe
from sihash.database.snapshot import Snapshot
from sihash.database.sources import ImageSource, as_list, open_source, plain_column
from sihash.datasets.roles import NO_COLUMNS
from sihash.datasets.tables import is_table_in_memory, read_table
from sihash.index.base import check_radius
from sihash.labels import several
from sihash.ranking import Found, Rank, Reasons, Weights, check_rank
from sihash.ranking.ranker import Query
from sihash.store.catalogue import Catalogue
from sihash.store.errors import DatabaseError
from sihash.store.ids import of_row
from sihash.threads import map_threads, team

DEFAULT_K = 10


@dataclass(frozen=True)
class Wanted:
    """What is to be found: the ``k`` best; with a ``radius`` all within it (``k`` None), or the best of them.

    Of ``classes`` only, and where columns meet the conditions ``where``, if given. With ``rescore`` by the
    vectors of candidates, not by sketches of them.
    """

    k: int | None
    radius: int | None
    rank: Rank
    classes: list[Any] | None
    where: str | None = None
    rescore: bool = False


def wanted(
    k: int | None,
    radius: int | None,
    rank: str | None,
    classes: Iterable[Any] | None,
    where: str | None = None,
    rescore: bool = False,
) -> Wanted:
    """What the caller asked for, checked."""
    try:
        if k is not None:
            check_count("k", k)
        elif radius is None:
            k = DEFAULT_K
        if radius is not None:
            check_radius(radius)
        chosen = None if classes is None else several(classes)
        return Wanted(k, radius, check_rank(rank), chosen, where, rescore)
    except ValueError as error:
        raise DatabaseError(str(error)) from None


def query_vectors(queries: Any, features: Features) -> Array:
    """Queries as vectors (n × d), float32: images described as the items were, vectors as they are.

    Before a snapshot is held, for images take their time; `fitting` compares their width with those there.
    """
    queries = as_list(plain_column(queries))
    if is_table_in_memory(queries):
        queries = read_table(queries, "", NO_COLUMNS).X
        queries = queries if isinstance(queries, np.ndarray) else list(queries)
    is_matrix = isinstance(queries, np.ndarray) and queries.dtype.kind in "fc" and queries.ndim in (1, 2)
    X = _as_vectors(queries) if is_matrix or features.name == "none" else _image_vectors(queries, features)
    if not np.isfinite(X).all():
        raise DatabaseError("A query holds NaN or infinite numbers, or some past 3.4e38; leave it out.")
    return X


def _as_vectors(queries: Any) -> Array:
    if _is_image(queries[0] if isinstance(queries, list | tuple) and queries else queries):
        raise DatabaseError("This database holds vectors; search for vectors (n × d), not for images.")
    try:
        X = np.atleast_2d(as_numbers(queries, "A query"))
    except ValueError as error:
        raise DatabaseError(str(error)) from None
    if X.ndim != 2:
        raise DatabaseError(f"Expected vectors (n × d), got an array of shape {X.shape}.")
    with np.errstate(over="ignore"):  # beyond float32 is infinite, and refused
        return X.astype(np.float32, copy=False)


def _is_image(query: Any) -> bool:
    return isinstance(query, str | bytes | os.PathLike | Image.Image)


def _image_vectors(queries: Any, features: Features) -> Array:
    several = isinstance(queries, list | tuple) or (isinstance(queries, np.ndarray) and queries.ndim == 4)
    source = open_source(list(queries) if several else [queries])
    assert isinstance(source, ImageSource)
    found, problems = describe(source.images, features.extractor(), False)
    if problems:
        number, reason = min(problems.items())
        raise DatabaseError(f"{source.names[number]} cannot be searched for: {reason}.")
    return np.concatenate([vectors for vectors, _ in found])


def fitting(snapshot: Snapshot, X: Array) -> Array:
    """Vectors of queries, if they are as wide as those of the items."""
    if X.shape[1] != snapshot.width:
        raise DatabaseError(
            f"Expected vectors of {snapshot.width} numbers, as in the database, got {X.shape[1]}."
        )
    return X


def margins(snapshot: Snapshot, X: Array) -> Array:
    """Signed scores of the bits (n × n_bits); what `SIH.decision_function` gives for rows already checked."""
    hasher = snapshot.hasher
    return hasher.kernel_(X) @ hasher.bit_coef_.T


def answers(
    snapshot: Snapshot,
    catalogue: Catalogue,
    X: Array,
    ask: Wanted,
    thumbnail: Callable[[Id], bytes | None],
    own: Array | None = None,
) -> list[Answer]:
    """Answers to queries given by their vectors (n × d); ``own`` are items to leave out, one per query."""
    with team():  # a BLAS with several threads is late where other programs run
        scores = margins(snapshot, X)
        found = find(snapshot, scores, X, ask, own)
    packed = pack(sign(scores))
    rows = _rows(snapshot, catalogue, [each.ids for each, _ in found])
    weights = snapshot.weights
    out = []
    for query, (each, reasons) in zip(packed, found, strict=True):
        codes = snapshot.codes(each.ids)
        distances = np.bitwise_count(query ^ codes).sum(axis=1)
        hits = [
            Hit(*rows[number], distance, score, code.tobytes(), Why(*why), said)
            for number, distance, score, code, said, *why in zip(
                each.ids.tolist(),
                distances.tolist(),
                each.scores.tolist(),
                codes,
                snapshot.places.columns(each.ids),
                reasons.same_class.tolist(),
                reasons.margin.tolist(),
                reasons.vector.tolist(),
                strict=True,
            )
        ]
        remark = looks_like_none(weights) if each.familiar is False and own is None else None
        out.append(Answer(snapshot.version, ask.rank, query.tobytes(), hits, remark, thumbnail))
    return out


def find(
    snapshot: Snapshot, scores: Array, X: Array, ask: Wanted, own: Array | None
) -> list[tuple[Found, Reasons]]:
    """Ids and scores of the ranking for each query, best first, and why."""
    allowed = numbers_allowed(snapshot, ask.classes, ask.where)
    ranker = snapshot.exact_ranker if ask.rescore or ask.rank == "vector" else snapshot.ranker

    def one(number: int) -> tuple[Found, Reasons]:
        query = Query(scores[number], X[number], -1 if own is None else int(own[number]))
        if ask.radius is not None:
            found = ranker.within(ask.rank, query, ask.radius, allowed, ask.k)
        else:
            assert ask.k is not None
            found = ranker.nearest(ask.rank, query, ask.k, allowed)
        return found, ranker.reasons(ask.rank, query, found, allowed)

    return map_threads(one, range(len(X)))


def numbers_allowed(snapshot: Snapshot, classes: list[Any] | None, where: str | None) -> Array | None:
    """Numbers of the items of some classes that meet some conditions, ascending; None if all do."""
    of_classes = None if classes is None else snapshot.ids_of(classes)
    if where is None:
        return of_classes
    matching = snapshot.matching(where)
    return matching if of_classes is None else np.intersect1d(of_classes, matching, assume_unique=True)


def looks_like_none(weights: Weights) -> str:
    """The remark on a query that is far from everything, with how often it is wrong."""
    return (
        "looks like none of the classes "
        f"(as do {100 * weights.refused:.0f} % of {weights.n_rows:,} items that belong to one)"
    )


def _rows(snapshot: Snapshot, catalogue: Catalogue, ids: list[Array]) -> dict[int, tuple[Id, LabelSet, str]]:
    """Id, labels and name of items by their numbers."""
    every = sorted({number for found in ids for number in found.tolist()})
    rows = catalogue.items(every)
    if len(rows) < len(every):  # by a compaction since, or by damage; `Database` tells which
        raise catalogue.corrupt("items are missing")
    labels = snapshot.labels(np.array(every, dtype=np.int64))
    return {
        number: (of_row(number, rows[number][5]), own, rows[number][3])
        for number, own in zip(every, labels, strict=True)
    }
