"""The data sets that benchmarks take by name, with the features that each is measured with."""

from __future__ import annotations

from sihash import datasets

FEATURES = {"cifar10": "gist", "mnist": "pixels"}


def load(name: str) -> datasets.Dataset:
    return datasets.load(name, features=FEATURES[name])
