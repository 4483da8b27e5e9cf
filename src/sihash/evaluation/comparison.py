"""Learned codes compared with other methods, on the same data in one run.

All methods get the same queries and items, and one function scores all answers, query by query, so that
luck in the choice of queries is the same for all. Times are for one query after the other, in one thread.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sihash._typing import Array
from sihash.evaluation.advice import advice, paired_interval, size_words
from sihash.evaluation.alternatives import (
    Alternative,
    AlternativeScore,
    ByClass,
    ByClassThenCosine,
    Cosine,
    ProductQuantisation,
    RescoredSignBits,
    SignBits,
    Unavailable,
    linear_discriminants,
    nearest_class_mean,
)
from sihash.evaluation.ranked import RankedScores, ranked_scores
from sihash.threads import team

TIMED_QUERIES = 50

Makers = Iterable[tuple[str, Callable[[], Alternative]]]


@dataclass(frozen=True)
class Comparison:
    """``rows`` begin with the learned codes; ``skipped`` gives the reasons for missing methods.

    ``n_left_out`` more queries had nothing relevant to find. ``note`` says where the queries come from, or is
    empty.
    """

    rows: tuple[AlternativeScore, ...]
    skipped: dict[str, str]
    n_items: int
    n_queries: int
    n_left_out: int
    note: str = ""

    def advice(self) -> str:
        """One sentence: which method to use."""
        return advice(self.rows)


def compare(
    own_row: AlternativeScore,
    own_scores: RankedScores,
    X: Any,
    y: Any,
    queries: Any,
    query_labels: Any,
    code_bytes: int,
    *,
    own: Any = None,
    more: Makers = (),
    note: str = "",
) -> Comparison:
    """Compare ``own_row`` with the alternatives.

    Parameters
    ----------
    own_row, own_scores : AlternativeScore, RankedScores
        Of the ranking by learned codes, measured on the same items and queries.
    X : array, n × d
        The vectors of the items.
    y : integer array (n,), or bool (n × n_labels)
        Their class numbers, −1 for an item without a label, which is never relevant; or which labels they
        have, where they may have several. What predicts labels then learns the rarest of an item's labels.
    queries, query_labels : arrays (n_queries × d and n_queries), or bool (n_queries × n_labels)
        Those that ask, and their class numbers or labels.
    code_bytes : int
        Bytes of a learned code, which product quantisation gets too.
    own : integer array (n_queries,), optional
        Which item a query is itself, −1 for none. An item is no answer to itself, and what learns from labels
        learns from no item that asks.
    more : pairs of a name and a function without arguments
        Further alternatives, each made by its function when its turn comes.
    note : str
        Handed on.
    """
    X, y = np.asarray(X, dtype=np.float32), np.asarray(y)
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    labels = np.asarray(query_labels)
    own = np.full(len(queries), -1) if own is None else np.asarray(own, dtype=np.int64)
    _check(X, y, queries, labels, own)
    order = _content_order(X, y)
    X, y, own = X[order], y[order], np.append(np.argsort(order), -1)[own]
    if not own_scores.n_queries:
        raise ValueError(
            f"None of the {len(queries)} queries has an item of its class to find; ask with classes that the "
            "collection has."
        )
    measured, skipped = list[tuple[AlternativeScore, RankedScores]](), dict[str, str]()
    for name, make in chain(_alternatives(X, _rarest(y), own, code_bytes), more):
        try:
            alternative = make()
        except Unavailable as reason:
            skipped[name] = str(reason)
            continue
        found = ranked_scores(alternative.scores, y, queries, labels, own)
        ms = median_milliseconds(partial(alternative.first, k=10), queries)
        row = AlternativeScore(name, alternative.bytes_per_item, found.p_at_1, found.p_at_10, found.map, ms)
        measured.append((row, found))
    n_claims = 2 * len(measured)
    rows = [own_row]
    for row, found in measured:
        at_1, at_10, _ = found.per_query - own_scores.per_query
        at_1, at_10 = (paired_interval(each, n_claims) for each in (at_1, at_10))
        rows.append(replace(row, lead_at_1=at_1, lead_at_10=at_10))
    return Comparison(tuple(rows), skipped, len(X), own_scores.n_queries, own_scores.n_left_out, note)


def _check(X: Array, y: Array, queries: Array, labels: Array, own: Array) -> None:
    if X.ndim != 2 or queries.ndim != 2 or X.shape[1] != queries.shape[1] or not len(X):
        raise ValueError(
            f"Expected vectors (n × d) of items and of queries, of one width, got shapes {X.shape} and "
            f"{queries.shape}."
        )
    if len(y) != len(X) or not len(queries) == len(labels) == len(own):
        raise ValueError(
            f"Expected one class number per item and per query, got {len(y)} for {len(X)} items and "
            f"{len(labels)} for {len(queries)} queries."
        )


def _alternatives(
    X: Array, y: Array, own: Array, code_bytes: int
) -> Iterator[tuple[str, Callable[[], Alternative]]]:
    """Names and makers, one after the other: what one has learned is gone before the next one learns."""
    cosine, bits = Cosine(X), SignBits(X)
    learned = np.ones(len(X), dtype=bool)
    learned[own[own >= 0]] = False
    yield "cosine", lambda: cosine
    yield "sign bits", lambda: bits
    yield "sign bits, rescored", lambda: RescoredSignBits(bits, cosine)
    yield f"PQ, {size_words(code_bytes)}", lambda: ProductQuantisation(X, code_bytes)
    yield (
        "nearest class mean",
        lambda: ByClass("nearest class mean", nearest_class_mean(X, y, learned), y),
    )
    lda: list[ByClass] = []

    def lda_label() -> ByClass:
        lda.append(ByClass("LDA's label", linear_discriminants(X, y, learned), y))
        return lda[0]

    yield "LDA's label", lda_label
    if lda:
        yield "LDA's label and cosine", lambda: ByClassThenCosine(lda[0], cosine)


def _rarest(y: Array) -> Array:
    """Class numbers; the rarest of the labels of items that have several, −1 for those that have none."""
    if y.ndim == 1:
        return y
    return np.where(y.any(axis=1), np.where(y, y.sum(axis=0), len(y) + 1).argmin(axis=1), -1)


def _content_order(X: Array, y: Array) -> Array:
    """An order that follows from what the items are, not from where they are stored, and means nothing.

    Product quantisation learns from the first, and rescoring cuts ties off. Equal items of one class get
    numbers, so that they do not all come together: which one has which number makes no difference to any
    score.
    """
    seen, digests = Counter[bytes](), []
    for row, label in zip(X, y, strict=True):
        content = hashlib.blake2b(row.tobytes() + label.tobytes(), digest_size=16).digest()
        digests.append(hashlib.blake2b(content + seen[content].to_bytes(8), digest_size=8).digest())
        seen[content] += 1
    return np.argsort(np.frombuffer(b"".join(digests), dtype=np.uint64), kind="stable")


def median_milliseconds(answer: Callable[[Array], Any], queries: Array) -> float:
    """What one query takes, one after the other, by one thread; the first is not counted.

    More threads gain little on one query, and on a busy machine they wait for each other.
    """
    times = []
    with team(1), threadpool_limits(1, user_api="openmp"):  # of the BLAS; of FAISS
        answer(queries[0])
        for query in queries[:TIMED_QUERIES]:
            started = time.perf_counter()
            answer(query)
            times.append(time.perf_counter() - started)
    return 1000 * float(np.median(times))
