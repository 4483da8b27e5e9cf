"""What learning leaves behind: hash functions, and what sees classes in their margins and codes.

This is all that a search needs, so nothing here imports scikit-learn, which takes most of a second.
"""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from sihash import hasher_file, labels, modelfile
from sihash._typing import Array
from sihash.codes_out import CodesOut
from sihash.hashing.calibration import probabilities, second_stage
from sihash.hashing.class_probability import margin_scores
from sihash.hashing.label_probability import MarginHead, predicted
from sihash.hashing.objective import Objective
from sihash.hashing.row_labels import Form
from sihash.kernel import KernelMap
from sihash.modelfile import Entries


class HashFunctions(CodesOut):
    """Kernel map, binary SVMs and multi-class SVM in use; `sihash.SIH` learns them and keeps them up to date.

    A model file with ``updatable=False`` holds exactly this.
    """

    classes_: Array
    kernel_: KernelMap
    bit_coef_: Array
    class_coef_: Array
    objective_: Objective
    _form: Form  # in which labels were given ...
    _several: bool  # ... and whether some row had more than one
    _calibration: Array
    _margins: MarginHead

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Only the hash functions of a file that `sihash.SIH.save` wrote: to hash and classify."""
        header, tensors, _ = hasher_file.read(path, "SIH")
        functions = cls()
        hasher_file.restore(functions, path, header, tensors)
        functions.n_bits = len(functions.bit_coef_)
        return functions

    def _scores(self, X: Array) -> Array:
        return self.kernel_(X) @ self.bit_coef_.T.astype(X.dtype, copy=False)

    def predict(self, X: Any) -> Any:
        """The class that the margins of each row are likeliest to come from, in the form of ``y`` in fit.

        For lists of labels that is a list of sets, for an indicator matrix another one. Where rows have
        several labels, a row gets those of a probability from a threshold on, and the likeliest in any case.
        The threshold is that of the highest micro-F1 on training rows as if left out.
        """
        margins, head = self.decision_function(X), self._margin_head()
        if head.threshold is not None:
            chosen = [np.flatnonzero(row) for row in predicted(head.proba(margins), head.threshold)]
            return self._form.give([tuple(self.classes_[own].tolist()) for own in chosen])
        likeliest = self.classes_[np.argmax(margin_scores(margins, head.coef), axis=1)]
        return (
            likeliest if self._form.kind == "labels" else self._form.give([(k,) for k in likeliest.tolist()])
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy of `predict`: the share of rows whose label, or set of labels, is that in ``y``."""
        told = self.predict(X)
        if self._form.kind == "labels":
            right = told == labels.as_labels(y, len(told))
        elif isinstance(told, np.ndarray):
            right = (told == np.asarray(y)).all(axis=1)
        else:
            right = np.array([own == set(given) for own, given in zip(told, y, strict=True)])
        return float(np.average(right, weights=sample_weight))

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities (n × n_classes, float32) by the margins, calibrated for rows not trained on.

        Where rows have several labels, each label has a probability of its own; else a row's sum to 1.
        """
        return self.margin_proba(self.decision_function(X))

    def margin_proba(self, margins: Array) -> Array:
        """Class probabilities (n × n_classes, float32) of margins (n × n_bits) by `decision_function`."""
        return self._margin_head().proba(margins)

    def code_proba(self, B: Array) -> Array:
        """Class probabilities of codes (n × n_bits), for what only has one, by the second stage.

        Bits are ±1, or between them where they are in doubt.
        """
        return probabilities(second_stage(B, self.class_coef_), self._calibrated(), self._several)

    def _calibrated(self) -> Array:
        return self._calibration

    def _margin_head(self) -> MarginHead:
        return self._margins

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        kernel = self.kernel_
        header = {"classes": labels.to_json(self.classes_), "width": kernel.width, "kernel": kernel.kind}
        header["objective"] = vars(self.objective_)
        head = self._margin_head()
        header |= {"form": vars(self._form), "several": self._several}
        if head.threshold is not None:
            header["threshold"] = head.threshold
        tensors = {
            "mean": kernel.mean,
            "anchors": kernel.anchors,
            "anchor_classes": np.empty(0, int) if kernel.anchor_classes is None else kernel.anchor_classes,
            "bit_coef": self.bit_coef_,
            "class_coef": self.class_coef_,
            "calibration": self._calibrated(),
            "class_margins": head.coef,
        }
        return header, tensors

    def _set_state(self, header: Entries, tensors: Entries) -> None:
        self.classes_ = labels.from_json(header["classes"])
        self.kernel_ = KernelMap(
            tensors["mean"],
            tensors["anchors"],
            header.number("width"),
            header["kernel"],
            tensors["anchor_classes"] if len(tensors["anchor_classes"]) else None,
        )
        if tensors["anchor_classes"].size:
            modelfile.check_shapes(tensors, {"anchor_classes": (len(tensors["anchors"]),)})
        self.bit_coef_, self.class_coef_ = tensors["bit_coef"], tensors["class_coef"]
        m, n_classes = len(self.bit_coef_), len(self.classes_)
        shapes = {"bit_coef": (m, self.kernel_.n_features_out), "class_coef": (n_classes, m + 1)}
        modelfile.check_shapes(
            tensors, shapes | {"calibration": (1 + n_classes,), "class_margins": (n_classes, m + 1)}
        )
        self._form, self._several = Form.from_json(header["form"]), header["several"]
        threshold = header.get("threshold")
        if not isinstance(self._several, bool) or not (threshold is None or 0 <= threshold <= 1):
            raise ValueError(f"several {self._several!r} or threshold {threshold!r} is not what save writes")
        self._calibration = tensors["calibration"]
        self._margins = MarginHead(tensors["class_margins"], threshold)
        self.objective_ = Objective(
            *(header["objective"].number(name) for name in ("multiclass", "binary", "balance"))
        )
