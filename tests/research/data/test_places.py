"""Finding and downloading, with a real server on this machine that can break off."""

from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

from ports import free_port
from sihash.research.data import fetch, load, places
from sihash.research.data.download import Remote, fetch_all

CONTENT = np.random.default_rng(0).bytes(300_000)


class Server(HTTPServer):
    """Serves CONTENT, with ranges; breaks off after ``limit`` bytes if told to; notes what was asked."""

    limit: int | None = None
    with_ranges = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        start = int(wanted.split("=")[1].rstrip("-")) if wanted and self.server.with_ranges else 0
        if start >= len(CONTENT):
            self.send_response(416)
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(CONTENT[start : start + (self.server.limit or len(CONTENT))])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    server = Server()
    yield server
    server.shutdown()
    server.server_close()


def remote(url, content=CONTENT):
    return Remote("sub/file.bin", hashlib.sha256(content).hexdigest(), (url,))


class TestDownload:
    def test_whole_with_progress(self, server, tmp_path):
        seen = []
        fetch_all((remote(server.url),), tmp_path, lambda phase, share: seen.append(share))
        assert (tmp_path / "sub/file.bin").read_bytes() == CONTENT
        assert seen == sorted(seen)
        assert seen[-1] == 1
        assert sorted(p.name for p in (tmp_path / "sub").iterdir()) == ["file.bin"]

    def test_what_is_there_is_not_asked_for_again(self, server, tmp_path):
        for _ in range(2):
            fetch_all((remote(server.url),), tmp_path)
        assert len(server.asked) == 1

    @pytest.mark.parametrize("with_ranges", [True, False])
    def test_taken_up_where_it_broke_off(self, server, tmp_path, with_ranges):
        server.limit, server.with_ranges = 100_000, with_ranges
        with pytest.raises(OSError, match=r"broke|broken"):
            fetch_all((remote(server.url),), tmp_path)
        part = tmp_path / "sub/file.bin.part"
        n_there = part.stat().st_size
        assert part.read_bytes() == CONTENT[:n_there]
        assert n_there > 0
        server.limit = None
        fetch_all((remote(server.url),), tmp_path)
        assert server.asked == [None, f"bytes={n_there}-"]
        assert (tmp_path / "sub/file.bin").read_bytes() == CONTENT
        assert not part.exists()

    def test_a_complete_part_is_used(self, server, tmp_path):
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub/file.bin.part").write_bytes(CONTENT)
        fetch_all((remote(server.url),), tmp_path)
        assert (tmp_path / "sub/file.bin").read_bytes() == CONTENT

    def test_a_wrong_checksum_leaves_nothing(self, server, tmp_path):
        with pytest.raises(OSError, match="hash"):
            fetch_all((remote(server.url, b"other"),), tmp_path)
        assert list((tmp_path / "sub").iterdir()) == []

    def test_the_second_address_is_tried(self, server, tmp_path):
        good = remote(server.url)
        fetch_all((Remote(good.file, good.sha256, (closed_port(), server.url)),), tmp_path)
        assert (tmp_path / "sub/file.bin").read_bytes() == CONTENT


def closed_port() -> str:
    return f"http://127.0.0.1:{free_port()}/file.bin"


@pytest.fixture
def unreachable(monkeypatch):
    for entry in places.NAMED.values():
        remotes = tuple(Remote(r.file, r.sha256, (closed_port(),)) for r in entry.remotes)
        named = places.Named(entry.name, entry.title, entry.paths, remotes, entry.advice)
        monkeypatch.setitem(places.NAMED, entry.name, named)


@pytest.mark.parametrize("name", ["cifar10", "mnist"])
def test_without_a_network_one_sentence_says_where_to_put_it(unreachable, name):
    with pytest.raises(FileNotFoundError) as raised:
        load(name)
    message = str(raised.value)
    assert "no connection to 127.0.0.1" in message
    assert str(places.download_folder()) in message
    assert "SIHASH_DATA" in message
    assert "\n" not in message


def test_what_cannot_be_downloaded_says_where_to_ask():
    with pytest.raises(FileNotFoundError, match=r"cannot be downloaded freely\. Ask for it at https://"):
        fetch("nuswide")


def test_unknown_names_are_answered_with_the_known():
    with pytest.raises(ValueError, match="there are cifar10, mnist, nuswide, digits"):
        fetch("imagenet")
    with pytest.raises(FileNotFoundError, match="one of the names cifar10"):
        load("imagenet")


def cifar_batch(label: int) -> bytes:
    return (bytes([label]) + bytes(3072)) * 2


class TestOrder:
    def put(self, folder, label):
        (folder / "cifar-10-batches-bin").mkdir(parents=True)
        (folder / "cifar-10-batches-bin" / "data_batch_1.bin").write_bytes(cifar_batch(label))
        return folder

    def test_sihash_data_before_the_cache(self, tmp_path, monkeypatch):
        self.put(places.download_folder(), 1)
        assert load("cifar10").y_train.tolist() == [1, 1]
        monkeypatch.setenv("SIHASH_DATA", str(self.put(tmp_path / "data", 2)))
        assert load("cifar10").y_train.tolist() == [2, 2]
        given = self.put(tmp_path / "given", 3)
        assert load(given).y_train.tolist() == [3, 3]

    def test_a_name_is_a_name_even_beside_a_folder_of_that_name(self, tmp_path, monkeypatch):
        (tmp_path / "digits" / "a").mkdir(parents=True)
        monkeypatch.chdir(tmp_path)
        assert len(load("digits").X_train) == 1438
        with pytest.raises(ValueError, match="Nothing readable"):
            load("./digits")

    def test_half_a_download_does_not_count(self):
        entry = places.NAMED["mnist"]
        target = places.download_folder() / "mnist"
        target.mkdir(parents=True)
        (target / "train-images-idx3-ubyte.gz").write_bytes(b"")
        assert places.find(entry) is None
        for r in entry.remotes:
            (places.download_folder() / r.file).write_bytes(b"")
        assert places.find(entry) == target
