"""SIH: supervised incremental hashing, the estimator."""

from __future__ import annotations

import copy
import os
from collections import ChainMap
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sihash import labels
from sihash._typing import Array
from sihash.checks import check_count, check_float32
from sihash.engines import Engine, Matrix, open_engine
from sihash.engines.dask_matrix import encode_blocks, is_dask_array
from sihash.hasher import Hasher
from sihash.hashing import persistence, row_changes, row_ids
from sihash.hashing.anchor_columns import follow_classes
from sihash.hashing.codebook import make_codebook
from sihash.hashing.fitted import Fitted
from sihash.hashing.hash_functions import HashFunctions
from sihash.hashing.label_probability import MarginHead
from sihash.hashing.label_sets import LabelSets
from sihash.hashing.learned_words import learned_codebook
from sihash.hashing.report import Report, show_log
from sihash.hashing.row_labels import NOT_LABELLED, RowLabels, read_labels
from sihash.hashing.settings import Settings
from sihash.hashing.training_sample import DEFAULT_BUDGET, Budget, class_rates, in_sample
from sihash.hashing.training_state import NewRows, TrainingState, new_training_state
from sihash.kernel import KernelMap
from sihash.kernel_fit import fit_kernel_map, renamed
from sihash.modelfile import Entries
from sihash.svm.certificate import Certificate, lower_bounds
from sihash.threads import team

FEATURES = ("n_features_in_", "feature_names_in_")  # what scikit-learn notes of the rows of a fit
# Section 3.1 of the paper, for CIFAR-10; Cᵇ = 10⁻³ and λ = m · 10⁸ are the defaults too.
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


# Rows that come again with fewer labels: vectors, label sets, ids.
Changed = tuple[Array, Array, list[Hashable]]


@dataclass(frozen=True)
class LabelledRows:
    """Checked rows: vectors, labels, ids and keys. Later rows are numbered from ``next_key``."""

    X: Any
    y: RowLabels
    ids: list[Hashable]
    keys: Array
    next_key: int


class SIH(HashFunctions, Hasher):
    """Supervised incremental hashing: m binary SVMs over kernel features, one multi-class SVM over the codes.

    Minimises eq. 1 of Ozdemir, Najibi and Davis, *Supervised Incremental Hashing* (BMVC 2016),

        λ (½ Σ_k ‖w_kᵇ‖² + Cᵇ Σ_i ξ_iᵇ) + Σ_j (½ ‖w_jˣ‖² + Cˣ Σ_i ξ_ijˣ) + γ Σ_j |Σ_i b_ij|,

    over the codes ``b_i ∈ {−1, +1}^m`` of the training rows and both stages of SVMs, by turns (Algorithm
    1). The hash of a vector ``x`` is ``sign(Wˣ φ(x))`` with ``φ`` the RBF features of ``n_anchors`` anchors
    and a bias.

    When rows or classes come or go, `add`, `remove` and `remove_classes` bring the hash functions up to
    date from what was learned before: weights and sums over rows are kept and made valid by touching the
    changed rows only, and the SVMs take just the steps that they then need. Classes keep their code words,
    whatever the size of a change, so codes made before an update go with those made after it. Anchors come
    and go with their classes. Only `fit` and `relearn` draw words again.

    Rows may have several labels, or none (docs/labels.md).

    Parameters
    ----------
    n_bits : int
        Code length m.
    n_anchors : int
        Anchors of the kernel map. More anchors improve retrieval and cost time and memory.
    anchors : {"classes", "kmeans", "random"} or array of shape (n_anchors, n_features)
        Centres of a short k-means inside every class, shared out by class size (one per class at least, also
        where that makes more than ``n_anchors``); centres of one over all rows; rows drawn at random (as in
        the paper), each class its share; or given points (in the space of ``X``). Those that belong to
        classes come and go with them.
    kernel : {"rbf", "linear", "rbf+linear"}
        The features: those of the anchors, the centred unit vector itself (``sign(w·x + β)``, much cheaper
        to encode, for good embeddings), or both.
    kernel_width : "auto" or float
        σ of the RBF kernel on centred unit vectors; "auto" chooses it by a quick cross-validation.
    C_x, C_b : float
        Soft margins of the binary and of the multi-class SVMs.
    lam : float, optional
        λ; None means ``n_bits · 10⁸`` as in the paper.
    gamma : float
        Price of imbalance γ; 0 leaves balance out, in the first words as well. The paper's 10⁵ suits tens of
        thousands of rows; on few rows it tears classes apart, so the default is smaller.
    max_iter : int
        Rounds of Algorithm 1 at most. With learned words one is enough: rows keep the word of their class.
    tol : float
        What each SVM may lack of its optimum, as a share of its objective: an estimate with the smoothed
        solver, which counts an objective for at least half of F(0) = C n; a proof with OCAS. At 0.006 mAP is
        within 0.002 of a solve certified to 1 % (docs/solver.md).
    solver : {"auto", "smooth", "ocas"}
        Solver of the binary SVMs; "auto" is the smoothed one. OCAS is the paper's, and proves its gaps;
        `certify` proves those of the other.
    codebook : {"learned", "separated", "random", "hadamard"} or array of shape (n_classes, n_bits)
        The first words of the classes: separated ones moved toward what the features can tell apart; random
        ones improved until far apart and balanced; random as in the paper; Hadamard; or given, in the order
        of ``classes_``.
    training_rows : int or "all"
        Rows to learn from at most, near enough: of a larger collection a sample that keeps every class and
        stays fair as rows come and go. The other rows cost nothing but their ids.
    random_state : int, RandomState or None
        Seed of anchors, width and words.
    engine : str, optional
        Where the training rows and their kernel features lie: in memory (None, "local"); in scratch files
        in the directory for temporary files ("disk") or a given one ("disk:/directory"); on the workers of
        a Dask cluster, that of the current client ("dask") or of a scheduler ("tcp://host:8786"). A Dask
        array stays on the cluster of the current client, if there is one. Not kept in a model file.
    verbose : bool
        Whether each step of learning is logged, by the logger ``sihash.learning`` at level INFO (otherwise
        at DEBUG). Where logging is not set up, the lines go to stderr.

    Attributes
    ----------
    classes_ : array
        Class labels: sorted after `fit`; classes added later follow at the end. Of an indicator matrix, the
        numbers of the columns that have rows.
    ids_ : list
        Ids of the rows that were learned from, in the order in which they came.
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

    # What `Fitted` brings, beside the hash functions.
    report_: Report
    _training: TrainingState | None
    _stored: persistence.StoredTraining | None  # a training that waits for its vectors
    _rng: np.random.RandomState
    _scratch: tuple[float, float]

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
        """SIH as the paper describes it, for CIFAR-10; ``params`` go before its settings.

        Random anchors and words, OCAS to a gap of 1 %, Cˣ = 16, γ = 10⁵.
        """
        return cls(n_bits, n_anchors, **PAPER | params)

    def transform(self, X: Any) -> Any:
        """Codes as packed uint8, n × ceil(n_bits / 8); those of a Dask array are one, made where it lies."""
        if is_dask_array(X):
            check_is_fitted(self)
            return encode_blocks(X, self.kernel_, self.bit_coef_)
        return super().transform(X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "bit_coef_")

    # Learning.

    def fit(self, X: Any, y: Any, ids: Iterable[Hashable] | None = None) -> Self:
        """Learn hash functions from rows ``X`` and their labels ``y``.

        ``y`` has one label a row, of any hashable kind; or a list (or set) of labels for each row; or is an
        indicator matrix (n × K), whose columns are the classes 0 … K − 1. Rows without a label (None, NaN,
        −1, an empty list, a row of zeros) are known by their ids and not learned from (docs/labels.md).
        ``ids`` name the rows for later removal; the default is 0 … n − 1. ``X`` may be a Dask array: see
        ``engine``.
        """
        settings, engine = self._settings(), open_engine(self.engine, X)
        seen = BaseEstimator()  # takes note of the features: a refused fit leaves this hasher as it was
        X, y = _check_training(seen, engine.take(X), y, reset=True)
        rows = LabelledRows(X, y, row_ids.new_ids(ids, len(X), 0, {}), np.arange(len(X)), len(X))
        report = Report("fit", n_added=len(X), verbose=self._is_verbose())
        rng = check_random_state(self.random_state)
        return self._take(self._learn(settings, engine, rows, report, rng), seen)

    def _learn(
        self,
        settings: Settings,
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
                words = self._make_words(kernel, new, label_sets, np.maximum(sizes, 1), settings.balance, rng)
            with report.phase("kernel"):
                training = new_training_state(settings, engine, kernel, new, words, names)
            training.run(report)
        return Fitted.of(training, report, rng)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from one more batch: `fit` at first, `add` from then on. New labels need no announcement."""
        return self.add(X, y) if hasattr(self, "bit_coef_") else self.fit(X, y)

    def add(self, X: Any, y: Any, ids: Iterable[Hashable] | None = None) -> Self:
        """Add rows of known classes, of new ones, or both, and update the hash functions incrementally."""
        return self.update(X, y, ids)

    def remove(self, ids: Iterable[Hashable]) -> Self:
        """Remove rows by their ids and update the hash functions. A class without rows goes too."""
        return self.update(remove=ids)

    def remove_classes(self, class_labels: Iterable[Hashable]) -> Self:
        """Remove classes, or one, and update the hash functions: a row goes when it has no other label."""
        return self.update(remove_classes=class_labels)

    def update(
        self,
        X: Any = None,
        y: Any = None,
        ids: Iterable[Hashable] | None = None,
        *,
        remove: Iterable[Hashable] = (),
        remove_classes: Iterable[Hashable] = (),
    ) -> Self:
        """All changes at once, at the cost of one: rows leave by their ids, then classes, then rows join.

        So a row gets other labels by leaving and joining under its id. Labels come in the form that they had
        in `fit`.
        """
        training, gone = self._training_to_update(), list(remove)
        gone_classes = labels.several(remove_classes)
        if X is not None:
            X, y = _check_training(self, X, y, reset=False)
            y = y.in_form(training.form)
        elif y is not None or ids is not None:
            raise ValueError("Expected rows X for these labels or ids, got None.")
        elif not gone and not gone_classes:
            return self
        given = {"add": X is not None, "remove": bool(gone), "remove_classes": bool(gone_classes)}
        kinds = [kind for kind, there in given.items() if there]
        report = Report(kinds[0] if len(kinds) == 1 else "update", n_added=0 if X is None else len(X))
        report.verbose = self._is_verbose()
        # One thread a product: on the few rows of a change a BLAS of many threads takes 25 times as long.
        with team():
            with report.phase("rows"):
                twin, rng = training.twin(), copy.deepcopy(self._rng)
                if gone:
                    row_ids.check_known(gone, twin.all_ids())
                    row_changes.leave_rows(twin, gone)
                changed = self._leave_classes(twin, gone_classes)
                new = None if X is None and changed is None else self._arrivals(twin, X, y, ids, changed)
                report.n_removed = training.n_known + report.n_added - twin.n_known
                _check_classes(twin, new)
                if new is not None and len(new.y) > len(twin.svms.rows):
                    twin.svms.forget()  # most rows are new: a start from 0 takes fewer steps
            with report.phase("anchors"):
                how = self.anchors if isinstance(self.anchors, str) else "given"
                follow_classes(twin, new, self.n_anchors, how, rng)
            with report.phase("rows"):
                if new is not None:
                    learned = isinstance(self.codebook, str) and self.codebook == "learned"
                    row_changes.join(twin, new, rng, learned)
            return self._run(twin, report, rng)

    def _arrivals(
        self,
        twin: TrainingState,
        X: Array | None,
        y: RowLabels | None,
        ids: Iterable[Hashable] | None,
        changed: Changed | None,
    ) -> NewRows:
        """Rows that come, and behind them those that come again with fewer labels."""
        if not len(twin.svms.rows):
            raise ValueError("This update would replace every row: fit again instead.")
        parts = [] if changed is None else [changed]
        if X is not None and y is not None:
            taken = ChainMap(twin.key_of, twin.outside, *(dict.fromkeys(part[2], 0) for part in parts))
            names = row_ids.new_ids(ids, len(X), twin.next_key, taken)
            parts.insert(0, (X.astype(np.float32, copy=False), row_changes.set_numbers(twin, y), names))
        all_X, sets, all_ids = zip(*parts, strict=True)
        return row_changes.arrivals(
            twin,
            all_X[0] if len(parts) == 1 else np.concatenate(all_X),
            np.concatenate(sets),
            [name for names in all_ids for name in names],
        )

    def _leave_classes(self, twin: TrainingState, gone: list[Hashable]) -> Changed | None:
        numbers = np.intersect1d(self._numbers_to_remove(gone), twin.live)
        changed = row_changes.leave_classes(twin, numbers) if len(numbers) else None
        return changed if changed is not None and len(changed[0]) else None

    def relearn(self) -> Self:
        """Learn everything again from the rows that it knows, words too: codes made before are void then.

        Updates keep the words of classes that stay, and the mean and width of the kernel. After a life in
        which most classes came or went, this may gain a little. The rows are those that were learned from.
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

    def certify(self, tol: float = 0.01) -> Certificate:
        """Prove how far the binary SVMs are from their optimum at most; nothing is changed.

        The bounds come from cutting planes that start at the weights, and lie at most ``tol`` below the
        optimum: a gap that is much wider says what the weights lack. This takes longer than a fit.
        """
        training = self._training_to_update()
        with team():
            lower = training.with_rows(lambda: lower_bounds(training.svms, tol))
        return Certificate(training.svms.upper(), lower)

    def _run(self, twin: TrainingState, report: Report, rng: np.random.RandomState) -> Self:
        """Train a changed training and make it, and the generator it drew from, the present ones."""
        with team():
            twin.run(report)
        report.scratch_steps = self._scratch[0]
        report.scratch_seconds = self._scratch[1] * report.n_rows
        return self._take(Fitted.of(twin, report, rng, self._scratch))

    def _take(self, fitted: Fitted, seen: BaseEstimator | None = None) -> Self:
        """Become what was learned, by one assignment; ``seen`` knows the features, if they are others."""
        noted = vars(self if seen is None else seen)
        features = {name: noted[name] for name in FEATURES if name in noted}
        others = {name: value for name, value in vars(self).items() if name not in FEATURES}
        self.__dict__ = others | features | fitted.attributes()
        return self

    def __copy__(self) -> Self:
        """As deep as `copy.deepcopy`: two hashers must not write into the rows of one."""
        return copy.deepcopy(self)

    @property
    def n_iter_(self) -> int:
        return len(self.report_.rounds)

    # The training rows.

    def training_hashes(self) -> tuple[Array, Array]:
        """What `transform` gives for the training rows, in the order of ``ids_``, and where this is certain.

        The codes come from the scores that learning left behind. Where one is so close to zero that rounding
        may decide the bit, the row is not certain; `transform` has the last word.
        """
        return self._training_to_update().hashes()

    def left_out_margins(self, n: int) -> tuple[list[Hashable], Array]:
        """About ``n`` training rows, by their ids, and their margins had they not been trained on.

        An estimate by the leverage of each row, for choices that the margins of training rows would flatter.
        """
        training = self._training_to_update()
        keys, margins = training.left_out_margins(n)
        places = np.searchsorted(np.fromiter(training.key_of.values(), dtype=np.int64), keys)
        ids = list(training.key_of)
        return [ids[k] for k in places], margins

    def left_out_hits(self, n: int = 2000) -> tuple[Array, Array]:
        """Classes of about ``n`` training rows, as places in ``classes_``, and whether each is recognised.

        An estimate for rows that were not trained on, as `left_out_margins`: it tells classes that are
        learned well from those that are not.
        """
        return self._training_to_update().left_out_hits(n)

    @property
    def codes_(self) -> Array:
        return self._training_to_update().in_order("Y")

    @property
    def ids_(self) -> list[Hashable]:
        check_is_fitted(self)
        return list(self._training_to_update().key_of) if self._stored is None else self._stored.ids

    def training_set(self) -> tuple[Array, Any, list[Hashable]]:
        """The rows that the hasher knows now, in the order of ``ids_``: ``(X, labels, ids)``.

        Labels have the form of those in `fit`; lists come as sets.
        """
        training = self._training_to_update()
        return training.in_order("X"), training.form.give(training.row_labels()), self.ids_

    # Files.

    def save(self, path: str | os.PathLike[str], updatable: bool = True, vectors: bool = True) -> None:
        """Write the hasher to one checksummed file.

        By default it keeps the training vectors and all that is needed to go on updating; with
        ``updatable=False`` only the hash functions and the second stage. With ``vectors=False`` it can be
        updated once `attach_vectors` has brought the vectors back, for those who keep them anyway.
        """
        check_is_fitted(self)
        header, tensors = self._state()
        if updatable:
            training = self._training_to_update()
            more_header, more_tensors = training.with_rows(
                lambda: persistence.training_file(training, vectors)
            )
            header["training"] = {**more_header, "scratch": list(self._scratch)}
            tensors |= more_tensors | {"generator": persistence.generator_state(self._rng)}
        self._write(path, header, tensors)

    def _set_state(self, header: Entries, tensors: Entries) -> None:
        super()._set_state(header, tensors)
        self._training, self._stored = None, None
        self._rng = check_random_state(self.random_state)
        if "training" in header:
            steps, seconds = header["training"].list("scratch")
            self._scratch = float(steps), float(seconds)
            self._rng = persistence.generator_from(tensors["generator"])
            self._stored = persistence.StoredTraining(header["training"], tensors)
            if self._stored.X is not None:
                self._restore(self._stored)

    def _params_to_keep(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in super()._params_to_keep().items()
            if name not in ("engine", "verbose")
        }

    def attach_vectors(self, X: Any) -> Self:
        """Bring the training rows back to a hasher saved with ``vectors=False``, in the order of ``ids_``."""
        check_is_fitted(self)
        stored = self._stored
        if stored is None:
            raise ValueError("This SIH has its training rows, or none at all: there is nothing to attach.")
        X = self._check_rows(X).astype(np.float32, copy=False)
        if len(X) != len(stored.ids):
            raise ValueError(f"Expected the {len(stored.ids)} rows of ids_, got {len(X)}.")
        stored.set_vectors(X)
        self._restore(stored)
        return self

    def _calibrated(self) -> Array:
        """Fitted when first asked for, from the rows that the training holds."""
        return super()._calibrated() if self._training is None else self._training.calibrate()

    def _margin_head(self) -> MarginHead:
        """Learned when first asked for, as the calibration."""
        check_is_fitted(self)
        return super()._margin_head() if self._training is None else self._training.class_margins()

    def _restore(self, stored: persistence.StoredTraining) -> None:
        engine = open_engine(self.engine)
        self._training = stored.restore(self._settings(), engine, self.kernel_, self.class_coef_)
        self._training.calibration, self._training.margin_head = self._calibration, self._margins
        self._stored = None

    # Checks.

    def _is_verbose(self) -> bool:
        if self.verbose:
            show_log()
        return bool(self.verbose)

    def _training_to_update(self) -> TrainingState:
        check_is_fitted(self)
        if self._training is None:
            raise NotFittedError(
                "This SIH was loaded from a file without training rows: it can hash, but not be updated. "
                "Load a file saved with updatable=True, attach_vectors where there are ids_, or fit again."
            )
        return self._training

    def _numbers_to_remove(self, wanted: list[Hashable]) -> Array:
        positions = labels.numbers_of(wanted, self.classes_)
        if (positions < 0).any():
            unknown = wanted[int(np.argmin(positions))]
            raise KeyError(f"Cannot remove the class {unknown!r}: classes_ lists the classes there are.")
        return self._training_to_update().live[np.unique(positions)]

    def _settings(self) -> Settings:
        check_count("n_anchors", self.n_anchors)
        return Settings.checked(
            n_bits=self.n_bits,
            C_x=self.C_x,
            C_b=self.C_b,
            lam=self.lam,
            gamma=self.gamma,
            max_iter=self.max_iter,
            tol=self.tol,
            solver=self.solver,
            codebook=self.codebook,
            training_rows=self.training_rows,
        )

    def _make_words(
        self,
        kernel: KernelMap,
        rows: NewRows,
        label_sets: LabelSets,
        sizes: Array,
        balance: float,
        rng: np.random.RandomState,
    ) -> Array:
        """Words of the classes, of which ``sizes`` counts the rows."""
        if isinstance(self.codebook, str) and self.codebook == "learned":
            return learned_codebook(kernel, rows, label_sets, sizes, self.n_bits, balance, rng)
        return make_codebook(self.codebook, self.n_bits, sizes, balance, rng)

    def _make_kernel(self, X: Array, y: Array, rng: np.random.RandomState) -> KernelMap:
        return fit_kernel_map(X, y, self.n_anchors, self.anchors, self.kernel_width, rng, self.kernel)


def _check_training(estimator: BaseEstimator, X: Any, y: Any, reset: bool) -> tuple[Any, RowLabels]:
    """Rows and labels to learn from; ``estimator`` knows their features, or with ``reset`` notes them."""
    if isinstance(X, Matrix):  # checked where it lies
        validate_data(estimator, X, skip_check_array=True, reset=reset)
        return X, read_labels(y, len(X))
    # Of the rows of a fit the kernel map takes the mean anyway, and sees there whether all are finite.
    seen_later = reset and isinstance(X, np.ndarray) and X.dtype == np.float32
    X = validate_data(
        estimator, X, dtype=[np.float32, np.float64], reset=reset, ensure_all_finite=not seen_later
    )
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


def _check_classes(twin: TrainingState, new: NewRows | None) -> None:
    coming = () if new is None else twin.sets.apart(np.unique(new.sets))[1]
    n_classes = len(np.union1d(twin.live, coming))
    if n_classes < 2:
        raise ValueError(
            f"This removal would leave {n_classes} class(es); hashing needs two or more. Nothing was changed."
        )


def _too_few_classes(classes: Array, y: RowLabels) -> str:
    n = int(np.count_nonzero(y.counts == 0))
    found = f"got 1 class ({classes.tolist()[0]!r})" if len(classes) else "got none"
    hint = f" {n:,} rows count as not labelled: {NOT_LABELLED}." if n else ""
    return f"SIH needs at least two classes, {found}; add rows of another.{hint}"
