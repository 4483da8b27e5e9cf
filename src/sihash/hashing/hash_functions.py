"""What learning leaves behind: hash functions, and what sees classes in their margins and codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sihash import labels
from sihash._typing import Array
from sihash.engines.matrix import encode_blocks, is_dask_array
from sihash.hasher import Hasher, check_shapes
from sihash.hashing.calibration import probabilities
from sihash.hashing.class_probability import margin_proba, margin_scores
from sihash.hashing.objective import Objective
from sihash.hashing.training_state import second_stage
from sihash.kernel import KernelMap
from sihash.modelfile import Entries


class HashFunctions(Hasher):
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

    def transform(self, X: Any) -> Any:
        """Codes as packed uint8, n × ceil(n_bits / 8); those of a Dask array are one, made where it lies."""
        if is_dask_array(X):
            check_is_fitted(self)
            return encode_blocks(X, self.kernel_, self.bit_coef_)
        return super().transform(X)

    def _scores(self, X: Array) -> Array:
        return self.kernel_(X) @ self.bit_coef_.T.astype(X.dtype, copy=False)

    def predict(self, X: Any) -> Array:
        """The class that the margins of each row are likeliest to come from."""
        scores = margin_scores(self.decision_function(X), self._margin_head())
        return self.classes_[np.argmax(scores, axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities (n × n_classes, float32) by the margins, calibrated for rows not trained on."""
        return self.margin_proba(self.decision_function(X))

    def margin_proba(self, margins: Array) -> Array:
        """Class probabilities (n × n_classes, float32) of margins (n × n_bits) by `decision_function`."""
        check_is_fitted(self)
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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "bit_coef_")

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
            check_shapes(tensors, {"anchor_classes": (len(tensors["anchors"]),)})
        self.bit_coef_, self.class_coef_ = tensors["bit_coef"], tensors["class_coef"]
        m, n_classes = len(self.bit_coef_), len(self.classes_)
        shapes = {"bit_coef": (m, self.kernel_.n_features_out), "class_coef": (n_classes, m + 1)}
        check_shapes(tensors, shapes | {"calibration": (1 + n_classes,), "class_margins": (n_classes, m + 1)})
        self._calibration, self._margins = tensors["calibration"], tensors["class_margins"]
        self.objective_ = Objective(
            *(header["objective"].number(name) for name in ("multiclass", "binary", "balance"))
        )
