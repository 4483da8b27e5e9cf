"""A training as arrays and JSON, so that updating can go on after a file is loaded."""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sihash import codes, labels, modelfile
from sihash._typing import Array
from sihash.engines import open_engine
from sihash.hashing.hash_functions import HashFunctions
from sihash.hashing.settings import Settings
from sihash.labels import Form, LabelSets
from sihash.modelfile import Entries, ModelFileError, check_shapes
from sihash.svm import MulticlassSolution
from sihash.svm.binary import make_svms
from sihash.svm.blocks import Block

if TYPE_CHECKING:
    from sihash.hashing.training import Training


def save(
    path: str | os.PathLike[str],
    training: Training,
    settings: Settings | None = None,
    names: list[str] | None = None,
    vectors: bool = True,
) -> None:
    """Write a training with its hash functions; without ``vectors`` they are to be supplied to go on."""
    functions = training.functions()
    header, tensors = functions.entries()
    more_header, more_tensors = entries(training, vectors)
    params = (settings or training.settings).params_to_keep()
    modelfile.write_model(
        path,
        "SIH",
        params,
        functions.n_features_in_,
        names,
        header | {"training": more_header},
        tensors | more_tensors,
    )


def entries(training: Training, vectors: bool) -> tuple[dict[str, Any], dict[str, Array]]:
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
        "scratch": list(training.scratch),
        "n_since_spread": training.n_since_spread,
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
    tensors["generator"] = _generator_state(training.rng)
    tensors |= {f"machines.{name}": value for name, value in training.svms.state().items()}
    return header, tensors


def _generator_state(rng: np.random.RandomState) -> Array:
    """A generator as numbers: a hasher from a file draws as the saved one would have."""
    _, keys, position, *_ = rng.get_state(legacy=True)
    return np.append(keys, position).astype(np.int64)


def _generator_from(state: Array) -> np.random.RandomState:
    rng = np.random.RandomState()
    rng.set_state(("MT19937", state[:-1].astype(np.uint32), int(state[-1]), 0, 0.0))
    return rng


def _size(block: Block) -> int:
    return block.n


class StoredTraining:
    """A training in a file, until its vectors are there; ``functions`` are its hash functions."""

    def __init__(self, header: Entries, tensors: Entries, functions: HashFunctions) -> None:
        self.header, self.tensors, self.functions = header, tensors, functions
        self.ids: list[Hashable] = labels.from_json(header["ids"]).tolist()
        self.X = tensors.get("rows.X")  # in the order of the blocks
        self._check()

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Of a file that `save` wrote, or `sihash.SIH.save`."""
        with modelfile.reading(path, "SIH") as (header, tensors, params):
            return cls(header["training"], tensors, HashFunctions.from_entries(header, tensors, params))

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

    def with_vectors(
        self, X: Array, settings: Settings | None = None, places: Array | None = None
    ) -> Training:
        """The training, with its vectors: the rows ``places`` of ``X`` (default: all), as ``ids`` go."""
        places = np.arange(len(X)) if places is None else places
        if len(places) != len(self.ids):
            raise ValueError(f"Expected the {len(self.ids)} rows of ids_, got {len(places)}.")
        keys = self.tensors["keys"]
        X = X[places[np.argsort(keys)[np.searchsorted(np.sort(keys), self.tensors["rows.key"])]]]
        return self._training(X.astype(np.float32, copy=False), settings or self.functions.settings)

    def training(self, settings: Settings) -> Training | None:
        """The training, if the file holds its vectors."""
        return None if self.X is None else self._training(self.X.copy(), settings)

    def _training(self, X: Array, settings: Settings) -> Training:
        """The training with vectors ``X``, in the order of the blocks, which become its own."""
        from sihash.hashing.training import Training  # which writes itself by this module

        header, tensors = self.header, self.tensors
        n_bits, functions = len(tensors["machines.W"]), self.functions
        settings = settings.checked(n_bits=n_bits)  # parameters may have been set for a later fit
        training = Training(settings, open_engine(settings.engine), _generator_from(tensors["generator"]))
        table = training.table
        columns = {"X": X, "y": tensors["rows.y"], "key": tensors["rows.key"]}
        names, live = labels.from_json(header["labels"]).tolist(), np.array(header["live"], dtype=np.intp)
        if not isinstance(header["sets"], list):
            raise ValueError(f"label sets must be a list, got {header['sets']!r}")
        sets = LabelSets(map(tuple, header["sets"]))
        columns["pair"] = table.find_all(tensors["rows.codes"], tensors["rows.set"])
        table.count(columns["pair"])
        table.find_each(codes.unpack(tensors["words"], n_bits), sets.of_classes(live))
        training.kernel = replace(functions.kernel_, made_of=tensors.get("made_of"))
        rows = training.engine.lay_out(training.kernel, columns, table.words, header["blocks"])
        training.engine.settle(rows, training.kernel, table.words)
        svms = make_svms(rows, settings.C_x, settings.method)
        state = {k.removeprefix("machines."): v for k, v in tensors.items() if k.startswith("machines.")}
        try:
            if header.get("solved") == [settings.method, settings.C_x]:
                svms.set_state(state)
            else:  # what another solver kept, or for another C, is not valid here
                svms.start_from(state["W"])
        except KeyError as missing:
            raise ModelFileError(f"The model file lacks the tensor 'machines.{missing.args[0]}'.") from None
        W = functions.class_coef_
        training.class_svm = MulticlassSolution(W, np.arange(len(W)), np.inf, 0.0, 0, True)
        training.svms, training.labels, training.form = svms, names, Form.from_json(header["form"])
        training.sets, training.live, training.rates = sets, live, tensors["rates"]
        training.key_of = dict(zip(self.ids, tensors["keys"].tolist(), strict=True))
        training.next_key = int(header["next_key"])
        outside = labels.from_json(header["outside"]).tolist()
        training.outside = dict(zip(outside, tensors["outside"].tolist(), strict=True))
        steps, seconds = header.list("scratch")
        training.scratch = float(steps), float(seconds)
        training.spread = functions.class_model().spread
        training.n_since_spread = int(header.number("n_since_spread"))
        return training
