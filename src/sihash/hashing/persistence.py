"""A training as arrays and JSON, so that updating can go on after a file is loaded."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from sihash import codes, labels
from sihash._typing import Array
from sihash.engines import Engine
from sihash.hashing.code_table import CodeTable
from sihash.hashing.hyperparameters import Hyperparameters
from sihash.hashing.label_sets import LabelSets
from sihash.hashing.row_labels import Form
from sihash.hashing.training_state import TrainingState
from sihash.kernel import KernelMap
from sihash.modelfile import Entries, ModelFileError, check_shapes
from sihash.svm import MulticlassSolution
from sihash.svm.binary import make_svms
from sihash.svm.blocks import Block


def training_file(training: TrainingState, vectors: bool) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and tensors, without Φ and the scores: they follow from ``X``, kernel and weights."""
    rows = training.svms.rows
    header = {
        "labels": labels.to_json(labels.object_array(training.labels)),
        "live": training.live.tolist(),
        "form": vars(training.form),
        "sets": training.sets.members,
        "ids": labels.to_json(labels.object_array(list(training.key_of))),
        "next_key": training.next_key,
        "outside": labels.to_json(labels.object_array(list(training.outside))),
        "blocks": rows.map(_size),
        "solved": [training.settings.method, training.settings.C_x],
    }
    kept = ("X", "y", "key") if vectors else ("y", "key")
    tensors = {f"rows.{name}": rows.column(name) for name in kept}
    tensors["rows.codes"] = codes.pack(rows.column("Y"))
    tensors["rows.set"] = training.table.sets[rows.column("pair")]
    tensors["words"] = codes.pack(training.class_words(training.live))
    tensors["rates"] = training.rates
    tensors["outside"] = np.array(list(training.outside.values()), dtype=np.int64)
    if training.kernel.made_of is not None:
        tensors["made_of"] = training.kernel.made_of
    tensors["keys"] = np.array(list(training.key_of.values()), dtype=np.int64)
    tensors |= {f"machines.{name}": value for name, value in training.svms.state().items()}
    return header, tensors


def generator_state(rng: np.random.RandomState) -> Array:
    """A generator as numbers: a hasher from a file draws as the saved one would have."""
    _, keys, position, *_ = rng.get_state(legacy=True)
    return np.append(keys, position).astype(np.int64)


def generator_from(state: Array) -> np.random.RandomState:
    rng = np.random.RandomState()
    rng.set_state(("MT19937", state[:-1].astype(np.uint32), int(state[-1]), 0, 0.0))
    return rng


def _size(block: Block) -> int:
    return block.n


class StoredTraining:
    """What `training_file` described, until its rows are there and a training can be made of it."""

    def __init__(self, header: Entries, tensors: Entries) -> None:
        self.header = header
        self.tensors = tensors
        self.ids: list[Hashable] = labels.from_json(header["ids"]).tolist()
        self.X = tensors.get("rows.X")  # in the order of the blocks
        self._check()

    def _check(self) -> None:
        """Refuse entries that do not fit each other, before learning goes on from them."""
        header, tensors = self.header, self.tensors
        n, n_bits = len(self.ids), len(tensors["bit_coef"])
        n_labels, n_outside = (len(header[name].list("values")) for name in ("labels", "outside"))
        shapes = {"keys": (n,), "rows.key": (n,), "rows.y": (n,), "rows.codes": (n, codes.n_bytes(n_bits))}
        shapes |= {"outside": (n_outside,), "machines.W": tensors["bit_coef"].shape}
        shapes |= {"generator": (625,), "rates": (n_labels,), **self._machine_shapes()}
        if "made_of" in tensors:
            shapes["made_of"] = (2, *tensors["made_of"].shape[1:2])
        if self.X is not None:
            shapes["rows.X"] = (n, *tensors["mean"].shape)
        check_shapes(tensors, shapes)
        header.number("next_key")
        if sorted(tensors["keys"].tolist()) != sorted(tensors["rows.key"].tolist()):
            raise tensors.wrong("keys", "they are not those in 'rows.key'")
        for name, numbers in (("live", header.list("live")), ("rows.y", tensors["rows.y"].tolist())):
            if not all(type(k) is int and 0 <= k < n_labels for k in numbers):
                raise header.wrong(name, f"numbers of {n_labels} classes were expected")
        sizes = header.list("blocks")
        if not all(type(k) is int and k >= 0 for k in sizes) or sum(sizes) != n:
            raise header.wrong("blocks", f"sizes that sum up to {n} rows were expected")
        if not isinstance(header["solved"], list):
            raise header.wrong("solved", "a solver and its C were expected")

    def _machine_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what the solvers keep, as far as it is there."""
        n, (m, p) = len(self.ids), self.tensors["bit_coef"].shape
        by_bit = ("width", "risk", "price", "tilt", "spread", "known_lower", "newest")
        shapes: dict[str, tuple[int, ...]] = {f"machines.{name}": (m,) for name in by_bit}
        shapes |= {"machines.gram": (p, p), "machines.gram_rows": (2,), "machines.g": (m, p)}
        planes = self.tensors.get("machines.a")
        if planes is not None:  # of the paper's solver
            shapes |= {"machines.a": (m, *planes.shape[1:2]), "machines.g": (m, *planes.shape[1:2], p)}
        shapes |= {name: (n, m) for name in self.tensors if name.startswith("machines.pi")}
        return {name: shape for name, shape in shapes.items() if name in self.tensors}

    def set_vectors(self, X: Array) -> None:
        """Take rows in the order of ``ids``."""
        keys = self.tensors["keys"]
        self.X = X[np.argsort(keys)[np.searchsorted(np.sort(keys), self.tensors["rows.key"])]]

    def restore(
        self, settings: Hyperparameters, engine: Engine, kernel: KernelMap, class_coef: Array
    ) -> TrainingState:
        assert self.X is not None
        header, tensors = self.header, self.tensors
        n_bits = len(tensors["machines.W"])
        settings = replace(settings, n_bits=n_bits)  # parameters may have been set for a later fit
        table = CodeTable(n_bits)
        columns = {"X": self.X, "y": tensors["rows.y"], "key": tensors["rows.key"]}
        names, live = labels.from_json(header["labels"]).tolist(), np.array(header["live"], dtype=np.intp)
        if not isinstance(header["sets"], list):
            raise ValueError(f"label sets must be a list, got {header['sets']!r}")
        sets = LabelSets(map(tuple, header["sets"]))
        columns["pair"] = table.find_all(tensors["rows.codes"], tensors["rows.set"])
        table.count(columns["pair"])
        table.find_each(codes.unpack(tensors["words"], n_bits), sets.of_classes(live))
        rows = engine.lay_out_again(kernel, columns, header["blocks"], table.words)
        svms = make_svms(rows, settings.C_x, settings.method)
        state = {k.removeprefix("machines."): v for k, v in tensors.items() if k.startswith("machines.")}
        try:
            if header.get("solved") == [settings.method, settings.C_x]:
                svms.set_state(state)
            else:  # what another solver kept, or for another C, is not valid here
                svms.start_from(state["W"])
        except KeyError as missing:
            raise ModelFileError(f"The model file lacks the tensor 'machines.{missing.args[0]}'.") from None
        return TrainingState(
            settings=settings,
            engine=engine,
            kernel=replace(kernel, made_of=tensors.get("made_of")),
            svms=svms,
            table=table,
            labels=names,
            form=Form.from_json(header["form"]),
            sets=sets,
            live=live,
            key_of=dict(zip(self.ids, tensors["keys"].tolist(), strict=True)),
            next_key=int(header["next_key"]),
            outside=dict(
                zip(labels.from_json(header["outside"]).tolist(), tensors["outside"].tolist(), strict=True)
            ),
            rates=tensors["rates"],
            class_svm=MulticlassSolution(class_coef, np.arange(len(class_coef)), np.inf, 0.0, 0, True),
        )
