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
from sihash.hashing.class_model import ClassModel, Spread, answered
from sihash.hashing.settings import Settings
from sihash.kernel import KernelMap, normalise
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
    """What sees classes. A `Training` learns it when it is first needed."""

    def class_model(self) -> ClassModel: ...


@dataclass(frozen=True)
class KnownModel:
    """One that is known already."""

    model: ClassModel

    def class_model(self) -> ClassModel:
        return self.model


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

    def class_model(self) -> ClassModel:
        """What sees classes in vectors and margins; its labels are positions in ``classes_``."""
        return self.heads.class_model()

    def directions(self, X: Array) -> Array:
        """Rows as the class model sees them: centred unit vectors, float32."""
        return normalise(X.astype(np.float32, copy=False), self.kernel_.mean.astype(np.float32))

    def label_sets(self) -> list[frozenset[Any]]:
        """The labels of each head class of the class model."""
        model, names = self.class_model(), self.classes_.tolist()
        parts = np.split(model.flat, np.cumsum(model.counts)[:-1])
        return [frozenset(names[k] for k in own.tolist()) for own in parts]

    def class_log_proba(self, X: Array, margins: Array) -> Array:
        """log p (n × n_classes) of rows and their margins (n × n_bits) by `decision_function`."""
        return self.class_model().log_proba(self.directions(X), margins)

    def predict(self, X: Any) -> Any:
        """The likeliest class of each row, in the form of ``y`` in fit (`sihash.hashing.class_model`).

        For lists of labels that is a list of sets, for an indicator matrix another one. Where rows have
        several labels, a row gets those of a probability from a threshold on, and the likeliest in any case.
        The threshold is that of the highest micro-F1 on rows that were left out.
        """
        P, threshold = self.predict_proba(X), self.class_model().spread.threshold
        if threshold is not None:
            chosen = [np.flatnonzero(row) for row in answered(P, threshold)]
            return self.form.give([tuple(self.classes_[own].tolist()) for own in chosen])
        likeliest = self.classes_[P.argmax(axis=1)]
        return likeliest if self.form.kind == "labels" else self.form.give([(k,) for k in likeliest.tolist()])

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities (n × n_classes, float32), by rows that were left out.

        Where rows have several labels, each label has a probability of its own; else a row's sum to 1.
        """
        margins = self.decision_function(X)
        return np.exp(self.class_log_proba(np.asarray(X), margins)).astype(np.float32)

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
        kernel, model = self.kernel_, self.class_model()
        spread = {
            name: value
            for name, value in vars(model.spread).items()
            if name not in ("variances", "axes") and value is not None
        }
        header = {"classes": labels.to_json(self.classes_), "width": kernel.width, "kernel": kernel.kind}
        header |= {"objective": vars(self.objective_), "form": vars(self.form), "several": self.several}
        header |= {"spread": spread, "prior": model.prior}
        tensors = {
            "mean": kernel.mean,
            "anchors": kernel.anchors,
            "anchor_classes": np.empty(0, int) if kernel.anchor_classes is None else kernel.anchor_classes,
            "bit_coef": self.bit_coef_,
            "class_coef": self.class_coef_,
            "class.variances": model.spread.variances,
            "class.axes": model.spread.axes,
            "class.flat": model.flat,
            "class.counts": model.counts,
            "class.sums": model.sums,
            "class.sizes": model.sizes,
            "class.words": model.words.astype(np.int8),
        }
        return header, tensors

    @classmethod
    def from_entries(cls, header: Entries, tensors: Entries, params: dict[str, Any]) -> Self:
        classes, bit_coef = labels.from_json(header["classes"]), tensors["bit_coef"]
        anchor_classes = tensors["anchor_classes"] if len(tensors["anchor_classes"]) else None
        kernel = KernelMap(
            tensors["mean"], tensors["anchors"], header.number("width"), header["kernel"], anchor_classes
        )
        m, n_classes, d = len(bit_coef), len(classes), int(header.number("n_features_in"))
        n_sets = len(tensors["class.counts"])
        shapes: dict[str, tuple[int, ...]] = {
            "mean": (d,),
            "bit_coef": (m, kernel.n_features_out),
            "class_coef": (n_classes, m + 1),
            "class.variances": (d,),
            "class.axes": (d, d),
            "class.counts": (n_sets,),
            "class.sums": (n_sets, d),
            "class.sizes": (n_sets,),
            "class.words": (n_sets, m),
        }
        if anchor_classes is not None:
            shapes["anchor_classes"] = (len(tensors["anchors"]),)
        modelfile.check_shapes(tensors, shapes)
        several = header["several"]
        if not isinstance(several, bool):
            raise ValueError(f"several {several!r} is not what save writes")
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
            heads=KnownModel(_class_model(header, tensors, n_classes)),
        )


def _class_model(header: Entries, tensors: Entries, n_classes: int) -> ClassModel:
    """The class model of a file; what does not fit together is refused."""
    flat, counts = tensors["class.flat"], tensors["class.counts"]
    if counts.min(initial=1) < 1 or counts.sum() != len(flat) or set(flat.tolist()) != set(range(n_classes)):
        raise tensors.wrong("class.flat", f"label sets of {n_classes} classes were expected")
    names = ("shrinkage", "normal", "words", "normal_alone")
    numbers = {name: header["spread"].number(name) for name in names}
    threshold = header["spread"].number("threshold") if "threshold" in header["spread"] else None
    spread = Spread(tensors["class.variances"], tensors["class.axes"], **numbers, threshold=threshold)
    sums, sizes, words = (tensors[f"class.{name}"] for name in ("sums", "sizes", "words"))
    return ClassModel(spread, flat, counts, sums, sizes, words, header.number("prior"))
