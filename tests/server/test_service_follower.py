"""A second machine that follows by copies, and a database that takes the place of another."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import contextmanager

import httpx
import numpy as np
import pytest
from services import TOKEN, running
from sklearn.datasets import load_digits

from sihash.database import Database, verify
from sihash.store.backup import restore

BEARER = {"authorization": f"Bearer {TOKEN}"}


@contextmanager
def asking(address, ask):
    """Threads that ask all the time; yields their answers, as (status, JSON)."""
    answers, stop = [], threading.Event()

    def keep_asking():
        with httpx.Client(base_url=address, trust_env=False, timeout=30) as http:
            while not stop.is_set():
                answer = ask(http)
                answers.append((answer.status_code, answer.json()))

    threads = [threading.Thread(target=keep_asking) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise TimeoutError


def mirror(source, target):
    """What the two calls of rsync in docs/service.md do: new files, then the catalogue and deletions."""
    for part in ("segments", "models"):
        (target / part).mkdir(parents=True, exist_ok=True)
        for path in (source / part).iterdir():
            if not (target / part / path.name).exists():
                shutil.copy2(path, target / part / path.name)
    shutil.copy2(source / "catalogue.sqlite", target / ".catalogue.sqlite.new")
    (target / ".catalogue.sqlite.new").rename(target / "catalogue.sqlite")
    for part in ("segments", "models"):
        for path in (target / part).iterdir():
            if not (source / part / path.name).exists():
                path.unlink()


@pytest.mark.parametrize("how", ["backup", "mirror"])
def test_a_second_machine_follows(vector_template, tmp_path, how):
    """No request to it fails while it follows additions, removals, an update and a compaction."""
    X, y = load_digits(return_X_y=True)
    first, between, second = (tmp_path / name for name in ("first", "backup", "second"))
    shutil.copytree(vector_template, first)
    library = Database(first)

    def follow():
        if how == "backup":
            library.backup(second)
        else:
            library.backup(between)
            mirror(between, second)

    follow()
    with running(first) as source, running(second, "--read-only") as copy:
        with asking(copy.address, lambda http: http.get("/v1/items/0/search", params={"k": 3})) as answers:
            with source.client() as client:
                for step in range(3):
                    rows = slice(300 + 20 * step, 320 + 20 * step)
                    client.add_vectors(X[rows], [str(label) for label in y[rows]])
                    client.remove([5 + step])
                    if step == 1:
                        assert client.update().state == "done"
                    if step == 2:
                        library.compact()
                    follow()
                    expected = library.search_ids([310], k=5)[0]

                    def follows(expected=expected):
                        found = httpx.get(f"{copy.address}/v1/items/310/search?k=5", trust_env=False)
                        hits = found.json().get("hits", [])
                        return [hit["id"] for hit in hits] == [hit.id for hit in expected.hits]

                    wait_for(follows)
            wait_for(lambda: answers and answers[-1][1].get("version") == 2)
        assert {status for status, _ in answers} == {200}
        info = httpx.get(f"{copy.address}/v1/info", trust_env=False).json()
        assert (info["n_items"], info["version"], info["read_only"]) == (len(library), 2, True)
        refused = httpx.post(f"{copy.address}/v1/undo", headers=BEARER, trust_env=False)
        assert refused.status_code == 403
    assert verify(second) == []


def test_the_route_streams_a_backup(vector_template, tmp_path):
    copy = shutil.copytree(vector_template, tmp_path / "digits")
    with running(copy) as served, Database(copy) as library:
        assert httpx.get(f"{served.address}/v1/backup", trust_env=False).status_code == 401
        with httpx.stream("GET", f"{served.address}/v1/backup", headers=BEARER, trust_env=False) as answer:
            assert answer.status_code == 200
            library.add(np.ones((1, 64)), ["late"])  # nobody waits
            with open(tmp_path / "digits.tar", "wb") as file:
                for piece in answer.iter_bytes():
                    file.write(piece)
        assert int(answer.headers["content-length"]) == (tmp_path / "digits.tar").stat().st_size
        restore(tmp_path / "digits.tar", tmp_path / "restored")
        with Database(tmp_path / "restored") as restored:
            assert len(restored) == len(library) - 1
        with httpx.stream("GET", f"{served.address}/v1/backup", headers=BEARER, trust_env=False) as answer:
            next(answer.iter_bytes())  # a client that goes away
        wait_for(
            lambda: httpx.post(f"{served.address}/v1/updates", headers=BEARER, json={}).status_code == 202
        )
        wait_for(lambda: httpx.get(f"{served.address}/v1/updates", trust_env=False).json()["state"] == "done")


@pytest.mark.parametrize("how", ["two renamings", "a link"])
def test_another_database_takes_the_place_without_a_failed_request(vector_template, tmp_path, how):
    """With other vectors and other classes; from the exchange on every answer is of the new one."""
    X, y = load_digits(return_X_y=True)
    Database.create(
        tmp_path / "new", X[:200, :32], [f"new {k}" for k in y[:200]], n_bits=16, n_anchors=40
    ).close()
    path = tmp_path / "served"
    if how == "a link":
        shutil.copytree(vector_template, tmp_path / "old")
        path.symlink_to(tmp_path / "old")
    else:
        shutil.copytree(vector_template, path)

    def exchange():
        if how == "a link":
            (tmp_path / "link").symlink_to(tmp_path / "new")
            (tmp_path / "link").rename(path)
        else:
            path.rename(tmp_path / "old")
            time.sleep(0.1)  # a slow hand
            (tmp_path / "new").rename(path)

    with running(path) as served:
        with (
            asking(served.address, lambda http: http.get("/v1/items/0/search", params={"k": 3})) as searches,
            asking(served.address, lambda http: http.get("/v1/info")) as infos,
        ):
            wait_for(lambda: len(searches) > 20 and len(infos) > 20)
            exchange()
            end = len(searches) + 200
            wait_for(lambda: len(searches) > end and infos[-1][1]["width"] == 32)
        assert {status for status, _ in searches + infos} == {200}
        assert infos[-1][1]["n_items"] == 200
        is_new = [str(answer["hits"][0]["labels"][0]).startswith("new") for _, answer in searches]
        assert is_new[-1]
        added = httpx.post(
            f"{served.address}/v1/items/batch",
            headers=BEARER,
            json={"items": [{"vector": X[300, :32].tolist(), "label": "new 1"}]},
            trust_env=False,
        )
        assert added.json()["added"] == [200]
        description = httpx.get(f"{served.address}/openapi.json", trust_env=False).text
        assert '"minItems":32' in description.replace(" ", "")
