"""What one would take if there were no learned codes: the usual ways to search vectors or labels.

An alternative is made from the vectors of a collection (n × d, float32) and, if it needs them, their class
numbers (−1: no label). It says what it keeps of an item (``bytes_per_item``), scores all items for a block
of queries (``scores``, larger is better), and answers one query as its user would have it do (``first``).
One that cannot be had here raises `Unavailable` with the reason when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from sihash._typing import Array
from sihash.codes import as_words, hamming_of_words, n_bytes, pack

N_RESCORED = 200  # candidates by the sign bits, ordered again by the vectors
N_CENTRES = 256  # of product quantisation: one byte names one
PQ_ROWS = 20_000  # to learn centres from at most
INDEXED_ROWS = 8192


@dataclass(frozen=True)
class AlternativeScore:
    """One way to search: what it keeps of an item, how well it answers, how long a query takes."""

    name: str
    bytes_per_item: int
    p_at_1: float
    p_at_10: float
    map: float
    ms_per_query: float


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


class LdaLabel(Alternative):
    """A linear classifier's label and nothing else: items by how likely their label is for the query.

    Linear discriminant analysis with one covariance for all classes, shrunk after Ledoit and Wolf.
    ``learned`` (bool, n) says from which rows it may learn.
    """

    name = "LDA's label"

    def __init__(self, X: Array, y: Array, learned: Array) -> None:
        places = np.flatnonzero(learned & (y >= 0))
        classes, numbers = np.unique(y[places], return_inverse=True)
        if len(classes) < 2:
            raise Unavailable("it takes items of two classes at least to learn from")
        self._coef, self._intercept = _discriminants(X, places, numbers)
        # Labels that it could not learn share one more column, which always comes last.
        column = np.full(max(y.max(), 0) + 2, len(classes))  # the last place is that of −1
        column[classes] = np.arange(len(classes))
        self._column = column[y]
        by_class = np.argsort(self._column, kind="stable")
        self._items = np.split(
            by_class, np.searchsorted(self._column[by_class], np.arange(1, len(classes) + 1))
        )
        self.bytes_per_item = 1 if len(classes) <= 1 << 8 else 2 if len(classes) <= 1 << 16 else 4

    def classes(self, queries: Array) -> Array:
        """Scores of the classes (n_queries × n_classes), larger is likelier."""
        return queries @ self._coef.T + self._intercept

    def scores(self, queries: Array) -> Array:
        last = np.full((len(queries), 1), np.finfo(np.float32).min)
        return np.concatenate([self.classes(queries), last], axis=1)[:, self._column]

    def first(self, query: Array, k: int) -> Array:
        likeliest, found, n = np.argsort(-self.classes(query[None])[0]), list[Array](), 0
        for number in likeliest:
            found.append(self._items[number][: k - n])
            n += len(found[-1])
            if n == k:
                break
        return np.concatenate(found)


def _discriminants(X: Array, places: Array, numbers: Array) -> tuple[Array, Array]:
    """Coefficients and intercepts of linear discriminant analysis, learned from the rows at ``places``."""
    n, d = len(places), X.shape[1]
    counts = np.bincount(numbers)
    blocks = [slice(start, start + INDEXED_ROWS) for start in range(0, n, INDEXED_ROWS)]
    means, scatter, fourth = np.zeros((len(counts), d)), np.zeros((d, d)), 0.0
    for rows in blocks:
        np.add.at(means, numbers[rows], X[places[rows]])
    means /= counts[:, None]
    for rows in blocks:
        Z = (X[places[rows]] - means[numbers[rows]]).astype(np.float32)
        scatter += Z.T @ Z
        fourth += float(np.sum(np.sum(Z**2, axis=1, dtype=np.float64) ** 2))
    if not scatter.any():
        raise Unavailable("the items of each class are all the same: there is no spread to learn from")
    covariance = _shrunk(scatter / n, fourth / n, n)
    centre = counts @ means / n  # scores about it are small numbers, which float32 tells apart
    coef = scipy.linalg.solve(covariance, (means - centre).T, assume_a="pos").T
    intercept = np.log(counts / n) - 0.5 * np.sum(coef * (means + centre), axis=1)
    return coef.astype(np.float32), intercept.astype(np.float32)


def _shrunk(S: Array, fourth: float, n: int) -> Array:
    """A covariance of n centred rows moved towards a multiple of the identity, as far as Ledoit and Wolf say.

    ``fourth`` is the mean over the rows of their length to the power of four.
    """
    d = len(S)
    mean = np.trace(S) / d
    spread = np.sum(S**2) / d - mean**2  # squared distance to the multiple of the identity
    error = (fourth - np.sum(S**2)) / (n * d)  # the part of it that is due to so few rows
    share = min(error / spread, 1.0) if spread > 0 else 1.0
    return (1 - share) * S + share * mean * np.eye(d)


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
