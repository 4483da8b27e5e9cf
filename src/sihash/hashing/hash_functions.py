"""What learning leaves behind: hash functions, and what sees classes in their margins and codes.

This is all that a search needs, so nothing here imports scikit-learn, which takes most of a second.
"""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from sihash import labels, modelfile
from sihash._typing import Array
from sihash.codes_out import CodesOut
from sihash.hashing.calibration import probabilities, second_stage
from sihash.hashing.class_probability import margin_proba, margin_scores
from sihash.hashing.objective import Objective
from sihash.kernel import KernelMap


class HashFunctions(CodesOut):
    """Kernel map, binary SVMs and multi-class SVM in use; `sihash.SIH` learns them and keeps them up to date.

    A model file with ``updatable=False`` holds exactly this.
    """

    classes_: Array
    kernel_: KernelMap
    bit_coef_: Array
    class_coef_: Array
    objective_: Objective
    _calibration: Array
    _margins: Array

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Only the hash functions of a file that `sihash.SIH.save` wrote: to hash and classify."""
        header, tensors = modelfile.read(path)
        if header.get("class") != "SIH":
            raise modelfile.ModelFileError(f"{path} holds a {header.get('class')} model, not hash functions.")
        functions = cls()
        functions.n_features_in_ = int(header["n_features_in"])
        modelfile.check_shapes(tensors, {"mean": (functions.n_features_in_,)})
        functions._set_state(header, tensors)
        functions.n_bits = len(functions.bit_coef_)
        return functions

    def _scores(self, X: Array) -> Array:
        return self.kernel_(X) @ self.bit_coef_.T.astype(X.dtype, copy=False)

    def predict(self, X: Any) -> Array:
        """The class that the margins of each row are likeliest to come from."""
        scores = margin_scores(self.decision_function(X), self._margin_head())
        return self.classes_[np.argmax(scores, axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy of `predict`: the share of rows of ``X`` whose label is that in ``y``."""
        told = self.predict(X)
        return float(np.average(told == labels.as_labels(y, len(told)), weights=sample_weight))

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities (n × n_classes, float32) by the margins, calibrated for rows not trained on."""
        return self.margin_proba(self.decision_function(X))

    def margin_proba(self, margins: Array) -> Array:
        """Class probabilities (n × n_classes, float32) of margins (n × n_bits) by `decision_function`."""
        return margin_proba(margins, self._margin_head())

    def code_proba(self, B: Array) -> Array:
        """Class probabilities of codes (n × n_bits), for what only has one, by the second stage.

        Bits are ±1, or between them where they are in doubt.
        """
        return probabilities(second_stage(B, self.class_coef_), self._calibrated())

    def _calibrated(self) -> Array:
        return self._calibration

    def _margin_head(self) -> Array:
        return self._margins

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        kernel = self.kernel_
        header = {"classes": labels.to_json(self.classes_), "width": kernel.width, "kernel": kernel.kind}
        header["objective"] = vars(self.objective_)
        tensors = {
            "mean": kernel.mean,
            "anchors": kernel.anchors,
            "anchor_classes": np.empty(0, int) if kernel.anchor_classes is None else kernel.anchor_classes,
            "bit_coef": self.bit_coef_,
            "class_coef": self.class_coef_,
            "calibration": self._calibrated(),
            "class_margins": self._margin_head(),
        }
        return header, tensors

    def _set_state(self, header: dict[str, Any], tensors: dict[str, Array]) -> None:
        self.classes_ = labels.from_json(header["classes"])
        self.kernel_ = KernelMap(
            tensors["mean"],
            tensors["anchors"],
            header["width"],
            header["kernel"],
            tensors["anchor_classes"] if len(tensors["anchor_classes"]) else None,
        )
        self.bit_coef_, self.class_coef_ = tensors["bit_coef"], tensors["class_coef"]
        m, n_classes = len(self.bit_coef_), len(self.classes_)
        shapes = {"bit_coef": (m, self.kernel_.n_features_out), "class_coef": (n_classes, m + 1)}
        modelfile.check_shapes(
            tensors, shapes | {"calibration": (1 + n_classes,), "class_margins": (n_classes, m + 1)}
        )
        self._calibration, self._margins = tensors["calibration"], tensors["class_margins"]
        self.objective_ = Objective(
            *(header["objective"][name] for name in ("multiclass", "binary", "balance"))
        )
