"""SIH: supervised incremental hashing, the estimator."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sihash import labels
from sihash._typing import Array
from sihash.checks import check_float32, check_real
from sihash.engines import Engine, Matrix, open_engine
from sihash.engines.dask_matrix import encode_blocks, is_dask_array
from sihash.hasher import Hasher
from sihash.hashing import row_ids
from sihash.hashing.codebook import make_codebook
from sihash.hashing.fitted import Fitted
from sihash.hashing.hyperparameters import Hyperparameters
from sihash.hashing.label_sets import LabelSets
from sihash.hashing.learned_words import learned_codebook
from sihash.hashing.report import Report
from sihash.hashing.row_labels import NOT_LABELLED, RowLabels, read_labels
from sihash.hashing.training_sample import DEFAULT_BUDGET, Budget, class_rates, in_sample
from sihash.hashing.training_state import NewRows, new_training_state
from sihash.hashing.updatable import NOT_KEPT, UpdatableHashFunctions
from sihash.kernel import KernelMap
from sihash.kernel_fit import fit_kernel_map, renamed
from sihash.threads import team

# Section 3.1 of the paper, for CIFAR-10; Cᵇ = 10⁻³ and λ = m · 10⁸ are the defaults too.
FEW_ROWS = 50  # so few may all have different labels
PAPER: dict[str, Any] = {
    "anchors": "random",
    "codebook": "random",
    "solver": "ocas",
    "C_x": 16.0,
    "gamma": 1e5,
    "max_iter": 5,
    "tol": 0.01,
    "training_rows": "all",
}


@dataclass(frozen=True)
class LabelledRows:
    """Checked rows: vectors, labels, ids and keys. Later rows are numbered from ``next_key``."""

    X: Any
    y: RowLabels
    ids: list[Hashable]
    keys: Array
    next_key: int


class SIH(UpdatableHashFunctions, Hasher):
    """Supervised incremental hashing: m binary SVMs over kernel features, one multi-class SVM over the codes.

    Minimises eq. 1 of Ozdemir, Najibi and Davis, *Supervised Incremental Hashing* (BMVC 2016),

        λ (½ Σ_k ‖w_kᵇ‖² + Cᵇ Σ_i ξ_iᵇ) + Σ_j (½ ‖w_jˣ‖² + Cˣ Σ_i ξ_ijˣ) + γ Σ_j |Σ_i b_ij|,

    over the codes ``b_i ∈ {−1, +1}^m`` of the training rows and both stages of SVMs, alternately (Algorithm
    1). The hash of a vector ``x`` is ``sign(Wˣ φ(x))`` with ``φ`` the RBF features of ``n_anchors`` anchors
    and a bias.

    `add`, `remove` and `remove_classes` update the hash functions when rows or classes come or go. Weights
    and sums over rows are kept and corrected for the changed rows only, and the SVMs take only the steps that
    they then need. Classes keep their code words, so codes from before and after an update can be compared.
    Anchors come and go with their classes. Only `fit` and `relearn` choose new words.

    Rows may have several labels, or none (docs/labels.md).

    Parameters
    ----------
    n_bits : int
        Code length m.
    n_anchors : int
        Anchors of the kernel map. More anchors improve retrieval and cost time and memory.
    anchors : {"classes", "kmeans", "random"} or array of shape (n_anchors, n_features)
        Centres of a short k-means inside every class, shared out by class size (at least one per class, even
        if that makes more than ``n_anchors``); centres of a k-means over all rows; random rows as in the
        paper, drawn by class size; or given points (in the space of ``X``). Anchors of a class come and go
        with it.
    kernel : {"rbf", "linear", "rbf+linear"}
        The features: RBF features of the anchors, the centred unit vector itself (``sign(w·x + β)``, much
        faster to encode, for good embeddings), or both.
    kernel_width : "auto" or float
        σ of the RBF kernel on centred unit vectors; "auto" is 0.45 of the median distance between rows,
        unless 0.2 or 1.0 of it retrieves clearly better in a quick cross-validation.
    C_x, C_b : float
        Soft margins of the binary and of the multi-class SVMs.
    lam : float, optional
        λ; None means ``n_bits · 10⁸`` as in the paper.
    gamma : float
        Price of imbalance γ; 0 ignores balance, also in the first words. The paper's 10⁵ suits tens of
        thousands of rows; on few rows it splits classes, so the default is smaller. It moves rows only if
        they may leave their words (``codebook``).
    max_iter : int
        Maximum number of rounds of Algorithm 1. With learned or separated words one is enough: rows keep the
        word of their class.
    tol : float
        Allowed gap of each SVM to its optimum. With OCAS that is a share of its objective, and proven. With
        the smoothed solver it is an estimate, and a share of the objective or of half of F(0) = C n,
        whichever is more: codes are settled long before a small loss is exact. ``report_.max_gap`` and
        `certify` give the same ratio. At 0.006, mAP is within 0.0021 of a solve certified to 1 %
        (docs/solver.md).
    solver : {"auto", "smooth", "ocas"}
        Solver for the binary SVMs; "auto" is "smooth". OCAS is the paper's, and proves its gaps; `certify`
        proves those of the other.
    codebook : {"learned", "separated", "random", "hadamard"} or array of shape (n_classes, n_bits)
        The first words of the classes: separated words adapted to what the features can tell apart; random
        words improved until they are far apart and balanced; random words as in the paper; Hadamard; or an
        array in the order of ``classes_``. Rows may leave words of the last three kinds.
    training_rows : int or "all"
        Learn from at most about this many rows: a sample that keeps every class and stays fair as rows come
        and go. Of the other rows only the ids are kept.
    random_state : int, RandomState or None
        Seed of anchors, width and words.
    engine : str, optional
        Where the training rows and their kernel features are stored: in memory (None, "local"); in scratch
        files in the directory for temporary files ("disk") or another one ("disk:/directory"); on the workers
        of a Dask cluster, that of the current client ("dask") or of a scheduler ("tcp://host:8786"). A Dask
        array stays on the cluster of the current client, if there is one. Not saved in a model file.
    verbose : bool
        Log each step of learning with the logger ``sihash.learning`` at level INFO (otherwise at DEBUG). If
        logging is not configured, the lines go to stderr.

    Attributes
    ----------
    classes_ : array
        Class labels, sorted after `fit`; later classes follow at the end. For an indicator matrix, the
        numbers of the columns that have rows.
    ids_ : list
        Ids of the rows that were learned from, in order of arrival.
    codes_ : int8 array of shape (n, n_bits)
        Learned codes ±1 of the training rows, in the order of ``ids_``.
    bit_coef_ : array of shape (n_bits, n_anchors + 1)
        Wˣ, the bias last.
    class_coef_ : array of shape (n_classes, n_bits + 1)
        Wᵇ, the bias last.
    objective_ : Objective
        The terms of eq. 1 and their ``total``.
    n_iter_ : int
        Rounds that the last fit or update took.
    report_ : Report
        What the last fit or update did, round by round, and its seconds by phase.
    kernel_ : KernelMap
        Mean, anchors and width.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sihash import SIH
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = SIH(n_bits=16, n_anchors=100, random_state=0).fit(X, y)
    >>> hasher.transform(X[:2]).shape
    (2, 2)
    >>> hasher.remove_classes([9]).classes_.tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """

    def __init__(
        self,
        n_bits: int = 32,
        n_anchors: int = 1000,
        anchors: Literal["classes", "kmeans", "random"] | Array = "classes",
        kernel: Literal["rbf", "linear", "rbf+linear"] = "rbf",
        kernel_width: Literal["auto"] | float = "auto",
        C_x: float = 32.0,
        C_b: float = 1e-3,
        lam: float | None = None,
        gamma: float = 1e3,
        max_iter: int = 5,
        tol: float = 0.006,
        solver: Literal["auto", "smooth", "ocas"] = "auto",
        codebook: Literal["learned", "separated", "random", "hadamard"] | Array = "learned",
        training_rows: Budget = DEFAULT_BUDGET,
        random_state: int | np.random.RandomState | None = None,
        engine: str | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.anchors = anchors
        self.kernel = kernel
        self.kernel_width = kernel_width
        self.C_x = C_x
        self.C_b = C_b
        self.lam = lam
        self.gamma = gamma
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.codebook = codebook
        self.training_rows = training_rows
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    @classmethod
    def paper(cls, n_bits: int = 32, n_anchors: int = 1000, **params: Any) -> Self:
        """SIH as in the paper, for CIFAR-10; ``params`` override its settings.

        Random anchors and words, OCAS to a gap of 1 %, Cˣ = 16, γ = 10⁵, at most five rounds, all rows.
        """
        return cls(n_bits, n_anchors, **PAPER | params)

    def transform(self, X: Any) -> Any:
        """Codes as packed uint8, n × ceil(n_bits / 8). Codes of a Dask array are a Dask array."""
        if is_dask_array(X):
            check_is_fitted(self)
            return encode_blocks(X, self.kernel_, self.bit_coef_)
        return super().transform(X)

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "bit_coef_")

    def fit(self, X: Any, y: Any, ids: Iterable[Hashable] | None = None) -> Self:
        """Learn hash functions from rows ``X`` and their labels ``y``.

        ``y`` has one hashable label per row, or a list (or set) of labels per row, or is an indicator matrix
        (n × K) whose columns are the classes 0 … K − 1. Rows without a label (None, NaN, −1, an empty list, a
        row of zeros) are not learned from (docs/labels.md). ``ids`` name the rows for later removal; the
        default is 0 … n − 1. ``X`` may be a Dask array: see ``engine``.
        """
        settings, engine = self._settings(), open_engine(self.engine, X)
        seen = BaseEstimator()  # takes note of the features: a refused fit leaves this hasher as it was
        X, y = _check_training(seen, engine.take(X), y)
        rows = LabelledRows(X, y, row_ids.new_ids(ids, len(X), 0, {}), np.arange(len(X)), len(X))
        report = Report("fit", n_added=len(X), verbose=self._is_verbose())
        rng = check_random_state(self.random_state)
        return self._take(self._learn(settings, engine, rows, report, rng), seen)

    def _learn(
        self,
        settings: Hyperparameters,
        engine: Engine,
        rows: LabelledRows,
        report: Report,
        rng: np.random.RandomState,
    ) -> Fitted:
        """Learn everything from these rows: kernel map, words, SVMs."""
        classes, numbers = labels.encode(rows.y.flat)
        if len(classes) < 2 or rows.y.form is None:
            raise ValueError(_too_few_classes(classes, rows.y))
        label_sets, sizes = LabelSets((k,) for k in range(len(classes))), np.bincount(numbers)
        sets = label_sets.of_rows(numbers, rows.y.counts, sizes)
        labelled = np.flatnonzero(sets >= 0)
        if len(labelled) == len(classes) > FEW_ROWS:
            warnings.warn(
                f"Every row has a label of its own ({len(classes):,} labels): is that column ids rather than "
                "labels? Nothing can be learned from classes of one row each.",
                UserWarning,
                stacklevel=3,
            )
        y = label_sets.home[sets[labelled]]
        rates = class_rates(np.bincount(y, minlength=len(classes)), settings.training_rows)
        sampled = in_sample(rows.keys[labelled], y, rates)
        chosen = labelled[sampled]
        names = _names(rows, sets, chosen) | {"rates": rates, "sets": label_sets}
        names |= {"labels": classes.tolist(), "form": rows.y.form}
        X, keys = rows.X, rows.keys
        if len(chosen) < len(sets):
            X, y, sets, keys = X[chosen], y[sampled], sets[chosen], keys[chosen]
            sizes = label_sets.hold(sets, np.arange(len(classes))).sum(axis=0)
        new = NewRows(X, sets, y, keys)
        with team():
            with report.phase("kernel"):
                kernel = self._make_kernel(X, y, rng)
                if kernel.made_of is not None:
                    kernel = replace(kernel, made_of=renamed(kernel.made_of, keys))
                report.n_anchors, report.n_anchors_asked = len(kernel.anchors), self.n_anchors
            with report.phase("words"):
                words = self._make_words(kernel, new, label_sets, np.maximum(sizes, 1), rng)
            with report.phase("kernel"):
                training = new_training_state(settings, engine, kernel, new, words, names)
            training.run(report)
        return Fitted.of(training, report, rng)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from one more batch: the first call is `fit`, later ones `add`. ``classes`` is ignored."""
        return self.add(X, y) if hasattr(self, "bit_coef_") else self.fit(X, y)

    def add(self, X: Any, y: Any, ids: Iterable[Hashable] | None = None) -> Self:
        """Add rows of known classes, of new ones, or both, and update the hash functions incrementally."""
        return self.update(X, y, ids)

    def remove(self, ids: Iterable[Hashable]) -> Self:
        """Remove rows by id and update the hash functions. A class without rows is removed too."""
        return self.update(remove=ids)

    def remove_classes(self, class_labels: Iterable[Hashable]) -> Self:
        """Remove one or more classes and update the hash functions. Rows with other labels stay."""
        return self.update(remove_classes=class_labels)

    def relearn(self) -> Self:
        """Learn from scratch from the known rows, with new words. Earlier codes become invalid.

        Updates keep the words of existing classes, and the mean and width of the kernel. If most classes have
        changed since, learning from scratch may gain a little.
        """
        before, settings = self._training_to_update(), self._settings()
        X, y, ids = self.training_set()
        keys = np.sort(before.svms.rows.column("key"))
        rows = LabelledRows(X, read_labels(y, len(X)), ids, keys, before.next_key)
        report, rng = Report("relearn", verbose=self._is_verbose()), copy.deepcopy(self._rng)
        fitted = self._learn(replace(settings, training_rows="all"), before.engine, rows, report, rng)
        # The rows outside the sample stay there.
        after = fitted._training
        number_of = {label: k for k, label in enumerate(after.labels)}
        for k in before.live:
            after.rates[number_of[before.labels[k]]] = before.rates[k]
        after.outside = {name: after.set_of(before, s, number_of) for name, s in before.outside.items()}
        after.settings = settings
        return self._take(fitted)

    def _params_to_keep(self) -> dict[str, Any]:
        return {name: value for name, value in self.get_params(deep=False).items() if name not in NOT_KEPT}

    def _make_words(
        self,
        kernel: KernelMap,
        rows: NewRows,
        label_sets: LabelSets,
        sizes: Array,
        rng: np.random.RandomState,
    ) -> Array:
        """Words of the classes, of which ``sizes`` counts the rows."""
        if isinstance(self.codebook, str) and self.codebook == "learned":
            return learned_codebook(kernel, rows, label_sets, sizes, self.n_bits, self.gamma > 0, rng)
        return make_codebook(self.codebook, self.n_bits, sizes, self.gamma > 0, rng)

    def _make_kernel(self, X: Array, y: Array, rng: np.random.RandomState) -> KernelMap:
        return fit_kernel_map(X, y, self.n_anchors, self.anchors, self.kernel_width, rng, self.kernel)


def _check_training(seen: BaseEstimator, X: Any, y: Any) -> tuple[Any, RowLabels]:
    """Rows and labels to learn from; ``seen`` takes note of the features."""
    if isinstance(X, Matrix):  # checked where it lies
        validate_data(seen, X, skip_check_array=True)
        return X, read_labels(y, len(X))
    # The kernel map takes the mean of the rows anyway, and sees there whether all are finite.
    seen_later = isinstance(X, np.ndarray) and X.dtype == np.float32
    check_real(X)
    X = validate_data(seen, X, dtype=[np.float32, np.float64], ensure_all_finite=not seen_later)
    check_float32(X)
    return X, read_labels(y, len(X))


def _names(rows: LabelledRows, sets: Array, chosen: Array) -> dict[str, Any]:
    """What a training state keeps of the ids of rows, of which the ``chosen`` are learned from."""
    keys, ids = rows.keys.tolist(), rows.ids
    if len(chosen) == len(ids):
        return {"key_of": dict(zip(ids, keys, strict=True)), "next_key": rows.next_key, "outside": {}}
    key_of = {ids[k]: keys[k] for k in chosen}
    outside = {name: number for name, number in zip(ids, sets.tolist(), strict=True) if name not in key_of}
    return {"key_of": key_of, "next_key": rows.next_key, "outside": outside}


def _too_few_classes(classes: Array, y: RowLabels) -> str:
    n = int(np.count_nonzero(y.counts == 0))
    found = f"got 1 class ({classes.tolist()[0]!r})" if len(classes) else "got none"
    hint = f" {n:,} rows count as not labelled: {NOT_LABELLED}." if n else ""
    return f"SIH needs at least two classes, {found}; add rows of another class.{hint}"
