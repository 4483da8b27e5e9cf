"""The real data sets, where SIHASH_DATA holds them."""

from __future__ import annotations

import os
from itertools import islice

import numpy as np
import pytest

from sihash import codes as codes_module
from sihash.evaluation import leave_one_out
from sihash.features import extract
from sihash.research.data import load, read

DATA = os.environ.get("SIHASH_DATA", "")


def needs(folder):
    there = bool(DATA) and os.path.isdir(os.path.join(DATA, folder))
    return pytest.mark.skipif(not there, reason=f"SIHASH_DATA holds no {folder}")


@pytest.fixture(autouse=True)
def real_data(own_places, monkeypatch):
    monkeypatch.setenv("SIHASH_DATA", DATA)


@needs("mnist")
def test_mnist():
    data = load("mnist", "pixels", cache=False)
    assert data.X_train.shape == (60_000, 784)
    assert data.X_test.shape == (10_000, 784)
    assert np.bincount(data.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.y_train[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


@needs("cifar-10")
def test_cifar10_and_its_gist():
    """A ridge regression from GIST of 6,000 images onto random words: far above the 0.1 of chance."""
    collection = read("cifar10")
    assert len(collection.names) == 60_000
    assert collection.is_test.sum() == 10_000
    assert collection.class_names is None
    assert sorted(set(collection.y))[:3] == ["airplane", "automobile", "bird"]
    test = np.flatnonzero(collection.is_test)
    X = (
        extract(islice(collection.X, len(test)), "gist")
        if test[-1] == len(test) - 1
        else pytest.skip("test part not first")
    )
    y = collection.y[test]
    rng = np.random.default_rng(0)
    order = rng.permutation(len(test))
    known, asked = order[:6_000], order[6_000:]
    numbers = np.unique(y, return_inverse=True)[1]
    words = np.where(rng.random((10, 32)) < 0.5, 1.0, -1.0)
    X -= X.mean(axis=0)
    W = np.linalg.solve(X[known].T @ X[known] + np.eye(512), X[known].T @ words[numbers[known]])
    assert leave_one_out(codes_module.pack(codes_module.sign(X[asked] @ W)), y[asked]).mAP > 0.22
