"""SIH: supervised incremental hashing, the estimator."""

from __future__ import annotations

import copy
import os
from collections.abc import Hashable, Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sihash import labels
from sihash._typing import Array
from sihash.checks import check_float32, check_real
from sihash.engines import is_dask_array, open_engine
from sihash.hasher import Hasher
from sihash.hashing.hash_functions import HashFunctions, Objective
from sihash.hashing.report import Report, show_log
from sihash.hashing.settings import Settings
from sihash.hashing.training import Change, Training
from sihash.hashing.training_file import StoredTraining
from sihash.kernel import KernelMap
from sihash.modelfile import Entries
from sihash.svm.certificate import Certificate

FEATURES = ("n_features_in_", "feature_names_in_")  # what scikit-learn notes of the rows of a fit
# Section 3.1 of the paper, for CIFAR-10; Cᵇ = 10⁻³ and λ = m · 10⁸ are the defaults too.
PAPER: dict[str, Any] = {
    "anchors": "random",
    "kernel": "rbf",
    "codebook": "random",
    "solver": "ocas",
    "C_x": 16.0,
    "gamma": 1e5,
    "max_iter": 5,
    "tol": 0.01,
    "training_rows": "all",
}


class SIH(Settings, Hasher):
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
    anchors : {"classes", "random"} or array of shape (n_anchors, n_features)
        Centres of a short k-means inside every class, shared out by class size (at least one per class, even
        if that makes more than ``n_anchors``); random rows as in the paper, drawn by class size; or given
        points (in the space of ``X``). Anchors of a class come and go with it.
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
    codebook : {"learned", "separated", "random"} or array of shape (n_classes, n_bits)
        The first words of the classes: separated words adapted to what the features can tell apart; random
        words improved until they are far apart and balanced; random words as in the paper; or an array in
        the order of ``classes_``. Rows may leave words of the last two kinds.
    prior : float, "balanced" (0) or "frequency" (1)
        How far class sizes count where classes are predicted and ranked: by n^prior. Queries that are spread
        evenly over classes ask for 0, queries that come as the rows do for 1.
    training_rows : int or "all"
        Learn from at most about this many rows: a sample that keeps every class and stays fair as rows come
        and go. Of the other rows only the ids are kept.
    random_state : int, RandomState or None
        Seed of anchors, width and words.
    engine : str or Engine, optional
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
    functions_ : HashFunctions
        What searches need: kernel map, weights and class head, without the training rows.
    training_ : Training
        What updates need: the training rows, their SVMs and words. After loading a file without vectors, a
        StoredTraining that waits for them (`attach_vectors`), or None.

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

    functions_: HashFunctions
    training_: Training | StoredTraining | None
    report_: Report

    @classmethod
    def paper(cls, n_bits: int = 32, n_anchors: int = 1000, **params: Any) -> Self:
        """SIH as in the paper, for CIFAR-10; ``params`` override its settings.

        RBF features, random anchors and words, OCAS to a gap of 1 %, Cˣ = 16, γ = 10⁵, at most five rounds,
        all rows.
        """
        return cls(n_bits, n_anchors, **PAPER | params)

    # Learning.

    def fit(self, X: Any, y: Any, ids: Iterable[Hashable] | None = None) -> Self:
        """Learn hash functions from rows ``X`` and their labels ``y``.

        ``y`` has one hashable label per row, or a list (or set) of labels per row, or is an indicator matrix
        (n × K) whose columns are the classes 0 … K − 1. Rows without a label (None, NaN, −1, an empty list, a
        row of zeros) are not learned from (docs/labels.md). ``ids`` name the rows for later removal; the
        default is 0 … n − 1. ``X`` may be a Dask array: see ``engine``.
        """
        settings, engine = self.checked(), open_engine(self.engine, X)
        seen = BaseEstimator()  # takes note of the features: a refused fit leaves this hasher as it was
        X = engine.take(X)
        if not hasattr(X, "places"):
            check_real(X)
            # The kernel map takes the mean of the rows anyway, and sees there whether all are finite.
            seen_later = isinstance(X, np.ndarray) and X.dtype == np.float32
            X = validate_data(seen, X, dtype=[np.float32, np.float64], ensure_all_finite=not seen_later)
            check_float32(X)
        else:  # checked where it lies
            validate_data(seen, X, skip_check_array=True)
        empty = Training(settings, engine, check_random_state(self.random_state))
        return self._become(empty.after(Change(X, y, ids)), seen)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from one more batch: the first call is `fit`, later ones `add`. ``classes`` is ignored."""
        return self.add(X, y) if self.__sklearn_is_fitted__() else self.fit(X, y)

    def update(
        self,
        X: Any = None,
        y: Any = None,
        ids: Iterable[Hashable] | None = None,
        *,
        remove: Iterable[Hashable] = (),
        remove_classes: Iterable[Hashable] = (),
    ) -> Self:
        """Apply several changes in one update: remove rows, remove classes, then add rows.

        To change the labels of a row, remove and add it under the same id. Labels must have the form
        that they had in `fit`.
        """
        training = self._training()
        if X is not None:
            X = self._check_rows(X)
            check_float32(X)
            X = X.astype(np.float32, copy=False)
        return self._become(training.after(Change(X, y, ids, remove, remove_classes)))

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
        training = self._training().copy()
        training.settings = self.checked()
        return self._become(training.relearned())

    def _become(self, training: Training, seen: Any = None) -> Self:
        """Take over what was learned, by one assignment; ``seen`` knows the features, if they are others."""
        noted = vars(self if seen is None else seen)
        features = {name: noted[name] for name in FEATURES if name in noted}
        others = {name: value for name, value in vars(self).items() if name not in FEATURES}
        learned = {"functions_": training.functions(), "training_": training}
        if hasattr(training, "report"):
            learned["report_"] = training.report
        self.__dict__ = others | features | learned
        return self

    def certify(self, tol: float = 0.01) -> Certificate:
        """Prove bounds on how far the binary SVMs are from their optimum. Changes nothing.

        The bounds come from cutting planes that start at the weights, and are at most ``tol`` below the
        optimum, so a much wider gap is due to the weights. This takes longer than a fit. Gaps are shares of
        the same as the parameter ``tol``.
        """
        return self._training().certify(tol)

    # What was learned.

    @property
    def classes_(self) -> Array:
        return self.functions_.classes_

    @property
    def kernel_(self) -> KernelMap:
        return self.functions_.kernel_

    @property
    def bit_coef_(self) -> Array:
        return self.functions_.bit_coef_

    @property
    def class_coef_(self) -> Array:
        return self.functions_.class_coef_

    @property
    def objective_(self) -> Objective:
        return self.functions_.objective_

    @property
    def n_iter_(self) -> int:
        return len(self.report_.rounds)

    @property
    def codes_(self) -> Array:
        return self._training().in_order("Y")

    @property
    def ids_(self) -> list[Hashable]:
        check_is_fitted(self)
        return self._training().ids if self.training_ is None else self.training_.ids

    def training_set(self) -> tuple[Array, Any, list[Hashable]]:
        """The current training rows, in the order of ``ids_``: ``(X, labels, ids)``.

        Labels have the form of those in `fit`; lists become sets.
        """
        training = self._training()
        return training.in_order("X"), training.form.give(training.row_labels()), training.ids

    # Codes and classes.

    def transform(self, X: Any) -> Any:
        """Codes as packed uint8, n × ceil(n_bits / 8). Codes of a Dask array are a Dask array."""
        if is_dask_array(X):
            check_is_fitted(self)
            from sihash.engines.dask_matrix import encode_blocks

            return encode_blocks(X, self.kernel_, self.bit_coef_)
        return super().transform(X)

    def _scores(self, X: Array) -> Array:
        return self.functions_._scores(X)

    def predict(self, X: Any) -> Any:
        """The likeliest class of each row: `HashFunctions.predict`."""
        check_is_fitted(self)
        return self.functions_.predict(self._check_rows(X))

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities (n × n_classes, float32), by rows that were left out."""
        check_is_fitted(self)
        return self.functions_.predict_proba(self._check_rows(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy of `predict`: the share of rows whose label, or set of labels, is that in ``y``."""
        found = self.predict(X)
        if self.functions_.form.kind == "labels":
            right = found == labels.as_labels(y, len(found))
        elif isinstance(found, np.ndarray):
            right = (found == np.asarray(y)).all(axis=1)
        else:
            right = np.array([one == set(given) for one, given in zip(found, y, strict=True)])
        return float(np.average(right, weights=sample_weight))

    # Files.

    def save(self, path: str | os.PathLike[str], updatable: bool = True, vectors: bool = True) -> None:
        """Write the hasher to one checksummed file.

        By default the file contains the training vectors and everything needed for updates. With
        ``updatable=False`` it contains only the hash functions and the second stage. With ``vectors=False``
        it can be updated once `attach_vectors` has supplied the vectors.
        """
        check_is_fitted(self)
        if updatable:
            self._training().save(path, self, self._feature_names(), vectors)
        else:
            self.functions_.save(path, self, self._feature_names())

    def _set_state(self, header: Entries, tensors: Entries) -> None:
        self.functions_ = HashFunctions.from_entries(header, tensors, self.params())
        self.training_ = None
        if "training" in header:
            stored = StoredTraining(header["training"], tensors, self.functions_)
            self.training_ = stored.training(self) or stored

    def attach_vectors(self, X: Any) -> Self:
        """Supply the training vectors of a hasher saved with ``vectors=False``, in the order of ``ids_``."""
        check_is_fitted(self)
        if not isinstance(self.training_, StoredTraining):
            raise ValueError("This SIH has its training rows, or none at all: there is nothing to attach.")
        self.training_ = self.training_.with_vectors(self._check_rows(X), self)
        return self

    # Checks.

    def __copy__(self) -> Self:
        """As deep as `copy.deepcopy`: two hashers must not write into the rows of one."""
        return copy.deepcopy(self)

    def __sklearn_is_fitted__(self) -> bool:
        return "functions_" in vars(self)

    def _training(self) -> Training:
        check_is_fitted(self)
        if not isinstance(self.training_, Training):
            raise NotFittedError(
                "This SIH was loaded from a file without training rows: it can hash, but not be updated. "
                "Load a file saved with updatable=True, attach_vectors where there are ids_, or fit again."
            )
        return self.training_

    def checked(self, **changes: Any) -> Settings:
        if self.verbose:
            show_log()
        return super().checked(**changes)
