"""All that a fit or an update finds out, in one object that the estimator takes over whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sihash import labels
from sihash._typing import Array
from sihash.hashing.objective import Objective
from sihash.hashing.report import Report
from sihash.hashing.row_labels import Form
from sihash.hashing.training_state import TrainingState
from sihash.kernel import KernelMap


@dataclass(frozen=True)
class Fitted:
    """The attributes of a fitted `SIH`, under the names that they have there.

    An update makes a new one from a twin of the training and hands it over at the end, so an error or Ctrl-C
    leaves the estimator with the old one.
    """

    classes_: Array
    kernel_: KernelMap
    bit_coef_: Array
    class_coef_: Array
    objective_: Objective
    report_: Report
    _form: Form
    _several: bool
    _training: TrainingState
    _rng: np.random.RandomState  # what the next update draws from
    _scratch: tuple[float, float]  # steps, and seconds per row, of the last fit from scratch
    _stored: None = None  # the rows are here

    @classmethod
    def of(
        cls,
        training: TrainingState,
        report: Report,
        rng: np.random.RandomState,
        scratch: tuple[float, float] | None = None,
    ) -> Self:
        """What a trained training amounts to; without ``scratch`` this was a fit from scratch itself."""
        assert training.class_svm is not None
        if scratch is None:
            scratch = report.n_steps, report.total_seconds / report.n_rows
        return cls(
            classes_=labels.as_classes([training.labels[int(k)] for k in training.live]),
            kernel_=training.kernel,
            bit_coef_=training.svms.W.astype(np.float32),
            class_coef_=training.class_svm.W,
            objective_=training.objective(),
            report_=report,
            _form=training.form,
            _several=training.several,
            _training=training,
            _rng=rng,
            _scratch=scratch,
        )

    def attributes(self) -> dict[str, Any]:
        return dict(vars(self))
