"""All that a fit or an update finds out, in one object that the estimator takes over whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sihash import labels
from sihash._typing import Array
from sihash.hashing.learner import Learner
from sihash.hashing.objective import Objective
from sihash.hashing.report import Report
from sihash.kernel import KernelMap


@dataclass(frozen=True)
class Fitted:
    """The attributes of a fitted `SIH`, under the names that they have there.

    An update makes a new one from a twin of the learner and hands it over at the end, so an error or Ctrl-C
    leaves the estimator with the old one.
    """

    classes_: Array
    kernel_: KernelMap
    bit_coef_: Array
    class_coef_: Array
    objective_: Objective
    report_: Report
    _learner: Learner
    _rng: np.random.RandomState  # what the next update draws from
    _scratch: tuple[float, float]  # steps, and seconds a row, of the last fit from scratch
    _stored: None = None  # the rows are here

    @classmethod
    def of(
        cls,
        learner: Learner,
        report: Report,
        rng: np.random.RandomState,
        scratch: tuple[float, float] | None = None,
    ) -> Self:
        """What a trained learner amounts to; without ``scratch`` this was a fit from scratch itself."""
        assert learner.class_svm is not None
        if scratch is None:
            scratch = report.n_steps, report.total_seconds / report.n_rows
        return cls(
            classes_=labels.as_classes([learner.labels[int(k)] for k in learner.live]),
            kernel_=learner.kernel,
            bit_coef_=learner.svms.W.astype(np.float32),
            class_coef_=learner.class_svm.W,
            objective_=learner.objective(),
            report_=report,
            _learner=learner,
            _rng=rng,
            _scratch=scratch,
        )

    def attributes(self) -> dict[str, Any]:
        return dict(vars(self))
