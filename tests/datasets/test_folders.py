"""Class folders in a folder, a zip and a tar: the same collection wherever it lies."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sihash.datasets import load
from sihash.datasets.files import FileTree


def picture(seed: int, kind: str = "PNG", size: tuple[int, int] = (8, 8)) -> bytes:
    """A small file of random colours."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def in_folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def in_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def in_tar(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def in_tar_gz(path: Path, files: dict[str, bytes]) -> Path:
    return in_tar(path, files, "w:gz")


@pytest.fixture(params=[in_folder, in_zip, in_tar, in_tar_gz])
def put(request, tmp_path):
    """Files put somewhere; the name says nothing of the kind."""
    return lambda files: request.param(tmp_path / "collection", files)


def test_classes_parts_and_pixels(put):
    files = {f"{part}/{c}/{i}.png": picture(i) for part in ("train", "test") for i, c in enumerate("abc")}
    data = load(put(files))
    assert data.class_names == ["a", "b", "c"]
    assert sorted(data.y_train.tolist()) == sorted(data.y_test.tolist()) == [0, 1, 2]
    assert data.X_train.shape == data.X_test.shape == (3, 8, 8, 3)
    for x, y in zip(data.X_train, data.y_train, strict=True):
        assert np.array_equal(x, np.asarray(Image.open(io.BytesIO(picture(int(y))))))


@pytest.mark.parametrize("prefix", ["", "photos/", "a/b/"])
@pytest.mark.parametrize("readme", [{}, {"README.md": b"words"}])
def test_wrapping_folders_do_not_count(put, prefix, readme):
    files = {f"{prefix}{c}/{i}.png": picture(i) for i, c in enumerate(["cat", "cat", "dog"])}
    data = load(put(files | readme))
    assert data.class_names == ["cat", "dog"]
    assert data.y_train.tolist() == [0, 0, 1]
    assert len(data.X_test) == 0
    assert [r.name for r in data.rejects] == list(readme)


def test_validation_is_the_test_part_only_if_there_is_no_other(put):
    files = {f"{part}/a/1.png": picture(1) for part in ("train", "val")}
    assert len(load(put(files)).X_test) == 1


def test_a_third_part_is_rejected(tmp_path):
    files = {f"{part}/a/1.png": picture(1) for part in ("train", "test", "val")}
    data = load(in_zip(tmp_path / "z", files))
    assert (len(data.X_train), len(data.X_test)) == (1, 1)
    assert [(r.name, r.reason) for r in data.rejects] == [("val/a/1.png", "neither in train nor in test")]


def test_pictures_without_folders_have_no_labels(put):
    data = load(put({f"{i}.png": picture(i) for i in range(3)}))
    assert data.y_train is None
    assert data.y_test is None
    assert len(data.X_train) == 3
    assert "no labels" in str(data)


def test_sizes_that_differ_come_as_a_list(put):
    data = load(put({"a/1.png": picture(1), "b/2.png": picture(2, size=(5, 9))}))
    assert [x.shape for x in data.X_train] == [(8, 8, 3), (5, 9, 3)]


def test_what_cannot_be_read_is_listed_with_its_reason(put, tmp_path):
    files = {
        "a/good.jpg": picture(1, "JPEG"),
        "a/png called.jpg": picture(2, "PNG"),
        "b/empty.jpg": b"",
        "b/words.jpg": b"these are words",
        "b/cut.jpg": picture(3, "JPEG")[:300],
        "b/fine": picture(4),
        "notes.txt": b"hello",
        ".DS_Store": b"\0",
        "a/Thumbs.db": b"\0",
        "__MACOSX/a/._good.jpg": b"\0",
    }
    hidden = {".DS_Store", "a/Thumbs.db", "__MACOSX/a/._good.jpg"}
    data = load(put(files), "gist", cache=False)
    reasons = {r.name: r.reason for r in data.rejects}
    assert data.X_train.shape == (3, 512)
    assert set(reasons) == set(files) - {"a/good.jpg", "a/png called.jpg", "b/fine"} - hidden
    assert "empty" in reasons["b/empty.jpg"]
    assert "not a picture" in reasons["b/words.jpg"]
    assert "cannot be decoded" in reasons["b/cut.jpg"]
    assert reasons["notes.txt"] == "in no class folder"
    assert "4 files skipped" in str(data)
    data.write_rejects(tmp_path / "rejects.jsonl")
    lines = (tmp_path / "rejects.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == [r.name for r in data.rejects]


def test_nothing_readable_says_what_was_looked_for(put):
    with pytest.raises(ValueError, match=r"Nothing readable in .*looked for pictures in class folders"):
        load(put({"a/1.jpg": b"no", "b/2.jpg": b"no"}))


def test_an_empty_folder(tmp_path):
    with pytest.raises(ValueError, match="Nothing readable"):
        load(tmp_path)


@pytest.mark.parametrize(
    "name", ["../evil/1.png", "/evil/1.png", "a/../../1.png", "a\\..\\1.png", "C:/evil/1.png"]
)
@pytest.mark.parametrize("put_in", [in_zip, in_tar])
def test_names_that_point_out_of_an_archive_are_rejected(tmp_path, name, put_in):
    archive = put_in(tmp_path / "archive", {name: picture(1), "a/2.png": picture(2), "b/3.png": picture(3)})
    before = sorted(tmp_path.rglob("*"))
    data = load(archive)
    assert len(data.X_train) == 2
    assert len(data.rejects) == 1
    assert "no plain path" in data.rejects[0].reason
    assert sorted(tmp_path.rglob("*")) == before


def test_links_in_a_tar_are_rejected(tmp_path):
    path = in_tar(tmp_path / "t", {"a/1.png": picture(1)})
    with tarfile.open(path, "a") as archive:
        link = tarfile.TarInfo("a/link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    data = load(path)
    assert [(r.name, r.reason) for r in data.rejects] == [("a/link.png", "a link or device, not a file")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_in_a_folder_does_not_block(tmp_path):
    in_folder(tmp_path / "f", {"a/1.png": picture(1)})
    os.mkfifo(tmp_path / "f" / "a" / "pipe.png")
    data = load(tmp_path / "f")
    assert [r.name for r in data.rejects] == ["a/pipe.png"]


def test_a_link_to_a_folder_is_named_not_followed(tmp_path):
    in_folder(tmp_path / "f", {"a/1.png": picture(1)})
    (tmp_path / "f" / "a" / "round").symlink_to(tmp_path / "f", target_is_directory=True)
    data = load(tmp_path / "f")
    assert [(r.name, r.reason) for r in data.rejects] == [("a/round", "a link to a folder, not followed")]


def test_names_that_are_no_text(tmp_path):
    """A name of bytes that are no UTF-8: as a class and as a reject, through the cache and into a file."""
    in_folder(tmp_path / "f", {"a/1.png": picture(1)})
    odd = os.fsencode(tmp_path / "f") + b"/caf\xe9"
    try:
        os.mkdir(odd)
    except OSError:
        pytest.skip("this file system has only names that are text")
    for name, content in ((b"/2.png", picture(2)), (b"/bad.png", b"")):
        with open(odd + name, "wb") as file:
            file.write(content)
    for _ in range(2):
        data = load(tmp_path / "f", "gist")
        assert data.class_names == ["a", "caf\udce9"]
        data.write_rejects(tmp_path / "rejects.jsonl")
        assert json.loads((tmp_path / "rejects.jsonl").read_text())["name"] == "caf\udce9/bad.png"


def test_a_damaged_archive_is_an_error_and_a_damaged_member_a_reject(tmp_path):
    files = {f"a/{i}.png": picture(i) for i in range(5)}
    whole = in_zip(tmp_path / "z", files).read_bytes()
    spoilt = bytearray(whole)
    at = whole.index(b"IDAT") + 8
    spoilt[at : at + 4] = b"\0\0\0\0"
    (tmp_path / "z").write_bytes(spoilt)
    data = load(tmp_path / "z")
    assert [r.name for r in data.rejects] == ["a/0.png"]
    tar = in_tar_gz(tmp_path / "t", files).read_bytes()
    (tmp_path / "t").write_bytes(tar[: len(tar) // 2])
    with pytest.raises(ValueError, match="damaged"):
        load(tmp_path / "t")


@pytest.mark.parametrize("put_in", [in_zip, in_tar, in_tar_gz])
def test_damaged_archives_load_in_part_or_end_in_one_sentence(tmp_path, put_in):
    whole = put_in(
        tmp_path / "whole", {f"{c}/{i}.png": picture(i) for i, c in enumerate("aabb")}
    ).read_bytes()
    rng = np.random.default_rng(0)
    for i in range(100):
        data = np.frombuffer(whole, dtype=np.uint8).copy()
        data[rng.integers(0, len(data), 4)] = rng.integers(0, 256, 4)
        (tmp_path / "spoilt").write_bytes(
            data[: len(data) if i % 4 else rng.integers(1, len(data))].tobytes()
        )
        with suppress(ValueError):
            assert len(load(tmp_path / "spoilt").X_train) <= 4


def test_a_member_that_grows_too_large_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(FileTree.read, "__defaults__", (1 << 20,))
    with zipfile.ZipFile(tmp_path / "z", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/bomb.png", bytes(8 << 20))
        archive.writestr("a/1.png", picture(1))
    data = load(tmp_path / "z")
    assert [(r.name, r.reason) for r in data.rejects] == [("a/bomb.png", "larger than the 1 MiB allowed")]


def odd_files() -> dict[str, bytes]:
    """Pictures out of the ordinary that can be read, and files that cannot."""

    def saved(image: Image.Image, kind: str, **options) -> bytes:
        buffer = io.BytesIO()
        image.save(buffer, kind, **options)
        return buffer.getvalue()

    grey = Image.new("L", (16, 16), 90)
    odd = {
        "cmyk.jpg": saved(Image.new("CMYK", (16, 16), (9, 99, 0, 0)), "JPEG"),
        "deep.png": saved(Image.fromarray(np.full((16, 16), 30_000, np.uint16)), "PNG"),
        "animated.gif": saved(grey, "GIF", save_all=True, append_images=[Image.new("L", (16, 16), 200)]),
        "photo.jpg": saved(Image.new("RGB", (4000, 2500), "green"), "JPEG"),
    }
    broken = {
        "empty.jpg": b"",
        "words.jpg": b"words, not pixels",
        "cut.jpg": picture(0, "JPEG", (32, 32))[:500],
        "cut.png": picture(0, "PNG", (32, 32))[:500],
        "huge.png": saved(Image.new("1", (10_000, 9_000)), "PNG"),
    }
    return {**{f"odd_{k}": v for k, v in odd.items()}, **{f"broken_{k}": v for k, v in broken.items()}}


def test_ten_thousand_images_with_one_in_a_hundred_broken(tmp_path):
    good = [picture(i, "JPEG", (32, 32)) for i in range(50)]
    odd = odd_files()
    broken = [(name, data) for name, data in odd.items() if name.startswith("broken")]
    files = {f"{i % 10}/{i}.jpg": good[i % 50] for i in range(9_896)}
    files |= {f"{i % 10}/{i}_{broken[i % 5][0]}": broken[i % 5][1] for i in range(100)}
    files |= {f"3/{name}": data for name, data in odd.items() if name.startswith("odd")}
    assert len(files) == 10_000
    data = load(in_folder(tmp_path / "f", files), "gist", cache=False)
    assert data.X_train.shape == (9_900, 512)
    assert np.isfinite(data.X_train).all()
    assert {r.name for r in data.rejects} == {name for name in files if "broken" in name}
    assert all(r.reason for r in data.rejects)
