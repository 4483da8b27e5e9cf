"""The files that items were made of: handed out as long as they are what they were, and nothing else ever."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest
from PIL import Image

from sihash.database import Database, NoSuchItem
from sihash.store.files import MOST_ORIGINAL_BYTES, read_original


@pytest.fixture
def pictures(folder):
    rng = np.random.RandomState(0)
    for label in ("cat", "dog"):
        (folder / "pictures" / label).mkdir(parents=True)
        for k in range(4):
            pixels = rng.randint(0, 256, (24, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "pictures" / label / f"{k}.png")
    return folder / "pictures"


def test_an_item_of_a_folder_has_its_file(pictures, folder):
    with Database.create(folder / "db", pictures, n_bits=8, n_anchors=4) as db:
        for item in db.items():
            assert db.original(item.id) == (pictures / item.name).read_bytes()
        with pytest.raises(NoSuchItem):
            db.original("cat/99.png")
        [loose] = db.add([(pictures / "cat" / "0.png").read_bytes() + b" "], names=["../cat/1.png"]).added
        assert db.original(loose) is None  # it came from no folder, whatever its name says


@pytest.mark.parametrize("change", ["gone", "altered", "another", "pipe", "folder", "huge"])
def test_what_is_not_what_it_was_is_not_handed_out(pictures, folder, change):
    with Database.create(folder / "db", pictures, n_bits=8, n_anchors=4) as db:
        path, other = pictures / "cat" / "0.png", pictures / "cat" / "1.png"
        content = path.read_bytes()
        path.unlink()
        if change == "altered":
            path.write_bytes(content[:-1] + b"?")
        elif change == "another":
            path.symlink_to(other)
        elif change == "pipe":
            os.mkfifo(path)  # nobody writes to it: reading would wait for ever
        elif change == "folder":
            path.mkdir()
        elif change == "huge":
            with path.open("wb") as file:
                file.truncate(MOST_ORIGINAL_BYTES + 1)
        assert db.original("cat/0.png") is None


def test_names_that_no_file_can_have(folder):
    nothing = hashlib.sha256(b"").hexdigest()
    assert read_original(str(folder / "a\0b"), nothing) is None
    assert read_original(str(folder / ("x" * 5000)), nothing) is None
    (folder / "empty").touch()
    assert read_original(str(folder / "empty"), nothing) == b""
