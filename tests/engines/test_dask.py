"""Rows on real Dask workers: two processes on this machine, killed where it says so."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import time
from contextlib import suppress

import numpy as np
import pytest
from test_partitioned_rows import assert_books_are_kept, made

from sihash import SIH
from sihash.engines import dask as dask_engine
from sihash.engines import rows_from_files
from sihash.engines.dask_actors import SILENT_SECONDS, DaskActors
from sihash.engines.dask_matrix import Matrix
from sihash.engines.worker import Part
from sihash.svm import smooth
from sihash.svm.blocks import RowBlocks
from sihash.threads import n_threads_of_team

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

PARAMS = {"n_bits": 8, "n_anchors": 40, "random_state": 0, "tol": 0.01}


@pytest.fixture(scope="module")
def crowd():
    # A LocalCluster gives a worker up for good if it is away 15 s after any of its deaths, not just the last.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}):
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
        try:
            with distributed.Client(cluster) as client:
                yield client
        finally:
            with suppress(KeyError):  # its books may lack a worker that was killed, as the last thing it does
                cluster.close()


@pytest.fixture
def client(crowd):
    """With both workers there, whatever the test before did to them."""
    a_living_worker(crowd)
    return crowd


@pytest.fixture
def shards(tmp_path):
    """Rows in five ``.npy`` files, and in one piece."""
    X, y = made(3000, spread=1.6)
    paths = []
    for k, part in enumerate(np.array_split(X, 5)):
        paths.append(tmp_path / f"{k}.npy")
        np.save(paths[-1], part)
    return paths, X, y


def assert_same_optima(hasher, other):
    """For the same codes, objectives as near as the tolerance makes them."""
    np.testing.assert_array_equal(hasher.codes_, other.codes_)
    ours, theirs = hasher.training_.svms, other.training_.svms
    allowed = 0.02 * np.maximum(theirs.upper(), 0.5 * theirs.at_zero)
    assert (np.abs(ours.upper() - theirs.upper()) <= allowed).all()


@pytest.mark.parametrize("solver", ["smooth", "ocas"])
def test_the_same_hash_functions_as_local_through_every_change(client, solver, tmp_path):
    X, y = made(3000, spread=1.6)
    extra, extra_y = made(200, seed=1, n_classes=5)
    local, remote = (
        SIH(**PARAMS, solver=solver, engine=engine).fit(X, y) for engine in (None, client.scheduler.address)
    )
    assert_same_optima(local, remote)
    assert remote.training_.svms.rows.n_parts == 2
    twin = copy.deepcopy(remote)
    for hasher in (local, remote):
        hasher.add(extra, extra_y)
        hasher.remove(range(0, 300, 3))
        hasher.remove_classes([1])
    assert_same_optima(local, remote)
    assert_books_are_kept(remote)
    # Weights within the tolerance give a row between two codes either of them; the others agree.
    same = (remote.transform(X) == local.transform(X)).all(axis=1)
    assert same.mean() > 0.9
    proba = remote.predict_proba(X[same])
    assert np.abs(proba - local.predict_proba(X[same])).mean() < 0.02
    assert len(twin.ids_) == 3000, "a copy goes its own way"
    assert_books_are_kept(twin)
    remote.save(tmp_path / "model")
    again = SIH.load(tmp_path / "model", engine="dask")
    # Weights, planes and curvature come along: it goes on as if it had never been in a file.
    steps = [h.update(remove=h.ids_[:1]).report_.rounds[0].n_steps for h in (remote, again)]
    np.testing.assert_array_equal(*steps)
    np.testing.assert_allclose(again.bit_coef_, remote.bit_coef_, rtol=1e-3, atol=1e-3)
    assert_books_are_kept(again)


def test_a_dask_array_of_files_stays_on_the_workers(client, shards, tmp_path):
    paths, X, y = shards
    array = rows_from_files(paths)
    assert array.shape == X.shape
    hasher = SIH(**PARAMS).fit(array, da.from_array(y, chunks=1000))
    assert isinstance(hasher.training_.svms.rows, dask_engine.DaskRows)
    np.testing.assert_array_equal(hasher.training_.in_order("X"), X)
    assert_books_are_kept(hasher)
    lazy = hasher.transform(array)
    assert lazy.shape == (3000, 1)
    np.testing.assert_array_equal(lazy.compute(), hasher.transform(X))


def test_parquet_files(client, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    X, _ = made(100)
    paths = [tmp_path / f"{k}.parquet" for k in range(2)]
    for path, part in zip(paths, np.array_split(X, 2), strict=True):
        parquet.write_table(pa.table({"vector": list(part), "label": ["a"] * len(part)}), path)
    np.testing.assert_array_equal(rows_from_files(paths).compute(), X)
    with pytest.raises(ValueError, match="no column 'features'; it has vector, label"):
        rows_from_files(paths, column="features")


def test_unknown_chunks_and_cut_columns(client):
    X, _ = made(1000)
    array = da.from_array(X, chunks=(300, 4))
    array = array[array[:, 0] > -100]
    matrix = Matrix(array, client)
    assert matrix.shape == X.shape
    np.testing.assert_allclose(matrix.mean(axis=0, dtype=np.float64), X.mean(axis=0), rtol=1e-5)
    rows = np.array([999, 3, 3, 500])
    np.testing.assert_array_equal(matrix[rows], X[rows])


def a_living_worker(client):
    """The process of a worker; one that has just died may still be counted, and does not answer."""
    while True:
        client.wait_for_workers(2)
        pids = client.run(os.getpid, on_error="ignore")
        if len(pids) >= 2:
            return next(iter(pids.values()))
        time.sleep(0.1)


def kill_a_worker_at_step(k, client, monkeypatch):
    """SIGKILL to the process of one worker when the k-th step of any solve begins."""
    pid = a_living_worker(client)
    evaluate, n_steps = smooth.SmoothSVMs.evaluate, iter(range(k, -(10**6), -1))

    def evaluate_and_kill(svms, bits):
        if next(n_steps) == 0:
            os.kill(pid, signal.SIGKILL)
        evaluate(svms, bits)

    monkeypatch.setattr(smooth.SmoothSVMs, "evaluate", evaluate_and_kill)


@pytest.mark.parametrize("source", ["array", "files"])
def test_a_worker_killed_in_the_middle_of_a_fit(client, source, shards, monkeypatch):
    paths, X, y = shards
    # With a small λ codes have moved by the time the second round trains: they have to be brought back.
    params = {**PARAMS, "codebook": "random", "lam": 1e4, "gamma": 5.0} if source == "array" else PARAMS
    undisturbed = SIH(**params).fit(X, y)
    addresses = set(client.nthreads())
    kill_a_worker_at_step(4 if source == "array" else 2, client, monkeypatch)
    hasher = SIH(**params, engine="dask").fit(X if source == "array" else rows_from_files(paths), y)
    assert set(hasher.training_.svms.rows.actors.addresses) != addresses, "the rows are on another worker"
    assert_books_are_kept(hasher)
    # A bit is done when it is estimated to lack tol of F(0)/2 = C n / 2; estimates hold within a factor of 4.
    allowed = 4 * PARAMS["tol"] * PARAMS["n_bits"] * hasher.C_x * len(X) / 2
    assert hasher.objective_.total == pytest.approx(undisturbed.objective_.total, abs=allowed)
    np.testing.assert_array_equal(hasher.training_.in_order("X"), X)
    if source == "files":
        assert_same_optima(hasher, undisturbed)
    # Lost between two updates, too.
    os.kill(a_living_worker(client), signal.SIGKILL)
    assert len(hasher.codes_) == 3000
    os.kill(a_living_worker(client), signal.SIGKILL)
    hasher.remove(range(10)).add(X[:10] + 1, y[:10])
    assert_books_are_kept(hasher)
    assert len(hasher.ids_) == 3000


def test_what_a_step_sends_does_not_depend_on_the_rows(client, monkeypatch):
    call, largest = DaskActors.call, {}

    def weigh(actors, places, method, calls):
        answers = call(actors, places, method, calls)
        if method == "run":
            _, function, own, *_ = calls[0]
            asked = next((each for each in own if callable(each)), function)
            sent = len(pickle.dumps(calls)) + len(pickle.dumps(answers))
            largest[asked] = max(sent, largest.get(asked, 0))
        return answers

    monkeypatch.setattr(DaskActors, "call", weigh)
    found = []
    for n in (30_000, 60_000):
        X, y = made(n, spread=1.6)
        largest.clear()
        SIH(**PARAMS, kernel_width=0.7, engine="dask").fit(X, y)
        found.append(largest.copy())
    few, many = found
    assert {smooth._sums, smooth._margins} <= few.keys() & many.keys()
    # Rows for a bit's own Hessian are sampled: how many there are varies, up to a thousand.
    # Others grow with the bits that are still open, never with the rows.
    both = few.keys() & many.keys()
    assert max(many[function] for function in both) <= 1.1 * max(few[function] for function in both)


class LatePart(Part):
    """An actor that takes longer to come than anybody waits at once."""

    def __init__(self, n_threads):
        time.sleep(1.5 * SILENT_SECONDS)
        super().__init__(n_threads)


@pytest.mark.parametrize("part", [Part, LatePart])
def test_rows_that_nobody_needs_are_let_go(client, part, monkeypatch):
    monkeypatch.setattr("sihash.engines.dask_actors.Part", part)
    X, y = made(1000)
    hasher = SIH(**PARAMS, engine="dask").fit(X, y)
    for k in range(4):
        hasher.remove([k])
    actors = hasher.training_.svms.rows.actors
    for k in range(4, 10):  # garbage is collected in its own time, and forgotten with the next call
        gc.collect()
        hasher.remove([k])
        if max(actors.call([0, 1], "n_held", [(), ()])) <= 2:
            break
    assert max(actors.call([0, 1], "n_held", [(), ()])) <= 2


def _n_blocks(rows):
    return len(rows.blocks)


def test_a_part_that_became_empty_frees_its_rows_and_takes_new_ones(client):
    X, y = made(2000)
    halves = np.concatenate([np.flatnonzero(y == 0)[:300], np.flatnonzero(y != 0)[:300]])
    hasher = SIH(**PARAMS, engine="dask").fit(X[halves], y[halves])
    hasher.remove_classes([0])
    rows = hasher.training_.svms.rows
    assert rows.sizes == [0, 300]
    assert rows._run([0], _n_blocks, [()]) == [0]
    hasher.add(X[-30:], y[-30:])
    assert hasher.training_.svms.rows.sizes == [30, 300]
    assert_books_are_kept(hasher)
    hasher.remove_classes([1]).add(X[-60:-30], y[-60:-30])
    assert_books_are_kept(hasher)


def test_a_task_that_fails_is_no_lost_worker(client):
    actors = DaskActors(client, list(client.nthreads()))
    with pytest.raises(TimeoutError, match="the file server"):
        actors.wait_for([(0, client.submit(_time_out, pure=False))])
    assert not actors.gone


def _time_out():
    raise TimeoutError("the file server does not answer")


def test_a_scheduler_that_is_not_there():
    with pytest.raises(ConnectionError, match=r"No Dask scheduler answers at tcp://127.0.0.1:1 .* start one"):
        SIH(engine="tcp://127.0.0.1:1").fit(*made(20))


def test_a_scheduler_without_workers():
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        pytest.raises(ConnectionError, match="has no workers; start some with `dask worker"),
    ):
        SIH(engine=cluster.scheduler_address).fit(*made(20))


def test_a_block_with_nan_is_named(client):
    X, y = made(1000)
    X[650, 2] = np.nan
    with pytest.raises(ValueError, match=r"Block 2 of X \(rows 600 to 899\) holds NaN"):
        SIH(**PARAMS).fit(da.from_array(X, chunks=(300, 6)), y)


def test_a_part_keeps_its_team_of_threads():
    part = Part(2)
    gc.collect()
    assert part.build(0, RowBlocks.of, (np.zeros((10_000, 3), np.float32),)) == 10_000
    assert part.run(0, n_threads_there, (), None, []) == (2, 10_000)


def n_threads_there(rows):
    rows.map(len_of)
    return n_threads_of_team()


def len_of(block):
    return block.n


def test_an_error_on_a_worker_is_that_error(client):
    X, y = made(400)
    hasher = SIH(**PARAMS, engine="dask").fit(X, y)
    with pytest.raises(KeyError, match="no such column"):
        hasher.training_.svms.rows.parts(fail)
    with pytest.raises(TypeError, match="cannot be pickled; use save and load"):
        pickle.dumps(hasher)


def fail(rows):
    raise KeyError("no such column")
