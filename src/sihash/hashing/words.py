"""A code word for every class: far from the other words, balanced over the collection, easy to learn.

**Separated** words are random ones, improved one after the other until they are far apart and their columns
balanced and distinct. **Random** words are the paper's. **Learned** words are separated ones that then change
single bits to what the features can tell apart. How well a dichotomy b ∈ {±1}^K of the classes can be learned
has a closed form under ridge regression: of the rows' targets the features explain ``bᵀMb`` with ``M =
YᵀΦ(ΦᵀΦ + λI)⁻¹ΦᵀY``, Y the classes of the rows one-hot; a row with several labels is shared out among them.
Bits are flipped while that raises

    Σ_j b_jᵀ M b_j  −  μ Σ_{k≠l} ⟨w_k, w_l⟩⁴ / m³.

The first term makes bits easy, the second keeps words apart. μ is halved until the words are as crowded as
they may be: a mean fourth power of 2m², where random words have 3m². Measured on held-out rows of data with
10 to 1,600 classes, that is near the best μ of each, which differs by a factor of 40 between them.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sihash._typing import Array
from sihash.threads import map_threads

N_STARTS = 4
N_DRAWS = 8  # of random words, until no two classes have the same
PATIENCE = 8  # tries in vain, as a multiple of the moves there are, until words count as settled
# What balance counts for a new word: in full it would fix every bit and leave nothing for distance.
NEW_WORD_BALANCE = 0.005
RIDGE_SHARE = 1e-5  # λ of the ridge regression, as a share of the trace of ΦᵀΦ
CROWDED = 2.0  # mean fourth power of the words' products at most, in units of m²
FIRST_MU, N_HALVINGS = 16.0, 8  # μ at first, in units of M's mean row sum, for one class; falls with √K
N_SWEEPS = 5  # over all words, for each μ
MOST_CLASSES = 2000  # whose words are compared with each other
SETTLED_BITS = 0.005  # share of the bits that flip in a sweep that is the last


def first_words(
    codebook: str | Array,
    n_bits: int,
    sizes: Array,
    balanced: bool,
    rng: np.random.RandomState,
    known: Array | None = None,
    known_sizes: Array | None = None,
) -> Array:
    """Words for classes that come, int8 ±1 (n_classes × n_bits).

    ``sizes`` counts their rows, for bits that are to be ``balanced`` over the rows. ``known`` are the words
    of the classes before, of ``known_sizes``; given words are those of the first classes. Learned words begin
    as separated ones (`learn_words`).
    """
    is_first = known is None or not len(known)
    if not isinstance(codebook, str) and is_first:
        return _given_words(np.asarray(codebook), n_bits, len(sizes))
    if isinstance(codebook, str) and codebook == "random":
        return random_codebook(n_bits, sizes, balanced, rng, known, known_sizes)
    if known is not None and known_sizes is not None and not is_first:
        return joining_words(known, known_sizes, sizes, balanced, rng)
    if every_split_fits(len(sizes), n_bits):
        return exhaustive_words(n_bits, sizes)
    return separated_words(n_bits, sizes, balanced, rng)


def _given_words(words: Array, n_bits: int, n_classes: int) -> Array:
    if words.shape != (n_classes, n_bits) or not np.isin(words, (-1, 1)).all():
        raise ValueError(
            f"codebook must hold −1 and +1 in {n_classes} rows (classes) and {n_bits} columns (bits), "
            f"got shape {words.shape}."
        )
    if (words == words[0]).all():
        raise ValueError("codebook gives every class the same word; give words that tell classes apart.")
    return words.astype(np.int8)


def random_codebook(
    n_bits: int,
    sizes: Array,
    balanced: bool,
    rng: np.random.RandomState,
    known: Array | None = None,
    known_sizes: Array | None = None,
) -> Array:
    """The paper's words: random, and with ``balanced`` drawn so that the columns come out even.

    For classes that join the ``known`` words, whose columns they even out. Words are drawn again if two
    classes have the same, as the only even words for a class may be those of another; in the end freely.
    """
    known = np.empty((0, n_bits), np.int8) if known is None else known
    surplus = np.zeros(n_bits) if known_sizes is None else np.asarray(known_sizes, dtype=float) @ known
    best, most = np.empty((0, n_bits), np.int8), -1
    for attempt in range(2 * N_DRAWS):
        words = random_words(n_bits, sizes, balanced and attempt < N_DRAWS, rng, surplus)
        n_distinct = len(np.unique(np.concatenate([known, words]), axis=0))
        if n_distinct > most:
            best, most = words, n_distinct
        if most == len(known) + len(words):
            break
    return best


def random_words(
    n_bits: int, sizes: Array, balanced: bool, rng: np.random.RandomState, surplus: Array | float = 0.0
) -> Array:
    """Random strings; with ``balanced`` drawn one class after the other, so that columns become even.

    The paper's "sequential sampling procedure where balanced codes have a higher probability". Classes come
    in random order. With R rows in the classes still to come, this one included, and a surplus s of +1 over
    −1 in the rows before, a bit is +1 with probability (R − s) / 2R: what is owed is shared out evenly.
    ``surplus`` is that of rows which have their words already.
    """
    weight = np.asarray(sizes, dtype=float)
    draws = rng.uniform(size=(len(weight), n_bits))
    if not balanced:
        return np.where(draws < 0.5, 1, -1).astype(np.int8)
    return _draw_even_words(draws, weight, rng.permutation(len(weight)), np.zeros(n_bits) + surplus)


@numba.njit(cache=True)
def _draw_even_words(draws: Array, weight: Array, order: Array, surplus: Array) -> Array:
    words = np.empty(draws.shape, np.int8)
    rest, largest = weight.sum(), weight.max()
    for k in order:
        after = rest - weight[k]
        for j in range(draws.shape[1]):
            plus = (rest - surplus[j]) / (2 * rest)
            # A sign that the classes to come cannot even out to within the largest class is not taken.
            if surplus[j] + weight[k] > after + largest:
                plus = 0.0
            elif surplus[j] - weight[k] < -after - largest:
                plus = 1.0
            words[k, j] = 1 if draws[k, j] < plus else -1
            surplus[j] += weight[k] * words[k, j]
        rest = after
    return words


def separated_words(n_bits: int, sizes: Array, balanced: bool, rng: np.random.RandomState) -> Array:
    """Random words, improved one after the other; the best of a few starts.

    No two columns are equal or opposite: such bits would be two SVMs that say the same.
    """
    starts = []
    for _ in range(N_STARTS if len(sizes) <= 64 else 1):
        words = random_words(n_bits, sizes, balanced, rng)
        _redraw_equal_columns(words, sizes, balanced, rng)
        starts.append((words, _seed(rng)))
    return _best(starts, sizes, np.arange(len(sizes)), 1.0 if balanced else 0.0)


def every_split_fits(n_classes: int, n_bits: int) -> bool:
    """Whether a code has a bit for every way to split the classes in two."""
    return 2 ** min(n_classes - 1, 30) - 1 <= n_bits


def exhaustive_words(n_bits: int, sizes: Array) -> Array:
    """Every split of the classes into two parts, the most even first, over and over.

    Few classes have few ways to be told apart, and the even ones alone are fewer still.
    """
    c = len(sizes)
    splits = 1 - 2 * ((np.arange(1, 2 ** (c - 1)) >> np.arange(c)[:, None]) & 1)
    even_first = np.argsort(np.abs(np.asarray(sizes, dtype=float) @ splits), kind="stable")
    return splits[:, np.resize(even_first, n_bits)].astype(np.int8)


def _redraw_equal_columns(words: Array, sizes: Array, balanced: bool, rng: np.random.RandomState) -> None:
    """Draw columns again that repeat an earlier one, in place; freely where balanced ones run out."""
    for attempt in range(100):
        again = _repeated_columns(words)
        if not len(again):
            break
        words[:, again] = random_words(len(again), sizes, balanced and attempt < 50, rng)


@numba.njit(cache=True)
def _repeated_columns(words: Array) -> Array:
    """Columns that equal an earlier one, or its opposite."""
    repeated = np.zeros(words.shape[1], np.bool_)
    for j in range(words.shape[1]):
        for other in range(j):
            if _are_equal(words, j, other):
                repeated[j] = True
                break
    return np.flatnonzero(repeated)


@numba.njit(nogil=True, cache=True)
def _are_equal(words: Array, j: int, other: int) -> bool:
    """Whether two columns are equal or opposite."""
    sign, i = words[0, j] * words[0, other], 1
    while i < len(words) and words[i, j] * words[i, other] == sign:
        i += 1
    return i == len(words)


def joining_words(
    words: Array, sizes: Array, new_sizes: Array, balanced: bool, rng: np.random.RandomState
) -> Array:
    """Words for classes that join: far from all others, and restoring balance; the best of some starts.

    The fewer they are, the more depends on the start, and the less one costs.
    """
    joined = np.arange(len(words), len(words) + len(new_sizes))
    all_sizes = np.concatenate([sizes, new_sizes])
    starts = []
    for _ in range(max(N_STARTS, 8 * N_STARTS // len(new_sizes)) if len(all_sizes) <= 64 else 1):
        added = np.where(rng.uniform(size=(len(new_sizes), words.shape[1])) < 0.5, 1, -1).astype(np.int8)
        starts.append((np.concatenate([words, added]), _seed(rng)))
    return _best(starts, all_sizes, joined, NEW_WORD_BALANCE if balanced else 0.0)[len(words) :]


def _seed(rng: np.random.RandomState) -> int:
    return int(rng.randint(2**31 - 1))


def _best(starts: list[tuple[Array, int]], sizes: Array, movable: Array, balance: float) -> Array:
    """Improve the words of all starts, each with its seed; returns the least crowded."""

    def improve(start: tuple[Array, int]) -> float:
        words, seed = start
        improve_words(words, sizes, movable, balance, seed)
        return _crowding(words) if len(starts) > 1 else 0.0

    return starts[int(np.argmin(map_threads(improve, starts)))][0]


def improve_words(words: Array, sizes: Array, movable: Array, balance: float, seed: int) -> None:
    """Change bits of the ``movable`` words, in place, while that lowers crowding plus imbalance.

    Crowding is ``Σ_{k<l} exp(v_k·v_l / s)``: one close pair outweighs many distant ones, so the smallest
    distance grows. Imbalance is the squared surplus of +1 in a column, in units of an average class. Moves
    are tried at random: a bit of one word, or opposite bits of two words at once, which keeps a column as
    balanced as it is. No move makes a column equal to another one, or to its opposite.
    """
    c, n_bits = words.shape
    n_moves = len(movable) ** 2 * n_bits
    n_tries, patience = int(min(30 * n_moves, 3e7 / c)), PATIENCE * n_moves
    if n_tries < len(movable):  # of thousands of words so few tries change nothing
        return
    soft = _softness(n_bits)
    cost_of = np.exp(np.arange(-n_bits, n_bits + 1) / soft)  # by inner product + n_bits
    weight = np.asarray(sizes, dtype=float) / np.mean(sizes)
    # At balance 1, a column off by one average class costs about as much as c pairs at the usual distance.
    price = balance * c
    V, floats = words.astype(np.int64), words.astype(np.float32)
    products = (floats @ floats.T).astype(np.int64)  # of whole numbers: 100 times as long
    _try_moves(V, products, weight, np.asarray(movable), cost_of, price, n_tries, patience, seed)
    words[movable] = V[movable].astype(np.int8)


@numba.njit(nogil=True, cache=True)
def _try_moves(
    V: Array,
    products: Array,
    weight: Array,
    movable: Array,
    cost_of: Array,
    price: float,
    n_tries: int,
    patience: int,
    seed: int,
) -> None:
    np.random.seed(seed)  # noqa: NPY002
    c, n_bits = V.shape
    surplus = weight @ V.astype(np.float64)
    n_in_vain = 0
    for _ in range(n_tries):
        n_in_vain += 1
        if n_in_vain > patience:
            break
        j = np.random.randint(n_bits)  # noqa: NPY002
        k = movable[np.random.randint(len(movable))]  # noqa: NPY002
        l = movable[np.random.randint(len(movable))]  # noqa: E741, NPY002
        pair = V[k, j] != V[l, j]
        change = 0.0
        for i in range(c):
            if i != k and not (pair and i == l):
                change += (
                    cost_of[products[k, i] - 2 * V[k, j] * V[i, j] + n_bits]
                    - cost_of[products[k, i] + n_bits]
                )
                if pair:
                    change += cost_of[products[l, i] - 2 * V[l, j] * V[i, j] + n_bits]
                    change -= cost_of[products[l, i] + n_bits]
        moved = surplus[j] - 2 * weight[k] * V[k, j] - (2 * weight[l] * V[l, j] if pair else 0.0)
        change += price * (moved * moved - surplus[j] * surplus[j])
        if change < -1e-9:
            alone = _is_alone(V, j)
            _flip(V, products, k, j)
            if pair:
                _flip(V, products, l, j)
            if not alone or _is_alone(V, j):
                surplus[j] = moved
                n_in_vain = 0
            else:
                _flip(V, products, k, j)
                if pair:
                    _flip(V, products, l, j)


@numba.njit(nogil=True, cache=True)
def _is_alone(V: Array, j: int) -> bool:
    """Whether no other column equals column ``j`` or its opposite."""
    other = 0
    while other < V.shape[1] and (other == j or not _are_equal(V, j, other)):
        other += 1
    return other == V.shape[1]


@numba.njit(nogil=True, cache=True)
def _flip(V: Array, products: Array, k: int, j: int) -> None:
    for i in range(len(V)):
        if i != k:
            products[k, i] -= 2 * V[k, j] * V[i, j]
            products[i, k] = products[k, i]
    V[k, j] = -V[k, j]


def _softness(n_bits: int) -> float:
    return float(np.sqrt(n_bits) / 2)


def _crowding(words: Array) -> float:
    products = words.astype(float) @ words.T
    return float(np.sum(np.exp(products[np.triu_indices(len(words), 1)] / _softness(words.shape[1]))))


# Learned words.


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


def word_of_set(class_words: Array) -> Array:
    """The word of a set of classes from theirs (±1): the majority of every bit.

    A bit that is tied goes to the first of the classes, the next tied one to the second, and so on: the word
    of two classes is as far from one as from the other. On held-out rows of GoEmotions that is as good as any
    other rule: mAP 0.374, by the rarest label 0.373, by the most frequent 0.370.
    """
    sums = class_words.sum(axis=0, dtype=np.int64)
    tied = np.flatnonzero(sums == 0)
    word = np.sign(sums)
    word[tied] = class_words[np.arange(len(tied)) % len(class_words), tied]
    return word.astype(np.int8)
