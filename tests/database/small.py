"""Databases so small that an operation takes milliseconds, and everything that can be seen of one."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np

from sihash import SIH
from sihash.database import Database

extraction = import_module("sihash.features.extract")  # a function of the same name hides it
PARAMS = {"n_bits": 8, "n_anchors": 10, "kernel_width": 1.0, "max_iter": 2, "tol": 0.1, "index": "exact"}
WIDTH = 8
_CENTRES = np.random.RandomState(99).normal(size=(20, WIDTH)) * 2
SOAK = os.environ.get("SIHASH_SOAK") == "1"


def rows(n, seed, classes=3):
    """``n`` vectors in ``classes`` classes, different for every seed, and their labels."""
    rng = np.random.RandomState(seed)
    y = np.arange(n) % classes
    return (_CENTRES[y] + 0.9 * rng.normal(size=(n, WIDTH))).astype(np.float32), y


QUERIES, _ = rows(4, seed=12345)


def make(path, n=60):
    columns = {"price": [k / 2 for k in range(n)], "colour": [("red", "blue", None)[k % 3] for k in range(n)]}
    return Database.create(path, *rows(n, seed=0), columns=columns, **PARAMS)


def copy(path, to):
    """A copy as another machine would get it: a database that is closed."""
    shutil.copytree(path, to)
    return to


@contextmanager
def fast_folder():
    """A temporary folder in memory where there is one: these tests sync thousands of times."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=parent, prefix="sihash-") as folder:
        yield Path(folder)


def seen(db):
    """Everything that users can see: version, items with their codes, answers."""
    items = [(i.id, i.labels, i.name, i.sha256, i.code, i.columns) for i in db.items(limit=10_000)]
    # By Hamming distance: scores of the other rankings may differ in the last digit with the order of sums.
    found = [*db.search(QUERIES, k=5, rank="hamming"), *db.search(QUERIES[:1], radius=2, rank="hamming")]
    if "price" in db.info()["columns"]:
        found += db.search(QUERIES, k=5, rank="hamming", where="price < 9 and colour = 'red'")
    answers = [(answer.version, answer.query_code, answer.hits) for answer in found]
    return db.version, items, answers


def check_codes(snapshot):
    """Every code is that of some version whose words are those in force; older models may be gone."""
    words = snapshot.log.words_from(snapshot.version)
    named = list(snapshot.catalogue.files("kind = 'hash' AND version >= ?", (words,)))
    hashers = [SIH.load(snapshot.root / file.path) for _, _, _, file in named]
    versions = {version for _, _, version, _ in named}
    for segment in snapshot.places.segments:
        if segment.alive.any() and versions >= set(range(segment.code_version, snapshot.version + 1)):
            X = np.asarray(segment.vectors)
            fits = [(segment.codes == hasher.transform(X)).all(axis=1) for hasher in hashers]
            assert np.any(fits, axis=0)[segment.alive].all()
