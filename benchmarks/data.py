"""The data sets that benchmarks take by name, with the features that each is measured with."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from sihash.datasets import Dataset
from sihash.research import data as research_data

FEATURES = {"cifar10": "gist", "mnist": "pixels"}
EMBEDDED = {"tiny-imagenet": "tiny-imagenet-200/efficientnet-lite0.npz", "clinc150": "clinc150/minilm.npz"}
NAMES = sorted({**FEATURES, **EMBEDDED})
N_BITS = {"tiny-imagenet": 64, "clinc150": 64}  # 32 for the others


class Embedded:
    """Ready-made vectors from a file in the folder that `SIHASH_DATA` names."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as file:
            self.X_train, self.X_test = (file[name].astype(np.float32) for name in ("X_train", "X_test"))
            self.y_train, self.y_test = file["y_train"], file["y_test"]
            self.X_unknown = file["X_unknown"].astype(np.float32) if "X_unknown" in file else None


def load(name: str) -> Dataset | Embedded:
    if name in EMBEDDED:
        return Embedded(Path(os.environ.get("SIHASH_DATA", ".")) / EMBEDDED[name])
    return research_data.load(name, features=FEATURES[name])
