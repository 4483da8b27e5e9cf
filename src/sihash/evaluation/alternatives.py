"""What one would take if there were no learned codes: the usual ways to search vectors or labels.

An alternative is made from the vectors of a collection (n × d, float32) or their class numbers (−1: no
label). It says what it keeps of an item (``bytes_per_item``), scores all items for a block
of queries (``scores``, larger is better), and answers one query as its user would have it do (``first``).
One that cannot be had here raises `Unavailable` with the reason when it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.special

from sihash._typing import Array
from sihash.codes import as_words, hamming_of_words, n_bytes, pack

N_RESCORED = 200  # candidates by the sign bits, ordered again by the vectors
N_CENTRES = 256  # of product quantisation: one byte names one
PQ_ROWS = 20_000  # to learn centres from at most
INDEXED_ROWS = 8192


Interval = tuple[float, float]


@dataclass(frozen=True)
class AlternativeScore:
    """One way to search: what it keeps of an item, how well it answers, how long a query takes.

    ``lead_at_1`` and ``lead_at_10`` are intervals of how much higher P@1 and P@10 are than those of the first
    way compared, query by query; None for that one itself.
    """

    name: str
    bytes_per_item: int
    p_at_1: float
    p_at_10: float
    map: float
    ms_per_query: float
    lead_at_1: Interval | None = None
    lead_at_10: Interval | None = None


class Unavailable(Exception):
    """An alternative that cannot be had; the message says why."""


class Alternative:
    """The common part: the first answers are those that score best."""

    name: str
    bytes_per_item: int

    def scores(self, queries: Array) -> Array:
        """Scores of all items (n_queries × n), larger is better."""
        raise NotImplementedError

    def first(self, query: Array, k: int) -> Array:
        """Places of the ``k`` best items for one query (d,), best first."""
        return _best(self.scores(query[None])[0], k)


class Cosine(Alternative):
    """Brute force over the vectors themselves."""

    name = "cosine"

    def __init__(self, X: Array) -> None:
        self._X = X
        self._inverse_norms = 1 / _norms(X)
        self.bytes_per_item = 4 * X.shape[1]

    def scores(self, queries: Array) -> Array:
        return (_unit(queries) @ self._X.T) * self._inverse_norms

    def of(self, query: Array, places: Array) -> Array:
        """Cosines with some of the items only."""
        return (self._X[places] @ _unit(query[None])[0]) * self._inverse_norms[places]


class SignBits(Alternative):
    """One bit per dimension: on which side of the mean a vector lies; compared by Hamming distance."""

    name = "sign bits"

    def __init__(self, X: Array) -> None:
        self.n_bits = X.shape[1]
        self._centre = X.mean(axis=0, dtype=np.float64).astype(np.float32)
        self._words = np.asfortranarray(self._bits(X))  # a word of all items lies together
        self.bytes_per_item = n_bytes(self.n_bits)

    def _bits(self, X: Array) -> Array:
        return as_words(pack(self._centre <= X))

    def distances(self, queries: Array) -> Array:
        """Hamming distances (n_queries × n)."""
        return hamming_of_words(self._bits(queries), self._words)

    def scores(self, queries: Array) -> Array:
        return -self.distances(queries).astype(np.float32)


class RescoredSignBits(Alternative):
    """The nearest items by sign bits, put in order by the cosine of their vectors; the others follow."""

    name = "sign bits, rescored"

    def __init__(self, bits: SignBits, cosine: Cosine) -> None:
        self._bits, self._cosine = bits, cosine
        self.bytes_per_item = bits.bytes_per_item + cosine.bytes_per_item

    def scores(self, queries: Array) -> Array:
        distances = self._bits.distances(queries)
        scores = -distances.astype(np.float32) / self._bits.n_bits
        for row, query, near in zip(scores, queries, distances, strict=True):
            candidates = _nearest(near)
            row[candidates] = 2 + self._cosine.of(query, candidates)  # above all that are no candidates
        return scores

    def first(self, query: Array, k: int) -> Array:
        candidates = _nearest(self._bits.distances(query[None])[0])
        return candidates[_best(self._cosine.of(query, candidates), k)]


class ProductQuantisation(Alternative):
    """FAISS' product quantisation of the vectors at unit length: a byte for each part of a vector."""

    def __init__(self, X: Array, code_bytes: int) -> None:
        self.name = f"PQ, {code_bytes} bytes"
        self.bytes_per_item = code_bytes
        try:
            import faiss
        except ImportError:
            raise Unavailable("FAISS is not installed: pip install 'sihash[database]'") from None
        n, d = X.shape
        if code_bytes > d:
            raise Unavailable(f"{code_bytes} bytes are more than the {d} numbers of a vector")
        if n < N_CENTRES:
            raise Unavailable(f"it learns {N_CENTRES} centres a byte, and there are {n} items")
        self._width = -(-d // code_bytes) * code_bytes  # parts of equal width: padded with zeros
        self._index = faiss.IndexPQ(self._width, code_bytes, 8)
        self._index.pq.cp.min_points_per_centroid = 1  # no talk on stderr of small collections
        self._index.train(self._padded(X[:PQ_ROWS]))
        for start in range(0, n, INDEXED_ROWS):
            self._index.add(self._padded(X[start : start + INDEXED_ROWS]))
        self._codes = faiss.vector_to_array(self._index.codes).reshape(n, code_bytes)
        self._centres = faiss.vector_to_array(self._index.pq.centroids).reshape(code_bytes, N_CENTRES, -1)

    def _padded(self, X: Array) -> Array:
        out = np.zeros((len(X), self._width), dtype=np.float32)
        out[:, : X.shape[1]] = _unit(X)
        return out

    def scores(self, queries: Array) -> Array:
        parts = self._padded(queries).reshape(len(queries), *self._centres.shape[::2])
        scores = np.zeros((len(queries), len(self._codes)), dtype=np.float32)
        for part, centres, codes in zip(parts.swapaxes(0, 1), self._centres, self._codes.T, strict=True):
            table = part @ centres.T - (centres**2).sum(axis=1) / 2  # −½ squared distance, but for |part|²
            scores += table[:, codes]
        return scores

    def first(self, query: Array, k: int) -> Array:
        return self._index.search(self._padded(query[None]), k)[1][0]


class ByClass(Alternative):
    """A label and nothing else: items by how likely their class is for the query.

    ``class_scores`` takes queries and gives scores of the classes 0 … K − 1 (n_queries × K), larger is
    likelier and −∞ for a class that it does not know. ``y`` are the class numbers of the items, −1 for
    none: these come last.
    """

    def __init__(self, name: str, class_scores: Callable[[Array], Array], y: Array) -> None:
        self.name, self.class_scores = name, class_scores
        n_classes = int(max(y.max(initial=0), 0)) + 1
        self._column = np.where(y >= 0, y, n_classes)  # items without a label share one more class
        by_class = np.argsort(self._column, kind="stable")
        self._items = np.split(by_class, np.searchsorted(self._column[by_class], np.arange(1, n_classes + 1)))
        self.bytes_per_item = 1 if n_classes < 1 << 8 else 2 if n_classes < 1 << 16 else 4

    def _of_columns(self, queries: Array) -> Array:
        known = self.class_scores(queries)
        scores = np.full((len(queries), len(self._items)), -np.inf)
        width = min(known.shape[1], len(self._items) - 1)
        scores[:, :width] = known[:, :width]
        return np.maximum(scores, np.finfo(np.float32).min)

    def scores(self, queries: Array) -> Array:
        return self._of_columns(queries)[:, self._column]

    def first(self, query: Array, k: int) -> Array:
        likeliest, found, n = np.argsort(-self._of_columns(query[None])[0]), list[Array](), 0
        for number in likeliest:
            found.append(self._items[number][: k - n])
            n += len(found[-1])
            if n == k:
                break
        return np.concatenate(found)


class ByClassThenCosine(Alternative):
    """Items by the log-probability of their class plus the cosine: a label and the vector of each item."""

    def __init__(self, by_class: ByClass, cosine: Cosine) -> None:
        self.name = f"{by_class.name} and cosine"
        self._by_class, self._cosine = by_class, cosine
        self.bytes_per_item = by_class.bytes_per_item + cosine.bytes_per_item

    def scores(self, queries: Array) -> Array:
        return self._by_class.scores(queries) + self._cosine.scores(queries)


def nearest_class_mean(X: Array, y: Array, learned: Array) -> Callable[[Array], Array]:
    """Scores of classes: the cosine of the centred query with the mean of a class's centred unit vectors.

    ``learned`` (bool, n) says which items may be learned from, as in `linear_discriminants`.
    """
    places = np.flatnonzero(learned & (y >= 0))
    if not len(places):
        raise Unavailable("it takes items with a label to learn from")
    centre = _unit(X[places]).mean(axis=0)
    means, counts = np.zeros((y.max() + 1, X.shape[1])), np.bincount(y[places], minlength=y.max() + 1)
    for rows in np.array_split(places, 1 + len(places) // INDEXED_ROWS):
        np.add.at(means, y[rows], _unit(X[rows]) - centre)
    means = _unit(means).astype(np.float32)  # of a sum: its direction is that of the mean
    unknown = np.where(counts > 0, 0, -np.inf)
    return lambda queries: (_unit(queries) - centre) @ means.T + unknown


def linear_discriminants(X: Array, y: Array, learned: Array) -> Callable[[Array], Array]:
    """Log-probabilities of classes by linear discriminant analysis, with one covariance for all classes.

    The covariance is that of the items about their class means, shrunk as Ledoit and Wolf say (scikit-learn's
    LDA shrinks every class by itself, which classes of few items do not bear); classes count by their size.
    """
    from sklearn.covariance import ledoit_wolf  # takes its time, and searches have no use for it

    places = np.flatnonzero(learned & (y >= 0))
    classes, numbers = np.unique(y[places], return_inverse=True)
    if len(classes) < 2:
        raise Unavailable("it takes items of two classes at least to learn from")
    counts = np.bincount(numbers)
    means = np.zeros((len(classes), X.shape[1]))
    np.add.at(means, numbers, X[places])
    means /= counts[:, None]
    residuals = (X[places] - means[numbers]).astype(np.float32)
    if not residuals.any():
        raise Unavailable("the items of each class are all the same: there is no spread to learn from")
    covariance = ledoit_wolf(residuals, assume_centered=True)[0].astype(np.float64)
    centre = counts @ means / len(places)  # scores about it are small numbers, which float32 tells apart
    coef = scipy.linalg.solve(covariance, (means - centre).T, assume_a="pos")
    intercept = np.log(counts / len(places)) - 0.5 * np.sum(coef.T * (means + centre), axis=1)

    def log_proba(queries: Array) -> Array:
        scores = np.full((len(queries), y.max() + 1), -np.inf)
        scores[:, classes] = scipy.special.log_softmax(queries @ coef + intercept, axis=1)
        return scores

    return log_proba


def _norms(X: Array) -> Array:
    """Lengths of the rows; 1 for a row of zeros, so that it can be divided by."""
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    return np.where(norms > 0, norms, np.float32(1))


def _unit(X: Array) -> Array:
    return X / _norms(X)[:, None]


def _best(scores: Array, k: int) -> Array:
    """Places of the k largest scores, largest first."""
    some = np.argpartition(-scores, k)[:k] if k < len(scores) else np.arange(len(scores))
    return some[np.argsort(-scores[some])]


def _nearest(distances: Array) -> Array:
    """Places of the candidates for rescoring; of equal distances the first places."""
    n = len(distances)
    keys = distances.astype(np.int64) * n + np.arange(n)
    return np.argpartition(keys, N_RESCORED)[:N_RESCORED] if n > N_RESCORED else np.arange(n)
