"""Data of the experiments: cut evenly, NUS-WIDE in its official layout, what is there found."""

from __future__ import annotations

import numpy as np
import pytest

from sihash.research import available
from sihash.research.task import load_task


def write_nuswide(folder, n_train=300, n_test=100):
    """Files in the official layout; the words of an image depend on its tag, so they can be learned."""
    rng = np.random.default_rng(0)
    concepts = [f"c{k:02d}" for k in range(12)]
    topics = rng.integers(0, 12, (12, 500))
    (folder / "TrainTestLabels").mkdir(parents=True)
    for part, n in (("Train", n_train), ("Test", n_test)):
        tag = rng.integers(0, 10, n)
        tags = np.eye(12, dtype=bool)[tag] | (rng.random((n, 12)) < 0.02)
        words = rng.poisson(topics[tag] * 0.5 + 0.5)
        lines = "".join(" ".join(map(str, row)) + "\n" for row in words)
        (folder / f"BoW_{part}_int.dat").write_text(lines)
        for k, concept in enumerate(concepts):
            text = "".join(f"{int(v)}\n" for v in tags[:, k])
            (folder / "TrainTestLabels" / f"Labels_{concept}_{part}.txt").write_text(text)


@pytest.fixture
def own_places(tmp_path, monkeypatch):
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    monkeypatch.setenv("SIHASH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_what_is_there_is_found(own_places):
    assert available() == ["digits"]
    write_nuswide(own_places / "nuswide")
    assert available() == ["nuswide"]


def test_nuswide_from_its_official_files(own_places):
    write_nuswide(own_places / "nuswide")
    task = load_task("nuswide", 200, None)
    assert task.train.X.shape == (200, 500)
    assert task.train.X.dtype == np.float32
    assert set(task.classes) <= set(range(10))


def test_a_cut_is_the_same_every_time():
    one, two = load_task("digits", 100, 50), load_task("digits", 100, 50)
    assert np.array_equal(one.train.X, two.train.X)
    assert len(one.test) == 50
    assert len(set(one.train.y)) == 10


def test_vectors_without_a_test_part_are_split(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(50, 4)), np.arange(50) % 2
    np.savez(tmp_path / "mine.npz", X=X, y=y)
    task = load_task(str(tmp_path / "mine.npz"), None, None)
    assert (len(task.train), len(task.test)) == (40, 10)
    together = np.concatenate([task.train.X, task.test.X])
    assert np.array_equal(np.sort(together[:, 0]), np.sort(X[:, 0].astype(np.float32)))


def test_labels_are_needed(tmp_path):
    np.savez(tmp_path / "bare.npz", X=np.zeros((20, 3)))
    with pytest.raises(ValueError, match="has no labels"):
        load_task(str(tmp_path / "bare.npz"), None, None)


def test_subsets_differ_by_seed_and_not_by_call():
    task = load_task("digits", None, None)
    a, b, c = task.subset(30, 0), task.subset(30, 0), task.subset(30, 1)
    assert np.array_equal(a.X, b.X)
    assert not np.array_equal(a.X, c.X)
    assert task.subset(None, 0) is task.train
