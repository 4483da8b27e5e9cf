"""Words that hash functions can learn: the codebook climbs what the features explain of its bits.

How well a dichotomy b ∈ {±1}^K of the classes can be learned has a closed form under ridge regression: of the
rows' targets the features explain ``bᵀMb`` with ``M = YᵀΦ(ΦᵀΦ + λI)⁻¹ΦᵀY``, Y the classes of the rows
one-hot; a row with several labels is shared out among them. From well-separated words, single bits are
flipped while that raises

    Σ_j b_jᵀ M b_j  −  μ Σ_{k≠l} ⟨w_k, w_l⟩⁴ / m³.

The first term makes bits easy, the second keeps words apart. μ is halved until the words are as crowded as
they may be: a mean fourth power of 2m², where random words have 3m². Measured on held-out rows of data with
10 to 1,600 classes, that is near the best μ of each, which differs by a factor of 40 between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sihash._typing import Array
from sihash.hashing.class_sample import rows_at
from sihash.hashing.codebook import every_split_fits, make_codebook
from sihash.hashing.label_sets import LabelSets, words_of_sets
from sihash.hashing.training_state import NewRows, TrainingState
from sihash.kernel import KernelMap, row_blocks
from sihash.svm.blocks import Block
from sihash.svm.svm_state import RowCounter
from sihash.threads import map_threads

WORD_ROWS, WORD_ROWS_PER_CLASS = 8000, 15  # of the sample: so many in all, and of each class, if there are
RIDGE_SHARE = 1e-5  # λ, as a share of the trace of ΦᵀΦ
CROWDED = 2.0  # mean fourth power of the words' products at most, in units of m²
FIRST_MU, N_HALVINGS = 16.0, 8  # μ at first, in units of M's mean row sum, for one class; falls with √K
N_SWEEPS = 5  # over all words, for each μ
MOST_CLASSES = 2000  # whose words are compared with each other
SETTLED_BITS = 0.005  # share of the bits that flip in a sweep that is the last


def learned_codebook(
    kernel: KernelMap,
    rows: NewRows,
    label_sets: LabelSets,
    sizes: Array,
    n_bits: int,
    balanced: bool,
    rng: np.random.RandomState,
) -> Array:
    """Learned words for classes with so many rows (``sizes``); ``balanced`` as in `make_codebook`.

    So few classes that every way to split them fits into the code get every split.
    """
    words = make_codebook("separated", n_bits, sizes, balanced, rng)
    if every_split_fits(len(sizes), n_bits):
        return words
    some = sample_of_classes(rows.y, rng)
    Phi = kernel(rows.X[some].astype(np.float32, copy=False))
    set_sizes = np.bincount(rows.sets, minlength=len(label_sets.members))
    sums = sample_sums(Phi, rows.sets[some], set_sizes, label_sets.shares(len(sizes)))
    return learn_many_words(words, *sums, np.arange(len(words)), rng)


def learn_new_words(training: TrainingState, fresh: Array, rng: np.random.RandomState) -> None:
    """Move the words of ``fresh`` classes, whose rows have just joined: the same climb, the others stay.

    The Gram matrix is the one that the SVMs are going to need, and all rows are summed up.
    """
    svms, table, live = training.svms, training.table, training.live
    shares = training.sets.shares(len(training.labels))[live][:, table.sets].astype(np.float32)
    (sums,) = svms.rows.total(_class_sums, shares.tocsc())
    movable = np.flatnonzero(np.isin(live, fresh))
    gram = svms.current_gram().matrix
    words = np.zeros((len(training.labels), table.words.shape[1]), np.int8)
    words[live] = learn_many_words(training.class_words(live), gram, sums, movable, rng)
    changed = training.sets.hold(table.sets, fresh).any(axis=1)
    sets = [list(training.sets.members[s]) for s in table.sets[changed]]
    table.replace(np.flatnonzero(changed), np.array([words_of_sets(words[own]) for own in sets]))
    svms.before_turning()
    svms.count(svms.rows.total(_take_words, svms.counter(), table.words, changed))


def _class_sums(block: Block, shares: Any) -> tuple[Array]:
    """Sums of Φ by class; ``shares`` (classes × pairs) says what classes have of a row."""
    return (shares[:, block["pair"]] @ block["Phi"],)


def _take_words(block: Block, counter: RowCounter, words: Array, changed: Array) -> tuple[Array, ...] | None:
    """Write the words of pairs that have ``changed`` to their rows."""
    rows = np.flatnonzero(changed[block["pair"]])
    return counter.turn(block, rows, words[block["pair"][rows]]) if len(rows) else None


def sample_of_classes(y: Array, rng: np.random.RandomState) -> Array:
    """Numbers of rows, as many of each class as there is room for, class after class."""
    shuffled = rng.permutation(len(y))
    sizes = np.bincount(y)
    every = np.maximum(1, sizes // max(WORD_ROWS_PER_CLASS, WORD_ROWS // len(sizes)))
    return shuffled[rows_at(y[shuffled], every)]


def sample_sums(Phi: Array, sets: Array, sizes: Array, shares: Any) -> tuple[Array, Array]:
    """ΦᵀΦ and the sums of Φ by class, from features of a sample of rows.

    ``sets`` are the label sets of the rows, ``sizes`` counts all rows of each set, and ``shares`` (classes ×
    sets, sparse) says what classes have of them.
    """
    order = np.argsort(sets, kind="stable")
    Phi, sets = Phi[order], sets[order]
    weight = (sizes / np.maximum(np.bincount(sets, minlength=len(sizes)), 1)).astype(np.float32)
    starts = np.flatnonzero(np.r_[True, np.diff(sets) > 0])
    sums = np.zeros((len(sizes), Phi.shape[1]))
    sums[sets[starts]] = np.add.reduceat(Phi, starts, axis=0)
    sums = shares @ (sums * weight[:, None])
    Phi *= np.sqrt(weight)[sets][:, None]
    grams = map_threads(lambda rows: Phi[rows].T @ Phi[rows], row_blocks(len(Phi), 4096))
    return np.add.reduce(grams), sums


def explained(gram: Array, sums: Array) -> Array:
    """M, from ΦᵀΦ and the sums of Φ by class, less what a constant explains."""
    M = sums @ cho_solve(_factor(gram), sums.T, check_finite=False)
    total = M.sum(axis=0)
    return M - np.outer(total, total) / total.sum()


def _factor(gram: Array) -> Any:
    """The Cholesky factor of ΦᵀΦ + λI."""
    gram = gram.astype(np.float64)
    gram[np.diag_indices(len(gram))] += RIDGE_SHARE * np.trace(gram)
    return cho_factor(gram, lower=True, check_finite=False)


def learn_many_words(
    words: Array, gram: Array, sums: Array, movable: Array, rng: np.random.RandomState
) -> Array:
    """`learn_words` for up to `MOST_CLASSES`, whose products with each other fit into memory and time.

    With more, so many are drawn, ``movable`` ones first. The other movable ones get the bits that ridge
    regression on the words of these predicts for them, as many +1 as −1.
    """
    if len(words) <= MOST_CLASSES:
        return learn_words(words, explained(gram, sums), movable, rng)
    others = np.setdiff1d(np.arange(len(words)), movable)
    drawn = np.sort(np.r_[rng.permutation(movable), rng.permutation(others)][:MOST_CLASSES])
    can_move = np.flatnonzero(np.isin(drawn, movable))
    words = words.copy()
    words[drawn] = learn_words(words[drawn], explained(gram, sums[drawn]), can_move, rng)
    rest = np.setdiff1d(movable, drawn)
    if len(rest):
        weights = cho_solve(_factor(gram), sums[drawn].T @ words[drawn], check_finite=False)
        predicted = sums[rest] @ weights
        words[rest] = np.where(predicted > np.median(predicted, axis=0), 1, -1)
    return words


def learn_words(words: Array, M: Array, movable: Array, rng: np.random.RandomState) -> Array:
    """Words (int8) that are as easy as they can be without being too crowded; only ``movable`` ones move."""
    mu = FIRST_MU / np.sqrt(len(words)) * float(np.mean(np.abs(M).sum(axis=1) - np.abs(np.diag(M))))
    for _ in range(N_HALVINGS):
        easier = climb(words, M, mu, movable, rng)
        if crowding(easier, movable) > max(CROWDED, crowding(words, movable)):
            break
        words, mu = easier, mu / 2
    return words


def crowding(words: Array, movable: Array) -> float:
    """Mean fourth power of the products of ``movable`` words with all others, in units of m²."""
    B, m = words.astype(np.float32), words.shape[1]
    squares = (B[movable] @ B.T) ** 2
    fourth = float(np.vdot(squares, squares)) - len(movable) * m**4  # less those with themselves
    return fourth / (len(movable) * (len(words) - 1) * m**2)


def climb(words: Array, M: Array, mu: float, movable: Array, rng: np.random.RandomState) -> Array:
    """Flip bits of the ``movable`` words while that raises the objective at this μ.

    Flipping bit j of word k raises the first term by ``−4 b_kj ((Mb_j)_k − M_kk b_kj)`` and the sum of fourth
    powers by ``2 Σ_l (−8 s P³ + 24 P² − 32 s P + 16)`` with ``P = ⟨w_k, w_l⟩`` and ``s = w_kj w_lj``: for all
    bits of a word that is a product of a vector and a matrix.
    """
    B, M = words.astype(np.float32), M.astype(np.float32)
    K, m = B.shape
    price = np.float32(2 * mu / m**3)
    explains = M @ B
    for _ in range(N_SWEEPS):
        n_flips = 0
        for k in rng.permutation(movable):
            word, P = B[k].copy(), B @ B[k]
            P[k] = 0
            easier = -4 * word * (explains[k] - M[k, k] * word)
            flipped = np.zeros(m, bool)
            while not flipped.all():
                crowds = 24 * (P @ P) + 16 * (K - 1) - word * ((P * (8 * P * P + 32)) @ B)
                gain = np.where(flipped, -np.inf, easier - price * crowds)
                j = int(np.argmax(gain))
                if gain[j] <= 0:
                    break
                P -= 2 * word[j] * B[:, j]
                P[k] = 0
                flipped[j] = True
            explains[:, flipped] -= 2 * np.outer(M[:, k], word[flipped])
            B[k, flipped] = -word[flipped]
            n_flips += int(flipped.sum())
        if n_flips <= SETTLED_BITS * m * len(movable):
            break
    return B.astype(np.int8)
