"""What learning leaves behind: hash functions, and what sees classes in their margins and codes.

This is all that a search needs; it does not import scikit-learn.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from sihash import labels, modelfile
from sihash._typing import Array
from sihash.encoder import EncoderMixin
from sihash.hashing.calibration import probabilities, second_stage
from sihash.hashing.class_probability import margin_scores
from sihash.hashing.label_probability import MarginHead, predicted
from sihash.hashing.settings import Settings
from sihash.kernel import KernelMap
from sihash.labels import Form
from sihash.modelfile import Entries


@dataclass(frozen=True)
class Objective:
    """The three terms of eq. 1 and their sum.

    ``multiclass = λ (½ Σ_k ‖w_kᵇ‖² + Cᵇ Σ_i ξ_iᵇ)``, ``binary = Σ_j (½ ‖w_jˣ‖² + Cˣ Σ_i ξ_ijˣ)``, ``balance
    = γ Σ_j |Σ_i b_ij|``.
    """

    multiclass: float
    binary: float
    balance: float

    @property
    def total(self) -> float:
        return self.multiclass + self.binary + self.balance


class Heads(Protocol):
    """What sees classes in codes and in margins. A `Training` learns them when they are first needed."""

    def calibrate(self) -> Array: ...

    def class_margins(self) -> MarginHead: ...


@dataclass(frozen=True)
class KnownHeads:
    """Those that a file holds."""

    calibration: Array
    margin_head: MarginHead

    def calibrate(self) -> Array:
        return self.calibration

    def class_margins(self) -> MarginHead:
        return self.margin_head


@dataclass(frozen=True, eq=False)
class HashFunctions(EncoderMixin):
    """Kernel map, binary SVMs and multi-class SVM; a `Training` makes them.

    ``bit_coef_`` is Wˣ (n_bits × n_features_out, float32), ``class_coef_`` Wᵇ (n_classes × n_bits + 1);
    ``form`` says how labels were given, ``several`` whether some row had more than one.
    """

    settings: Settings
    kernel_: KernelMap
    bit_coef_: Array
    class_coef_: Array
    classes_: Array
    objective_: Objective
    form: Form
    several: bool
    heads: Heads

    @property
    def n_bits(self) -> int:  # type: ignore[override]
        return len(self.bit_coef_)

    @property
    def n_features_in_(self) -> int:  # type: ignore[override]
        return len(self.kernel_.mean)

    def _scores(self, X: Array) -> Array:
        return self.kernel_(X) @ self.bit_coef_.T.astype(X.dtype, copy=False)

    def predict(self, X: Any) -> Any:
        """The class that the margins of each row are likeliest to come from, in the form of ``y`` in fit.

        For lists of labels that is a list of sets, for an indicator matrix another one. Where rows have
        several labels, a row gets those of a probability from a threshold on, and the likeliest in any case.
        The threshold is that of the highest micro-F1 on training rows as if left out.
        """
        return self.predict_margins(self.decision_function(X))

    def predict_margins(self, margins: Array) -> Any:
        """`predict` for margins (n × n_bits) by `decision_function`."""
        head = self.heads.class_margins()
        if head.threshold is not None:
            chosen = [np.flatnonzero(row) for row in predicted(head.proba(margins), head.threshold)]
            return self.form.give([tuple(self.classes_[own].tolist()) for own in chosen])
        likeliest = self.classes_[np.argmax(margin_scores(margins, head.coef), axis=1)]
        return likeliest if self.form.kind == "labels" else self.form.give([(k,) for k in likeliest.tolist()])

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities (n × n_classes, float32) by the margins, calibrated for rows not trained on.

        Where rows have several labels, each label has a probability of its own; else a row's sum to 1.
        """
        return self.margin_proba(self.decision_function(X))

    def margin_proba(self, margins: Array) -> Array:
        """Class probabilities (n × n_classes, float32) of margins (n × n_bits) by `decision_function`."""
        return self.heads.class_margins().proba(margins)

    def code_proba(self, B: Array) -> Array:
        """Class probabilities of codes (n × n_bits), for what only has one, by the second stage.

        Bits are ±1, or between them where they are in doubt.
        """
        return probabilities(second_stage(B, self.class_coef_), self.heads.calibrate(), self.several)

    # Files.

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """The hash functions of a file that `sihash.SIH.save` wrote: to hash and classify."""
        with modelfile.reading(path, "SIH") as (header, tensors, params):
            return cls.from_entries(header, tensors, params)

    def save(
        self,
        path: str | os.PathLike[str],
        settings: Settings | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Write them, with the parameters of the hasher, and the names of the features if there are any."""
        params = (settings or self.settings).params_to_keep()
        modelfile.write_model(path, "SIH", params, self.n_features_in_, names, *self.entries())

    def entries(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Header and tensors of a file."""
        kernel, head = self.kernel_, self.heads.class_margins()
        header = {"classes": labels.to_json(self.classes_), "width": kernel.width, "kernel": kernel.kind}
        header |= {"objective": vars(self.objective_), "form": vars(self.form), "several": self.several}
        if head.threshold is not None:
            header["threshold"] = head.threshold
        tensors = {
            "mean": kernel.mean,
            "anchors": kernel.anchors,
            "anchor_classes": np.empty(0, int) if kernel.anchor_classes is None else kernel.anchor_classes,
            "bit_coef": self.bit_coef_,
            "class_coef": self.class_coef_,
            "calibration": self.heads.calibrate(),
            "class_margins": head.coef,
        }
        return header, tensors

    @classmethod
    def from_entries(cls, header: Entries, tensors: Entries, params: dict[str, Any]) -> Self:
        classes, bit_coef = labels.from_json(header["classes"]), tensors["bit_coef"]
        anchor_classes = tensors["anchor_classes"] if len(tensors["anchor_classes"]) else None
        kernel = KernelMap(
            tensors["mean"], tensors["anchors"], header.number("width"), header["kernel"], anchor_classes
        )
        m, n_classes = len(bit_coef), len(classes)
        shapes: dict[str, tuple[int, ...]] = {
            "mean": (int(header.number("n_features_in")),),
            "bit_coef": (m, kernel.n_features_out),
            "class_coef": (n_classes, m + 1),
            "calibration": (1 + n_classes,),
            "class_margins": (n_classes, m + 1),
        }
        if anchor_classes is not None:
            shapes["anchor_classes"] = (len(tensors["anchors"]),)
        modelfile.check_shapes(tensors, shapes)
        several, threshold = header["several"], header.get("threshold")
        if not isinstance(several, bool) or not (threshold is None or 0 <= threshold <= 1):
            raise ValueError(f"several {several!r} or threshold {threshold!r} is not what save writes")
        terms = (header["objective"].number(name) for name in ("multiclass", "binary", "balance"))
        return cls(
            settings=Settings(**params),
            kernel_=kernel,
            bit_coef_=bit_coef,
            class_coef_=tensors["class_coef"],
            classes_=classes,
            objective_=Objective(*terms),
            form=Form.from_json(header["form"]),
            several=several,
            heads=KnownHeads(tensors["calibration"], MarginHead(tensors["class_margins"], threshold)),
        )
