"""Hash functions with their training rows: everything that an update needs.

`sihash.SIH` is the estimator that learns them first. A database loads them from a file to update them,
without scikit-learn, which takes most of a second to import.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Hashable, Iterable
from typing import Any, Self

import numpy as np

from sihash import hasher_file, labels
from sihash._typing import Array
from sihash.checks import check_count, check_float32
from sihash.engines import open_engine
from sihash.hashing import persistence, row_changes, row_ids
from sihash.hashing.anchor_columns import follow_classes
from sihash.hashing.fitted import Fitted
from sihash.hashing.hash_functions import HashFunctions
from sihash.hashing.hyperparameters import Hyperparameters
from sihash.hashing.label_probability import MarginHead
from sihash.hashing.report import Report, show_log
from sihash.hashing.row_labels import RowLabels, read_labels
from sihash.hashing.training_sample import Budget
from sihash.hashing.training_state import NewRows, TrainingState
from sihash.modelfile import Entries
from sihash.svm.certificate import Certificate, lower_bounds
from sihash.threads import team

FEATURES = ("n_features_in_", "feature_names_in_")  # what scikit-learn notes of the rows of a fit
NOT_KEPT = ("engine", "verbose")  # parameters that a model file does not hold

# Rows that come again with fewer labels: vectors, label sets, and their keys before by id.
Changed = tuple[Array, Array, dict[Hashable, int]]


class UpdatableHashFunctions(HashFunctions):
    """Hash functions, training rows and parameters of an `SIH`; its methods and attributes are there."""

    # The parameters that an update reads.
    n_anchors: int
    anchors: str | Array
    C_x: float
    C_b: float
    lam: float | None
    gamma: float
    max_iter: int
    tol: float
    solver: str
    codebook: str | Array
    training_rows: Budget
    engine: str | None = None
    verbose: bool = False

    # What `Fitted` brings, beside the hash functions.
    report_: Report
    _training: TrainingState | None
    _stored: persistence.StoredTraining | None  # a training that waits for its vectors
    _rng: np.random.RandomState
    _scratch: tuple[float, float]
    _params: dict[str, Any]  # as they lie in the file

    # Updates.

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
        training, gone = self._training_to_update(), labels.several(remove)
        gone_classes = labels.several(remove_classes)
        if X is not None:
            X = self._check_rows(X)
            check_float32(X)
            y = read_labels(y, len(X)).in_form(training.form)
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
                names, same = None if ids is None else list(ids), dict[Hashable, int]()
                if gone:
                    row_ids.check_known(gone, twin.key_of, twin.outside)
                    if X is not None and names is not None:
                        same = row_changes.returning(twin, gone, X, names)
                    row_changes.leave_rows(twin, gone)
                changed = self._leave_classes(twin, gone_classes)
                new = None if X is None and changed is None else self._arrivals(twin, X, y, names, changed)
                row_changes.keep_anchors(twin, same if changed is None else same | changed[2])
                report.n_removed = training.n_known + report.n_added - twin.n_known
                _check_classes(twin, new)
                if new is not None and len(new.y) > len(twin.svms.rows):
                    twin.svms.forget()  # most rows are new: a start from 0 takes fewer steps
            with report.phase("anchors"):
                how = self.anchors if isinstance(self.anchors, str) else "given"
                follow_classes(twin, new, self.n_anchors, how, rng)
            with report.phase("rows"):
                if new is not None:
                    row_changes.join(twin, new, rng)
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
        parts: list[tuple[Array, Array, Iterable[Hashable]]] = [] if changed is None else [changed]
        if X is not None and y is not None:
            taken = twin.key_of, twin.outside, *(dict.fromkeys(part[2], 0) for part in parts)
            names = row_ids.new_ids(ids, len(X), twin.next_key, *taken)
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

    def _run(self, twin: TrainingState, report: Report, rng: np.random.RandomState) -> Self:
        """Train a changed training and make it, and the generator it drew from, the present ones."""
        with team():
            twin.run(report)
        twin.keep_probabilities(self._training_to_update())
        report.scratch_steps = self._scratch[0]
        report.scratch_seconds = self._scratch[1] * report.n_rows
        return self._take(Fitted.of(twin, report, rng, self._scratch))

    def _take(self, fitted: Fitted, seen: Any = None) -> Self:
        """Become what was learned, by one assignment; ``seen`` knows the features, if they are others."""
        noted = vars(self if seen is None else seen)
        features = {name: noted[name] for name in FEATURES if name in noted}
        others = {name: value for name, value in vars(self).items() if name not in FEATURES}
        self.__dict__ = others | features | fitted.attributes()
        return self

    def certify(self, tol: float = 0.01) -> Certificate:
        """Prove bounds on how far the binary SVMs are from their optimum. Changes nothing.

        The bounds come from cutting planes that start at the weights, and are at most ``tol`` below the
        optimum, so a much wider gap is due to the weights. This takes longer than a fit. Gaps are shares of
        the same as the parameter ``tol``.
        """
        training = self._training_to_update()
        with team():
            lower = training.with_rows(lambda: lower_bounds(training.svms, tol))
        return Certificate(training.svms.upper(), lower, training.scale())

    # The training rows.

    @property
    def n_iter_(self) -> int:
        return len(self.report_.rounds)

    def training_hashes(self) -> tuple[Array, Array]:
        """What `transform` gives for the training rows, in the order of ``ids_``, and where this is certain.

        The codes come from the scores that learning left behind. Where one is so close to zero that rounding
        may decide the bit, the row is not certain; `transform` has the last word.
        """
        return self._training_to_update().hashes()

    def left_out_margins(self, n: int) -> tuple[list[Hashable], Array]:
        """Ids of about ``n`` training rows, and their margins as if they had not been trained on.

        An estimate from the leverage of each row, because margins of training rows are too optimistic.
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
        self._check_fitted()
        return list(self._training_to_update().key_of) if self._stored is None else self._stored.ids

    def training_set(self) -> tuple[Array, Any, list[Hashable]]:
        """The current training rows, in the order of ``ids_``: ``(X, labels, ids)``.

        Labels have the form of those in `fit`; lists become sets.
        """
        training = self._training_to_update()
        return training.in_order("X"), training.form.give(training.row_labels()), self.ids_

    def __copy__(self) -> Self:
        """As deep as `copy.deepcopy`: two hashers must not write into the rows of one."""
        return copy.deepcopy(self)

    # Files.

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote, to hash, classify and update."""
        header, tensors, params = hasher_file.read(path, "SIH")
        functions = cls()
        functions._params = params
        vars(functions).update(params)
        hasher_file.restore(functions, path, header, tensors)
        return functions

    def save(self, path: str | os.PathLike[str], updatable: bool = True, vectors: bool = True) -> None:
        """Write the hasher to one checksummed file.

        By default the file contains the training vectors and everything needed for updates. With
        ``updatable=False`` it contains only the hash functions and the second stage. With ``vectors=False``
        it can be updated once `attach_vectors` has supplied the vectors.
        """
        self._check_fitted()
        header, tensors = self._state()
        if updatable:
            training = self._training_to_update()
            more_header, more_tensors = training.with_rows(
                lambda: persistence.training_file(training, vectors)
            )
            header["training"] = {**more_header, "scratch": list(self._scratch)}
            tensors |= more_tensors | {"generator": persistence.generator_state(self._rng)}
        hasher_file.write(path, "SIH", self._params_to_keep(), self, header, tensors)

    def _set_state(self, header: Entries, tensors: Entries) -> None:
        super()._set_state(header, tensors)
        self._training, self._stored = None, None
        if "training" in header:
            steps, seconds = header["training"].list("scratch")
            self._scratch = float(steps), float(seconds)
            self._rng = persistence.generator_from(tensors["generator"])
            self._stored = persistence.StoredTraining(header["training"], tensors)
            if self._stored.X is not None:
                self._restore(self._stored)

    def attach_vectors(self, X: Any) -> Self:
        """Supply the training vectors of a hasher saved with ``vectors=False``, in the order of ``ids_``."""
        self._check_fitted()
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
        self._check_fitted()
        return super()._margin_head() if self._training is None else self._training.class_margins()

    def _restore(self, stored: persistence.StoredTraining) -> None:
        engine = open_engine(self.engine)
        self._training = stored.restore(self._settings(), engine, self.kernel_, self.class_coef_)
        self._training.calibration, self._training.margin_head = self._calibration, self._margins
        self._stored = None

    def _params_to_keep(self) -> dict[str, Any]:
        return self._params

    # Checks.

    def _check_fitted(self) -> None:
        """Only an estimator can be there without having learned anything."""

    def _is_verbose(self) -> bool:
        if self.verbose:
            show_log()
        return bool(self.verbose)

    def _training_to_update(self) -> TrainingState:
        self._check_fitted()
        if self._training is None:
            from sklearn.exceptions import NotFittedError  # not at every start

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

    def _settings(self) -> Hyperparameters:
        check_count("n_anchors", self.n_anchors)
        return Hyperparameters.checked(
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


def _check_classes(twin: TrainingState, new: NewRows | None) -> None:
    coming = () if new is None else twin.sets.apart(np.unique(new.sets))[1]
    n_classes = len(np.union1d(twin.live, coming))
    if n_classes < 2:
        raise ValueError(
            f"This removal would leave {n_classes} class(es); hashing needs two or more. Nothing was changed."
        )
