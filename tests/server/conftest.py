"""A small database of digits, and services over copies of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from services import FIRST_CLASSES, N_KNOWN, Served, application, png, running
from sklearn.datasets import load_digits

from sihash.database import Database


@pytest.fixture(scope="session")
def digits() -> list[tuple[bytes, str]]:
    """Image files of digits and their labels."""
    found = load_digits()
    return [(png(image), str(label)) for image, label in zip(found.images, found.target, strict=True)]


@pytest.fixture(scope="session")
def template(digits, tmp_path_factory) -> Path:
    """A database of the first digits, whose ids are numbers. Tests that write use a copy."""
    path = tmp_path_factory.mktemp("template") / "digits"
    known = [
        (label, f"{label}/{number:04d}.png", data)
        for number, (data, label) in enumerate(digits[:N_KNOWN])
        if int(label) < FIRST_CLASSES
    ]
    labels, names, images = zip(*sorted(known), strict=True)
    Database.create(path, images, labels, names=names, n_bits=32, n_anchors=100).close()
    return path


@pytest.fixture(scope="session")
def folder_template(digits, tmp_path_factory) -> Path:
    """A database of a folder of images: their names are their ids, their files are where they were."""
    folder = tmp_path_factory.mktemp("folder")
    for number, (data, label) in enumerate(digits[:80]):
        (folder / "images" / label).mkdir(parents=True, exist_ok=True)
        (folder / "images" / label / f"{number:02d}.png").write_bytes(data)
    columns = {"taken": [f"2026-05-{1 + k % 28:02d}" for k in range(80)], "قياس": list(range(80))}
    path = folder / "digits"
    Database.create(path, folder / "images", columns=columns, n_bits=16, n_anchors=30).close()
    return path


@pytest.fixture(scope="session")
def vector_template(tmp_path_factory) -> Path:
    """A database of vectors with whole numbers as labels."""
    X, y = load_digits(return_X_y=True)
    path = tmp_path_factory.mktemp("vectors") / "vectors"
    Database.create(path, X[:300].astype(np.float32), y[:300], n_bits=16, n_anchors=60).close()
    return path


@pytest.fixture
def in_process(template, tmp_path) -> Iterator[TestClient]:
    """The application without a server around it, over a copy of the database."""
    with application(shutil.copytree(template, tmp_path / "digits"), tmp_path) as client:
        yield client


@pytest.fixture(scope="session")
def served(template, tmp_path_factory) -> Iterator[Served]:
    """A service over a copy of the database; tests leave the collection as they found it."""
    copy = shutil.copytree(template, tmp_path_factory.mktemp("served") / "digits")
    with running(copy) as service:
        yield service
