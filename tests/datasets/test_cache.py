"""Features of images are kept on disk under what they were made from and how."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from sihash.datasets import cache, load


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(6):
        (tmp_path / "f" / f"c{i % 2}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (9, 9, 3), dtype=np.uint8)).save(
            tmp_path / f"f/c{i % 2}/{i}.png"
        )
    (tmp_path / "f" / "c0" / "bad.png").write_bytes(b"no")
    return tmp_path / "f"


def n_entries():
    return len(list(cache.folder().glob("*.npz")))


def test_the_second_load_is_the_first(folder, monkeypatch):
    first = load(folder, "gist")
    assert n_entries() == 1
    monkeypatch.setattr("sihash.datasets.loading.extract_stream", None)  # would fail if called
    second = load(folder, "gist")
    assert np.array_equal(first.X_train, second.X_train)
    assert np.array_equal(first.y_train, second.y_train)
    assert (first.summary, first.rejects) == (second.summary, second.rejects)


def test_content_and_settings_are_the_key(folder):
    load(folder, "gist")
    load(folder, "gist", size=16)
    load(folder, "pixels")
    assert n_entries() == 3
    (folder / "c0" / "0.png").write_bytes((folder / "c1" / "1.png").read_bytes())
    changed = load(folder, "gist")
    assert n_entries() == 4
    assert np.array_equal(changed.X_train, load(folder, "gist", cache=False).X_train)


def test_off_means_off(folder):
    load(folder, "gist", cache=False)
    assert n_entries() == 0


def test_a_damaged_entry_is_made_again(folder):
    first = load(folder, "gist")
    (entry,) = cache.folder().glob("*.npz")
    entry.write_bytes(entry.read_bytes()[:1000])
    assert np.array_equal(load(folder, "gist").X_train, first.X_train)
    assert len(entry.read_bytes()) > 1000


def test_a_cache_that_cannot_be_written_is_no_failure(folder, tmp_path, caplog):
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert load(folder, "gist").X_train.shape == (6, 512)
    assert "could not be kept" in caplog.text


def test_what_was_used_longest_ago_makes_room(folder, monkeypatch):
    load(folder, "pixels", size=4)
    load(folder, "pixels", size=5)
    assert cache.size()[0] == 2
    monkeypatch.setenv("SIHASH_CACHE_GB", str(cache.size()[1] / 1e9))
    load(folder, "pixels", size=6)
    assert cache.size()[0] == 1
    assert cache.clear() > 0
    assert cache.size() == (0, 0)
