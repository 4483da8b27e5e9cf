"""Photos are described once: an operation that was stopped goes on where it was."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from sihash import Database
from sihash.database import describing, sources
from sihash.store.scratch import Scratch

RNG = np.random.default_rng(0)
KEYS = [bytes([k]) * 32 for k in range(9)]


class TestScratch:
    def test_what_was_put_is_there_when_it_is_opened_again(self, tmp_path):
        path, mark = tmp_path / "s.part", b"m" * 32
        scratch = Scratch(path, mark)
        assert not path.exists()
        for key in KEYS:
            scratch.put(key, key[:5])
        scratch.close()
        again = Scratch(path, mark)
        assert [again.get(key) for key in KEYS] == [key[:5] for key in KEYS]
        assert again.get(b"x" * 32) is None
        again.close()
        assert len(Scratch(path, b"n" * 32)) == 0  # another mark begins anew

    def test_a_file_cut_short_anywhere_loses_only_its_end(self, tmp_path):
        path, mark = tmp_path / "s.part", b"m" * 32
        scratch = Scratch(path, mark)
        for key in KEYS[:3]:
            scratch.put(key, key[:7])
        scratch.close()
        whole = path.read_bytes()
        for n in range(len(whole)):
            path.write_bytes(whole[:n])
            cut = Scratch(path, mark)
            there = [cut.get(key) is not None for key in KEYS[:3]]
            assert there == sorted(there, reverse=True)
            assert sum(there) == max(0, n - 32) // 47
            cut.put(KEYS[5], b"new")
            cut.close()
            assert Scratch(path, mark).get(KEYS[5]) == b"new"

    def test_altered_bytes_are_not_handed_out(self, tmp_path):
        path, mark = tmp_path / "s.part", b"m" * 32
        scratch = Scratch(path, mark)
        scratch.put(KEYS[0], b"value")
        scratch.close()
        whole = bytearray(path.read_bytes())
        whole[-1] ^= 1
        path.write_bytes(whole)
        with Scratch(path, mark) as scratch:
            assert scratch.get(KEYS[0]) is None
        assert not path.exists()  # all went well


N = 60


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Photos of two classes, as many as are worth noting."""
    monkeypatch.setattr(sources, "SHORT", N - 1)
    for k in range(N):
        folder = tmp_path / "photos" / f"class{k % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.full((4, 4, 3), 40 + 170 * (k % 2), np.uint8)
        pixels[0] = RNG.integers(0, 256, (4, 3))
        Image.fromarray(pixels).save(folder / f"{k}.png")
    return tmp_path / "photos"


@pytest.fixture
def described(monkeypatch):
    """Sizes of what was described."""
    seen = []
    real = describing.describe
    monkeypatch.setattr(
        describing, "describe", lambda images, *a: seen.append(len(images)) or real(images, *a)
    )
    return seen


OPTIONS = {"n_bits": 8, "n_anchors": 10, "features": "pixels"}


def test_a_stopped_creation_goes_on(tmp_path, photos, described):
    def stop(step, share):
        if step == "learning":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Database.create(tmp_path / "db", photos, progress=stop, **OPTIONS)
    assert [path.suffix for path in (tmp_path / "db").iterdir()] == [".part"]
    n = sum(described)
    made = Database.create(tmp_path / "db", photos, **OPTIONS)
    assert sum(described) == n == len(made)
    assert not list((tmp_path / "db").glob("*.part"))
    other = Database.create(tmp_path / "other", photos, **OPTIONS)
    for one, two in zip(made.items(limit=2000), other.items(limit=2000), strict=True):
        assert (one.id, one.code, one.labels) == (two.id, two.code, two.labels)
        assert made.thumbnail(one.id) == other.thumbnail(two.id)


def test_a_failed_creation_leaves_nothing(tmp_path, photos):
    def fail(step, share):
        if step == "learning":
            raise ValueError

    with pytest.raises(ValueError):
        Database.create(tmp_path / "db", photos, progress=fail, **OPTIONS)
    assert not (tmp_path / "db").exists()


def test_a_killed_addition_goes_on(tmp_path, photos, described):
    few = [np.full((4, 4, 3), k, np.uint8) for k in range(0, 200, 10)]
    db = Database.create(tmp_path / "db", few, [0, 1] * 10, **OPTIONS)
    code = (
        "import os, signal, sys\nfrom sihash import Database\nfrom sihash.database import sources\n"
        f"sources.SHORT = {N - 1}\n"
        "def stop(step, share):\n    os.kill(os.getpid(), signal.SIGKILL) if share >= 1 else None\n"
        "Database(sys.argv[1]).add(sys.argv[2], progress=stop)"
    )
    ended = subprocess.run([sys.executable, "-c", code, db.path, photos], env=os.environ)
    assert ended.returncode == -signal.SIGKILL
    described.clear()
    assert len(db.add(photos).added) == N
    assert sum(described) == 0
    assert not list(db.path.glob("*.part"))


def test_other_features_or_a_compaction_have_no_use_for_it(tmp_path, photos, described):
    few = [np.full((4, 4, 3), k, np.uint8) for k in range(0, 200, 10)]
    db = Database.create(tmp_path / "db", few, [0, 1] * 10, **OPTIONS)

    def stop(step, share):
        if share >= 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        db.add(photos, progress=stop)
    assert list(db.path.glob("*.part"))
    assert [problem.file for problem in db.verify(deleted=True)] == [next(db.path.glob("*.part")).name]
    db.compact()
    assert not list(db.path.glob("*.part"))
    assert db.verify(deleted=True) == []


def test_progress_says_rate_and_time_left(monkeypatch):
    clock = iter([0.0, 10.0, 20.0, 20.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    describer = describing.Describer(describing.Features("pixels"), False, 100_000)
    describer([Image.new("RGB", (4, 4))] * 10, [bytes(32)] * 10)
    describer.done(10)
    assert describer.step == "reading: 10 of 100,000 photos, pixels, 1 a second, 27.8 h left"
    describer.done(99_990)
    assert describer.step.endswith("20 s left")


def test_rejects_are_listed_with_their_reasons(tmp_path, photos):
    (photos / "class0" / "notes.txt").write_text("no picture")
    (photos / "class1" / "empty.jpg").write_bytes(b"")
    out = io.BytesIO()
    Image.new("RGB", (64, 64)).save(out, "PNG")
    (photos / "class1" / "half.png").write_bytes(out.getvalue()[:60])
    made = Database.create(tmp_path / "db", photos, **OPTIONS)
    reasons = {reject.name: reject.reason for reject in made.created_.rejected}
    assert sorted(reasons) == ["class0/notes.txt", "class1/empty.jpg", "class1/half.png"]
    assert reasons["class1/empty.jpg"] == "the file is empty"
    assert "not a picture" in reasons["class0/notes.txt"]
