"""The index on a real Milvus server: the promises of every index, versions, and what goes wrong."""

from __future__ import annotations

import fcntl
import os
import socket
import time

import numpy as np
import pytest
from index_checks import CHECKS, random_codes, same_answers, same_balls
from numpy_index import NumpyIndex
from sklearn.datasets import load_digits

from ports import free_port
from sihash.database import Database, DatabaseError
from sihash.index import open_index

pytest.importorskip("pymilvus")
milvus_server = pytest.importorskip("milvus_server")
from sihash.index import milvus  # noqa: E402
from sihash.index.milvus import MilvusIndex  # noqa: E402
from sihash.index.milvus_connection import MILVUS_TOKEN, IndexServerError  # noqa: E402

# All in one worker, where tests are spread by group.
pytestmark = pytest.mark.xdist_group("milvus")


@pytest.fixture(scope="module")
def server(tmp_path_factory, pytestconfig):
    programs = pytestconfig.cache.mkdir("milvus-programs")
    with open(programs / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one server at a time, however tests are spread
        server = milvus_server.Server(tmp_path_factory.mktemp("milvus"), programs)
        before = os.environ.get(MILVUS_TOKEN)
        os.environ[MILVUS_TOKEN] = milvus_server.TOKEN
        yield server
        os.environ.pop(MILVUS_TOKEN)
        if before is not None:
            os.environ[MILVUS_TOKEN] = before
        server.stop()


@pytest.fixture(scope="module")
def make(server):
    """Empty indexes. Making a collection takes seconds, so two of each width are emptied by turns."""
    made: dict[int, list[MilvusIndex]] = {}

    def empty_index(n_bits):
        own = made.setdefault(n_bits, [])
        if len(own) < 2:
            index = open_index(f"milvus+http://{server.address}/bits{n_bits}_{'ab'[len(own)]}", n_bits)
        else:
            index = own.pop(0)
            index.discard(np.arange(4000))
        own.append(index)
        return index

    empty_index.widths = (7, 65)
    return empty_index


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_promise(make, check):
    check(make)


@pytest.fixture
def filled(make):
    """An index with its oracle."""
    index, oracle = make(32), NumpyIndex(32)
    codes = random_codes(np.random.default_rng(0), 200, 32)
    for each in (index, oracle):
        each.add(np.arange(200), codes)
    return index, oracle


def another_version(rng):
    codes = random_codes(rng, 300, 32)
    oracle = NumpyIndex(32)
    oracle.add(np.arange(50, 350), codes)
    return oracle, [(np.arange(50, 200), codes[:150]), (np.arange(200, 350), codes[150:])]


def test_a_new_version_takes_the_place_of_the_old_one(server, filled):
    index, oracle = filled
    rng = np.random.default_rng(1)
    url, old = f"milvus+http://{server.address}/{index._name}", index.version
    reader = MilvusIndex(url, 32)
    new_oracle, batches = another_version(rng)

    def looked_at():
        for batch in batches:
            same_answers(MilvusIndex(url, 32), oracle, rng)
            yield batch

    index.prepare(old + 7, looked_at(), 300)
    same_answers(index, oracle, rng)
    index.publish(old + 7)
    newcomer = MilvusIndex(url, 32)
    assert (index.version, newcomer.version, reader.version) == (old + 7, old + 7, old)
    same_answers(index, new_oracle, rng)
    same_answers(newcomer, new_oracle, rng)
    same_answers(reader, oracle, rng)
    with pytest.raises(ValueError, match=f"holds version {old + 7} already"):
        index.prepare(old + 7, batches, 300)
    # Two versions on, the reader is too late.
    index.prepare(old + 8, batches, 300)
    index.publish(old + 8)
    with pytest.raises(IndexServerError, match=f"Version {old} of .* open it again"):
        reader.search(batches[0][1][:1], 1)


def test_what_is_done_twice_is_as_good_as_once(filled):
    index, oracle = filled
    rng = np.random.default_rng(7)
    codes = random_codes(rng, 60, 32)
    for _ in range(2):
        index.put(np.arange(180, 240), codes)
        index.discard(np.arange(150, 190))
    oracle.remove(np.arange(150, 200))
    oracle.add(np.arange(190, 240), codes[10:])
    np.testing.assert_array_equal(index.among(np.arange(100, 300)), [*range(100, 150), *range(190, 240)])
    same_answers(index, oracle, rng)


def test_lists_find_what_there_is(filled, monkeypatch):
    index, _ = filled
    monkeypatch.setattr(milvus, "LISTS_FROM", 1000)
    rng = np.random.default_rng(2)
    codes = random_codes(rng, 3000, 32, n_words=700)
    index.prepare(index.version + 1, [(np.arange(3000), codes)], 3000)
    index.publish(index.version + 1)
    about = index.describe()
    assert about["kind"] == "milvus BIN_IVF_FLAT"
    assert about["size"] == 3000
    assert 0.3 < about["recall"] <= 1
    oracle = NumpyIndex(32)
    oracle.add(np.arange(3000), codes)
    same_balls(index.radius(codes[:5], 6), oracle.radius(codes[:5], 6))


def test_a_ball_larger_than_milvus_gives(filled, monkeypatch):
    index, oracle = filled
    monkeypatch.setattr(milvus, "MOST_RESULTS", 30)
    query = random_codes(np.random.default_rng(3), 2, 32)
    same_balls(index.radius(query, 32), oracle.radius(query, 32))
    allowed = np.arange(0, 200, 2)
    same_balls(index.radius(query, 17, allowed), oracle.radius(query, 17, allowed))
    with pytest.raises(ValueError, match="at most 30 results, k is 31"):
        index.search(query, 31)


def test_removed_ids_are_gone_for_others_at_once(server, filled):
    index, _ = filled
    reader = MilvusIndex(f"milvus+http://{server.address}/{index._name}", 32)
    queries = random_codes(np.random.default_rng(4), 3, 32)
    for start in range(0, 100, 10):
        index.remove(np.arange(start, start + 10))
        _, ids = reader.search(queries, 200)
        assert ids[ids >= 0].min() >= start + 10


def test_a_preparation_that_ends_early_leaves_the_old_version(filled):
    index, oracle = filled
    rng = np.random.default_rng(5)
    new_oracle, batches = another_version(rng)

    def failing():
        yield batches[0]
        raise OSError("the disk of the segments is gone")

    old = index.version
    with pytest.raises(OSError, match="segments"):
        index.prepare(old + 1, failing(), 300)
    same_answers(index, oracle, rng)
    index.prepare(old + 1, batches, 300)
    index.publish(old + 1)
    same_answers(index, new_oracle, rng)


def test_a_server_that_stops_in_the_middle_of_a_switch(server, filled, monkeypatch):
    index, oracle = filled
    rng = np.random.default_rng(6)
    new_oracle, batches = another_version(rng)
    old, turn = index.version, index._client.alter_alias

    def stop_and_turn(*args, timeout):
        server.stop()
        monkeypatch.setattr(index, "_timeout", 3)
        turn(*args, timeout=3)

    monkeypatch.setattr(index._client, "alter_alias", stop_and_turn)
    index.prepare(old + 1, batches, 300)
    with pytest.raises(IndexServerError, match="No Milvus server answers"):
        index.publish(old + 1)
    with pytest.raises(IndexServerError, match="No Milvus server answers"):
        index.search(batches[0][1][:1], 3)
    server.start()
    again = MilvusIndex(f"milvus+http://{server.address}/{index._name}", 32)
    assert again.version == old
    same_answers(again, oracle, rng)
    again.publish(old + 1)
    assert MilvusIndex(f"milvus+http://{server.address}/{index._name}", 32).version == old + 1
    same_answers(again, new_oracle, rng)


def test_a_dropped_index_is_gone(server):
    url = f"milvus+http://{server.address}/short_lived"
    index = open_index(url, 8)
    index.add(np.array([1]), np.array([[1]], np.uint8))
    index.drop()
    again = open_index(url, 8)
    assert len(again) == 0
    again.drop()


def test_wrong_credentials(server, monkeypatch):
    url = f"milvus+http://{server.address}/anything"
    monkeypatch.setenv(MILVUS_TOKEN, "root:wrong")
    with pytest.raises(IndexServerError, match="refuses the credentials in SIHASH_MILVUS_TOKEN"):
        open_index(url, 32)
    monkeypatch.delenv(MILVUS_TOKEN)
    with pytest.raises(IndexServerError, match="asks for credentials; set SIHASH_MILVUS_TOKEN"):
        open_index(url, 32)


def test_another_number_of_bits(filled):
    index, _ = filled
    with pytest.raises(ValueError, match="codes of 32 bits', not codes of 30 bits"):
        MilvusIndex(f"milvus+{index._address}/{index._name}", 30)


def test_no_server():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(IndexServerError, match="credentials"):
            MilvusIndex(f"milvus+http://127.0.0.1:{port}/name", 8, timeout=1)
    with pytest.raises(IndexServerError, match=f"No Milvus server answers at http://127.0.0.1:{port}"):
        MilvusIndex(f"milvus+http://127.0.0.1:{port}/name", 8)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("milvus+http://user:secret@host:1/name", "Credentials do not belong in a URL"),
        ("milvus+ftp://host:1/name", "Expected milvus"),
        ("milvus+http:///name", "Expected milvus"),
        ("milvus+http://host:1/", "letters, digits"),
        ("milvus+http://host:1/two-words", "letters, digits"),
    ],
)
def test_urls_that_are_refused(url, reason):
    with pytest.raises(ValueError, match=reason) as error:
        open_index(url, 8)
    assert "secret" not in str(error.value)


# The database on a server.


@pytest.fixture
def database(server, tmp_path):
    X, y = load_digits(return_X_y=True)
    url = f"milvus+http://{server.address}/digits_{tmp_path.name}"
    params = {"n_bits": 16, "n_anchors": 60, "random_state": 0}
    params["columns"] = {"price": (np.arange(600) * 7919 % 600).tolist()}
    served = Database.create(tmp_path / "served", X[:600], y[:600], index=url, **params)
    exact = Database.create(tmp_path / "exact", X[:600], y[:600], index="exact", **params)
    yield served, exact, X, y, url
    MilvusIndex(url, 16).drop()


def assert_same_hits(served, exact, queries):
    """Ids may differ among ties at the last place only; all within a radius are the same."""
    for where in (None, "price < 150", "price >= 590"):
        both = [each.search(queries, rank="hamming", where=where) for each in (served, exact)]
        for one, other in zip(*both, strict=True):
            assert [hit.distance for hit in one.hits] == [hit.distance for hit in other.hits]
            assert where is None or all(("price" in hit.columns) for hit in one.hits)
    for rank, where in (("hamming", None), ("combined", None), ("hamming", "price < 150")):
        balls = [each.search(queries, radius=3, rank=rank, where=where) for each in (served, exact)]
        for one, other in zip(*balls, strict=True):
            assert [hit.id for hit in one.hits] == [hit.id for hit in other.hits]
            assert one.version == other.version


def test_a_database_on_milvus_answers_as_one_in_memory(database):
    served, exact, X, y, _ = database
    queries = X[1000:1010].astype(np.float32)
    assert_same_hits(served, exact, queries)
    reader = Database(served.path)
    assert_same_hits(reader, exact, queries)
    for each in (served, exact):
        each.add(X[600:700], y[600:700])
        each.remove(range(0, 700, 7))
    assert_same_hits(reader, exact, queries)
    assert_same_hits(served, exact, queries)
    for each in (served, exact):
        each.update()
    assert_same_hits(served, exact, queries)
    assert_same_hits(reader, exact, queries)
    for each in (served, exact):
        each.undo()
    assert_same_hits(reader, exact, queries)
    assert served.info()["index"]["kind"] == "milvus BIN_FLAT"


def test_a_database_repairs_its_index(database):
    served, exact, X, _, url = database
    queries = X[1000:1010].astype(np.float32)
    assert_same_hits(served, exact, queries)
    # Half of the codes are lost, and ids that no item has have come, as near as can be.
    index, code = (
        MilvusIndex(url, 16),
        np.frombuffer(served.search(queries[:1])[0].query_code, np.uint8)[None],
    )
    index.discard(np.arange(0, 600, 2))
    index.put(np.arange(5000, 5030), np.repeat(code, 30, axis=0))
    assert_same_hits(Database(served.path), exact, queries)


def test_the_codes_of_another_database_are_not_touched(database, tmp_path):
    served, _, X, y, url = database
    served.search(X[:1].astype(np.float32))
    other = Database.create(tmp_path / "other", X[500:900], y[500:900], index=url, n_bits=16, n_anchors=60)
    with pytest.raises(DatabaseError, match="holds the codes of another collection"):
        other.search(X[:1].astype(np.float32), rank="hamming")


def test_a_database_whose_server_is_away(tmp_path, monkeypatch):
    X, y = load_digits(return_X_y=True)
    url = f"milvus+http://127.0.0.1:{free_port()}/name"
    monkeypatch.setattr("sihash.database.database.reach", lambda url: None)  # it was there then
    lonely = Database.create(tmp_path / "db", X[:300], y[:300], index=url, n_bits=16, n_anchors=60)
    with pytest.raises(DatabaseError, match="No Milvus server answers"):
        lonely.search(X[:1].astype(np.float32))
    assert lonely.classify(X[:1].astype(np.float32))
    assert "No Milvus server answers" in lonely.info()["index"]["problem"]


def wait_until_refused(write):
    """The server looks at its quotas every three seconds."""
    for _ in range(30):
        try:
            write()
        except IndexServerError:
            return
        time.sleep(1)
    raise AssertionError("The server takes everything.")


def test_a_server_that_is_full(server, database):
    """It takes no more writes, as with a quota that is used up: said plainly, and nothing is lost."""
    url = f"milvus+http://{server.address}/full"
    held, oracle = random_codes(np.random.default_rng(0), 200, 32), NumpyIndex(32)
    for each in (open_index(url, 32), oracle):
        each.add(np.arange(200), held)
    served, exact, X, y, _ = database
    queries = X[1000:1010].astype(np.float32)
    assert_same_hits(served, exact, queries)
    rng = np.random.default_rng(7)
    codes = random_codes(rng, 3, 32)
    server.stop()
    server.start(quotaAndLimits__enabled=True, quotaAndLimits__limitWriting__forceDeny=True)
    try:
        full = MilvusIndex(url, 32)
        wait_until_refused(lambda: full.put(np.arange(3), held[:3]))
        with pytest.raises(IndexServerError, match="takes no more codes"):
            full.add(np.arange(900, 903), codes)
        with pytest.raises(IndexServerError, match="takes no more codes"):
            full.prepare(full.version + 1, [(np.arange(3), codes)], 3)
        same_answers(full, oracle, rng)
        for each in (served, exact):
            each.add(X[600:700], y[600:700])  # in the database for good, whatever becomes of the index
        with pytest.raises(DatabaseError, match="takes no more codes"):
            served.search(queries, rank="hamming")
    finally:
        server.stop()
        server.start()
    roomy = MilvusIndex(url, 32)
    for each in (roomy, oracle):
        each.add(np.arange(900, 903), codes)
    same_answers(roomy, oracle, rng)
    assert_same_hits(served, exact, queries)
