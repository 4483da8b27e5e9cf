"""Retrieval on the paper's data sets, where they are at hand. The margins below the bars are for one seed."""

from __future__ import annotations

import os

import numpy as np
import pytest

from sihash import SIH
from sihash.evaluation import leave_one_out
from sihash.research import data as research_data
from sihash.research.baselines import CCAITQ, SDH


def load(name, features):
    if not os.environ.get("SIHASH_DATA"):
        pytest.skip(f"{name} is needed: set SIHASH_DATA to a folder that holds it (docs/data.md)")
    return research_data.load(name, features=features)


def mAP(hasher, data):
    hasher.fit(np.asarray(data.X_train, dtype=np.float32), data.y_train)
    return leave_one_out(hasher.transform(data.X_test), data.y_test).mAP


@pytest.fixture(scope="module")
def cifar():
    return load("cifar10", "gist")


def test_mnist():
    assert mAP(SIH(random_state=0), load("mnist", "pixels")) > 0.955


def test_cifar_with_random_anchors(cifar):
    assert mAP(SIH(anchors="random", kernel_width=0.8, random_state=0), cifar) > 0.425


def test_cifar_with_the_defaults(cifar):
    assert mAP(SIH(random_state=0), cifar) > 0.435


def test_cifar_baselines(cifar):
    assert mAP(CCAITQ(random_state=0), cifar) > 0.305
    assert mAP(SDH(kernel_width=0.8, random_state=0), cifar) > 0.39


def test_three_new_classes_on_cifar(cifar):
    X, y = np.asarray(cifar.X_train, dtype=np.float32), np.asarray(cifar.y_train)
    first = np.isin(y, np.unique(y)[:7])
    hasher = SIH(anchors="random", kernel_width=0.8, random_state=0).fit(X[first], y[first])
    hasher.add(X[~first], y[~first])
    assert leave_one_out(hasher.transform(cifar.X_test), cifar.y_test).mAP > 0.415
