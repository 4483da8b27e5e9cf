"""A smaller collection that has never seen some of its rows, and those rows as queries.

A row that a mean, an anchor or a weight has seen cannot tell how good they are. So some rows ask, others are
kept, and hash functions and class statistics are made again from those that are kept. Weights are found, and
quality is estimated, on such collections.

Classes of one row have none to spare. So that small classes occur among the answers as often as they do in
the whole, the others can be thinned out: the classes that ask get the sizes of all classes, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sihash._typing import Array
from sihash.hashing.class_model import Asking, Spread
from sihash.hashing.hash_functions import HashFunctions, KnownModel
from sihash.hashing.settings import Settings
from sihash.splitmix import mixed

MOST_ROWS = 20_000  # that a rehearsal is made of
FEWEST_OF_CLASS = 20  # rows of a class among them, if it has them
MOST_ASKING, MOST_SCORES = 2000, 1_000_000  # rows that ask, and their class scores
ASKING_SHARE = 0.2  # of a class at most
ENOUGH_ROWS, MOST_FOLDS = 2500, 5  # with fewer rows several rehearsals share the work

LabelSet = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Rows that are ``asking`` and those that were ``kept``, by their places, and what was made of these."""

    asking: Array
    kept: Array
    functions: HashFunctions
    likeliest: Sequence[object] = ()

    def with_spread(self, spread: Spread) -> Rehearsal:
        """With the numbers of another spread; W stays that of the rows that were kept."""
        model = self.functions.class_model()
        own = replace(spread, variances=model.spread.variances, axes=model.spread.axes)
        heads = KnownModel(replace(model, spread=own))
        return replace(self, functions=replace(self.functions, heads=heads))

    def answering(self, ids: Array, asked: Asking) -> Rehearsal:
        """With the ids of rows for their places, and the likeliest class of those that ask."""
        functions = self.functions
        log_p = functions.class_model().log_proba(asked.Z, asked.margins)
        likeliest = functions.classes_[log_p.argmax(axis=1)].tolist()
        return replace(self, asking=ids[self.asking], kept=ids[self.kept], likeliest=likeliest)

    def asked(self, X: Array, labels: Sequence[LabelSet]) -> Asking:
        """The rows that ask as the class model sees them; ``X`` and ``labels`` are of all rows."""
        model, functions = self.functions.class_model(), self.functions
        number = {own: k for k, own in enumerate(functions.label_sets())}
        y = np.array([number[frozenset(labels[k])] for k in self.asking.tolist()], dtype=np.intp)
        queries = X[self.asking]
        return Asking(model, functions.directions(queries), functions.decision_function(queries), y)


def rehearse(
    settings: Settings,
    width: float,
    X: Array,
    labels: Sequence[LabelSet],
    divisions: Iterable[tuple[Array, Array]] | None = None,
) -> Iterator[Rehearsal]:
    """Rehearsals of labelled rows ``X`` by the kernel ``width`` of the whole; none if nothing can ask.

    ``divisions`` say which rows ask and which are kept; the default suits the weights of the class model.
    """
    from sihash.engines import open_engine
    from sihash.hashing.training import Change, Training

    for asking, kept in folds(labels) if divisions is None else divisions:
        if not len(asking) or len({label for k in kept.tolist() for label in labels[k]}) < 2:
            return
        own = settings.checked(
            n_anchors=min(settings.n_anchors, len(kept)),
            anchors=settings.anchors if isinstance(settings.anchors, str) else "classes",
            codebook=settings.codebook if isinstance(settings.codebook, str) else "learned",
            kernel_width=width,
            training_rows="all",
            solver="auto",
            engine=None,
            verbose=False,
        )
        empty = Training(own, open_engine(None), np.random.RandomState(0))
        second = empty.after(Change(X[kept], [list(labels[k]) for k in kept.tolist()]))
        model = second.unfitted_model()
        yield Rehearsal(asking, kept, replace(second.functions(), heads=KnownModel(model)))


def numbered(labels: Sequence[LabelSet]) -> Array:
    """A number for every label set."""
    number: dict[frozenset[object], int] = {}
    return np.array([number.setdefault(frozenset(own), len(number)) for own in labels], dtype=np.intp)


def folds(labels: Sequence[LabelSet]) -> Iterator[tuple[Array, Array]]:
    """Divisions for the weights: few rows are divided several times.

    Where rows have several labels, most label sets are rare, and rows ask as they come.
    """
    y = numbered(labels)
    several = any(len(own) > 1 for own in labels)
    for fold in range(min(MOST_FOLDS, -(-ENOUGH_ROWS // max(1, len(y))))):
        if several:
            yield as_they_come(labels, min(_most_asking(y), int(ASKING_SHARE * len(y))), fold)
        else:
            yield divide(y, np.random.RandomState(fold))


def _most_asking(y: Array) -> int:
    return max(MOST_ASKING // 4, min(MOST_ASKING, MOST_SCORES // (int(y.max()) + 1)))


def as_they_come(labels: Sequence[LabelSet], n: int, seed: int = 0) -> tuple[Array, Array]:
    """``n`` rows that ask, drawn as queries come, and all others; every label set keeps a row."""
    y = numbered(labels)
    rng = np.random.RandomState(seed)
    order = rng.permutation(len(y))
    _, first = np.unique(y[order], return_index=True)
    free = np.setdiff1d(order, order[first])
    asking = np.sort(rng.permutation(free)[:n])
    return asking, np.setdiff1d(np.arange(len(y)), asking)


def divide(y: Array, rng: np.random.RandomState) -> tuple[Array, Array]:
    """Places of the rows that ask, as many of each head class as can be, and of those kept, thinned out."""
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    sizes = np.bincount(y)
    rank = np.empty(len(y), dtype=np.intp)
    rank[order] = np.arange(len(y)) - (np.cumsum(sizes) - sizes)[y[order]]
    n_asking = np.where(sizes >= 2, np.maximum(1, np.floor(ASKING_SHARE * sizes)), 0).astype(np.intp)
    most = _most_asking(y)
    if n_asking.sum() > most:  # as evenly as can be
        each = max(e for e in range(1, most + 1) if e == 1 or np.minimum(n_asking, e).sum() <= most)
        n_asking = np.minimum(n_asking, each)
    n_kept = sizes - n_asking
    several = np.flatnonzero(sizes >= 2)
    several = several[np.argsort(-sizes[several], kind="stable")]
    places = (np.arange(len(several)) + 0.5) / max(1, len(several)) * len(sizes)
    n_kept[several] = np.minimum(n_kept[several], np.sort(sizes)[::-1][places.astype(np.intp)])
    asks = rank < n_asking[y]
    return np.flatnonzero(asks), np.flatnonzero(~asks & (rank < (n_asking + n_kept)[y]))


def sample(keys: Array, y: Array) -> Array:
    """Places of the rows that rehearsals are made of, ascending: all, or a fair share of each class."""
    if len(y) <= MOST_ROWS:
        return np.arange(len(y))
    sizes = np.bincount(y)
    wanted = np.maximum(np.minimum(sizes, FEWEST_OF_CLASS), sizes * MOST_ROWS // len(y))
    order = np.lexsort((mixed(keys), y))
    rank = np.arange(len(y)) - (np.cumsum(sizes) - sizes)[y[order]]
    return np.sort(order[rank < wanted[y[order]]])
