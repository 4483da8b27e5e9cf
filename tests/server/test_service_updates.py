"""Updates: followed from any worker, one at a time, harmless when they fail, unseen by searches."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import httpx
import pytest
from services import FIRST_CLASSES, IS_SOAK, N_KNOWN, TOKEN, application, memory_of, running, wait_until

from sihash.client import Client, ServiceError
from sihash.database import Database
from sihash.database.snapshot import Snapshot
from sihash.server.models import UPDATE_STATE, UpdateState
from sihash.server.settings import THREADS, Limits
from sihash.server.update_process import ProgressWriter, expected_seconds
from sihash.server.updates import Updates, write_state

N_CLIENTS = 64
LOAD_SECONDS = 60 if IS_SOAK else 4  # at least; the update decides


@pytest.fixture(scope="module")
def two_workers(template, tmp_path_factory):
    copy = shutil.copytree(template, tmp_path_factory.mktemp("served") / "digits")
    with running(copy, "--workers", "2") as service:
        yield service


def new_images(digits, start=N_KNOWN, n=40):
    """Images of classes that the database does not know."""
    found = [data for data, label in digits[start:] if int(label) >= FIRST_CLASSES]
    return {f"new-{k}.png": data for k, data in enumerate(found[:n])}


def test_an_update_to_its_end(two_workers, digits):
    with two_workers.client() as client:
        client.add_batch(new_images(digits), label="seven and more")
        assert client.info().n_waiting == 40
        version = client.info().version
        assert client.start_update(compare=True).state == "running"
        with pytest.raises(ServiceError) as caught:
            client.start_update()
        assert caught.value.status == 409
        states = list(client.follow_update())
        assert {state.state for state in states[:-1]} == {"running"}
        shares = [state.share for state in states]
        assert shares == sorted(shares)
        assert len({state.phase for state in states}) >= 2
        last = states[-1]
        assert (last.state, last.share, last.version) == ("done", 1.0, version + 1)
        assert set(last.scores) == {"passive", "incremental", "scratch"}
        assert last.scores["incremental"] > last.scores["passive"]
        for _ in range(10):  # whichever worker answers
            with two_workers.client() as fresh:
                assert fresh.info().version == version + 1
                assert next(fresh.follow_update()) == last
        wait_for_version(two_workers, version + 1)
        kept = client.versions().versions[-1]
        assert kept.compared == last.scores
        assert client.undo().undone == "update"
        assert client.info().version == version
        assert client.update(strategy="relearn").state == "done"


def test_the_limit_of_event_streams_holds_however_many_come_at_once(served):
    """And places of those who left, or were never served, are free again."""

    async def statuses(n: int) -> list[int]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=served.address, limits=limits, timeout=60) as http:
            asked = [http.build_request("GET", "/v1/updates/events") for _ in range(n)]
            answers = await asyncio.gather(*(http.send(one, stream=True) for one in asked))
            found = [answer.status_code for answer in answers]
            for answer in answers:
                await answer.aclose()
        return found

    found = asyncio.run(statuses(120))
    assert (found.count(200), found.count(503)) == (Limits.followers, 20)
    wait_until(lambda: asyncio.run(statuses(Limits.followers)) == [200] * Limits.followers)


def test_metrics_are_of_all_workers_together(two_workers):
    for _ in range(30):
        with two_workers.client() as fresh:
            fresh.bits()
    lines = httpx.get(f"{two_workers.address}/metrics").text.splitlines()
    [line] = [one for one in lines if one.startswith('sihash_requests_total{route="/v1/bits",status="200"}')]
    assert float(line.split()[-1]) == 30


def test_events_are_server_sent_events(two_workers):
    with (
        httpx.Client(base_url=two_workers.address) as http,
        http.stream("GET", "/v1/updates/events") as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines) == "event: update"
        assert UPDATE_STATE.validate_json(next(lines).removeprefix("data: "))
        assert next(lines) == ""


def test_an_update_that_is_killed_has_failed_and_the_next_one_works(template, tmp_path, digits):
    copy = shutil.copytree(template, tmp_path / "digits")
    with Database(copy) as database:
        database.add(list(new_images(digits).values()), labels=["new"] * 40)
        updates = Updates(str(copy), str(tmp_path))
        assert updates.state().state == "idle"
        updates.start("incremental", False, False)
        other = Updates(str(copy), str(tmp_path))  # as another worker sees it
        assert other.state().state == "running"
        os.kill(updates._process.pid, signal.SIGKILL)
        wait_until(lambda: updates.state().state != "running")
        assert updates.state().state == other.state().state == "failed"
        assert "interrupted" in other.state().error
        version = database.version
        other.start("incremental", False, False)
        wait_until(lambda: other.state().state == "done")
        assert database.version == version + 1
        assert database.verify() == []


def test_an_update_that_cannot_be_done_says_why(template, tmp_path):
    copy = shutil.copytree(template, tmp_path / "digits")
    with Database(copy) as database:
        database.remove_classes([str(label) for label in range(1, FIRST_CLASSES)])
    updates = Updates(str(copy), str(tmp_path))
    updates.start("incremental", False, False)
    wait_until(lambda: updates.state().state != "running")
    state = updates.state()
    assert state.state == "failed"
    assert "class" in state.error
    assert str(copy) not in state.error


def test_stopping_the_service_stops_its_update(template, tmp_path):
    updates = Updates(str(shutil.copytree(template, tmp_path / "digits")), str(tmp_path))
    updates.start("relearn", False, True)
    updates.stop()
    assert updates.state().state == "failed"


def test_time_left_is_learned_from_earlier_updates(template, tmp_path):
    path = tmp_path / "state.json"
    write_state(path, UpdateState(state="running"))
    writer = ProgressWriter(path, {"learning": 0.4, "encoding": 0.4})
    writer.progress("learning", 0.0)
    wait_until(lambda: (UPDATE_STATE.validate_json(path.read_bytes()).seconds_left or 0) > 0)
    writer.progress("encoding", 0.0)
    assert 0.5 <= UPDATE_STATE.validate_json(path.read_bytes()).share < 1
    writer.end(state="done", share=1.0)
    time.sleep(0.5)
    assert UPDATE_STATE.validate_json(path.read_bytes()).state == "done"  # nothing is told after the end
    with Database(template) as database:
        assert expected_seconds(database, "incremental") == {}


def test_64_clients_search_while_an_update_runs(two_workers, digits):
    """No failed request, no answer of a mixed version, flat memory."""
    with two_workers.client() as client:
        client.add_batch(new_images(digits, N_KNOWN + 300), label="load")
        oracle = {}  # version → query → answer
        queries = list(range(0, 200, 25))
        oracle[client.info().version] = {q: client.search_item(q, k=10) for q in queries}
        before = sum(memory_of(pid) for pid in worker_pids(two_workers))
        seen = defaultdict(list)
        problems: list[Exception] = []
        stop = threading.Event()

        def search(number: int) -> None:
            try:
                with Client(two_workers.address, token=TOKEN) as own:
                    k = number
                    while not stop.is_set():
                        query = queries[k % len(queries)]
                        seen[number].append((query, own.search_item(query, k=10)))
                        k += 1
            except Exception as error:
                problems.append(error)

        threads = [threading.Thread(target=search, args=(number,)) for number in range(N_CLIENTS)]
        for thread in threads:
            thread.start()
        start = time.monotonic()
        wait_until(lambda: bool(problems) or all(seen[k] for k in range(N_CLIENTS)))
        last = client.update()
        while time.monotonic() - start < LOAD_SECONDS:
            time.sleep(0.1)
        wait_for_version(two_workers, last.version)
        wait_until(lambda: bool(problems) or {seen[k][-1][1].version for k in seen} == {last.version})
        stop.set()
        for thread in threads:
            thread.join()
        oracle[last.version] = {q: client.search_item(q, k=10) for q in queries}
        assert {answer.version for answer in oracle[last.version].values()} == {last.version}
        after = sum(memory_of(pid) for pid in worker_pids(two_workers))
    assert problems == []
    answers = [pair for pairs in seen.values() for pair in pairs]
    assert len(seen) == N_CLIENTS
    for query, answer in answers:
        assert answer == oracle[answer.version][query]
    assert {answer.version for _, answer in answers} == set(oracle)  # before and after the switch
    assert after - before < 150 << 20


def test_a_filtered_search_goes_on_with_the_version_before(in_process, tmp_path, monkeypatch):
    """However long the new version takes to load."""
    filtered = "/v1/items/1/search?class=3"
    before = in_process.get(filtered).json()
    with Database(tmp_path / "digits") as database:
        assert database.update("relearn").version == before["version"] + 1
    is_loaded = threading.Event()

    def slow(*arguments):
        is_loaded.wait()
        return Snapshot(*arguments)

    monkeypatch.setattr("sihash.database.snapshot.Snapshot", slow)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(in_process.get, filtered)
        wait([answer], timeout=30)
        was_there_before = answer.done()
        is_loaded.set()
    assert was_there_before
    assert answer.result().json() == before


@pytest.mark.parametrize("of_the_user", [None, "3"])
def test_what_the_processes_of_a_service_are_given(template, tmp_path, monkeypatch, of_the_user):
    """An update leaves a core to searches unless the user says otherwise; nobody is told the token."""
    monkeypatch.delenv(THREADS, raising=False)
    if of_the_user:
        monkeypatch.setenv(THREADS, of_the_user)
    with running(shutil.copytree(template, tmp_path / "digits")) as service, service.client() as client:
        client.start_update("relearn")
        given = {}
        for pid in children_of(service.process.pid):
            place = Path(f"/proc/{pid}")
            pairs = (place / "environ").read_text().split("\0")
            environment = dict(pair.split("=", 1) for pair in pairs if pair)
            assert TOKEN not in environment.values()
            given["update_process" in (place / "cmdline").read_text()] = environment[THREADS]
    assert given == {False: "1", True: of_the_user or str(max(1, os.cpu_count() - 1))}


def test_no_look_for_garbage_goes_through_all_that_is_loaded(template, tmp_path):
    """It would stop every answer of a worker for a tenth of a second and more."""
    with application(shutil.copytree(template, tmp_path / "digits"), tmp_path):
        frozen = gc.get_freeze_count()
        assert frozen > 10 * len(gc.get_objects())
    assert gc.get_freeze_count() < frozen


def wait_for_version(service, version):
    """Until all workers search by it: each loads it beside the searches of the one before."""

    def are_there():
        versions = set()
        for _ in range(20):
            with service.client() as fresh:
                versions.add(fresh.search_item(0).version)
        return versions == {version}

    wait_until(are_there)


def worker_pids(service):
    """Processes that have the port open: the workers."""
    return children_of(service.process.pid)


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
