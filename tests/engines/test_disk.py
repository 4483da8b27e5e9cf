"""Rows on disk: the same numbers as in memory, in little of it."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sihash import SIH
from sihash.engines import LocalEngine, disk, open_engine
from sihash.engines.disk import Scratch
from sihash.svm.blocks import Memory


def made(n, seed=0, n_classes=4, d=6):
    rng = np.random.RandomState(seed)
    y = np.arange(n) % n_classes
    centres = np.random.RandomState(99).normal(size=(n_classes, d)) * 2
    return (centres[y] + 0.9 * rng.normal(size=(n, d))).astype(np.float32), y


def same(a, b):
    np.testing.assert_array_equal(a.bit_coef_, b.bit_coef_)
    np.testing.assert_array_equal(a.codes_, b.codes_)
    assert a.objective_ == b.objective_


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(1, 9)), min_size=1, max_size=12))
@settings(max_examples=40)
def test_arrays_keep_what_is_written_to_them_and_nothing_else(shapes):
    store = Scratch()
    arrays = [store.empty(shape, np.float32) for shape in shapes]
    for k, array in enumerate(arrays):
        assert array.shape == shapes[k]
        assert array.flags.c_contiguous
        assert array.flags.aligned
        array[:] = k
        store.release(array)
    for k, array in enumerate(arrays):
        assert np.all(array == k)


def test_released_pages_come_back_also_for_copies_and_windows():
    store = Scratch()
    array = store.empty((300, 50), np.float32)
    array[:] = np.arange(50)
    inner, doubled = array[:7], copy.deepcopy(array)
    for each in (array, inner, doubled, np.ones(3)):
        store.release(each)
    np.testing.assert_array_equal(array, np.broadcast_to(np.arange(50), (300, 50)))
    np.testing.assert_array_equal(doubled, array)
    np.testing.assert_array_equal(inner, array[:7])


def test_a_file_goes_with_its_last_array(tmp_path):
    def n_files():
        with open("/proc/self/maps") as maps:
            return sum(str(tmp_path) in line for line in maps)

    store = Scratch(str(tmp_path))
    arrays = [store.empty((disk.FIRST_SEGMENT,), np.uint8) for _ in range(2)]
    assert n_files() == 2
    assert not list(tmp_path.iterdir()), "nothing to clean up after a crash"
    del arrays[0]
    gc.collect()
    assert n_files() == 1


@pytest.mark.parametrize("solver", ["smooth", "ocas"])
def test_the_same_hash_functions_as_in_memory_after_every_change(solver, tmp_path):
    X, y = made(1200)
    extra, extra_y = made(150, seed=1, n_classes=5)
    where = {"engine": None}, {"engine": f"disk:{tmp_path}"}
    memory, disk_ = (SIH(n_bits=8, n_anchors=40, solver=solver, random_state=0, **e).fit(X, y) for e in where)
    same(memory, disk_)
    for hasher in (memory, disk_):
        hasher.add(extra, extra_y)
        hasher.remove(range(0, 300, 3))
        hasher.remove_classes([1])
    same(memory, disk_)
    for hasher in (memory, disk_):
        hasher.relearn()
    same(memory, disk_)
    rows = disk_.training_.svms.rows
    assert all(disk._segment_of(block.arrays[name]) is not None for block in rows for name in ("Phi", "X"))


def test_a_file_says_nothing_of_the_engine_and_is_opened_on_any(tmp_path):
    X, y = made(400)
    extra, extra_y = made(50, seed=1)
    SIH(n_bits=8, n_anchors=30, random_state=0, engine="disk").fit(X, y).save(tmp_path / "model")
    plain, mapped = SIH.load(tmp_path / "model"), SIH.load(tmp_path / "model", engine="disk")
    assert plain.engine is None
    assert isinstance(plain.training_.svms.rows.store, Memory)
    assert isinstance(mapped.training_.svms.rows.store, Scratch)
    same(plain.add(extra, extra_y), mapped.add(extra, extra_y))


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda h: pickle.loads(pickle.dumps(h))])
def test_copies_go_their_own_way(copy_of):
    X, y = made(400)
    hasher = SIH(n_bits=8, n_anchors=30, random_state=0, engine="disk").fit(X, y)
    twin = copy_of(hasher)
    extra, extra_y = made(50, seed=1)
    twin.add(extra, extra_y).remove(range(20))
    assert len(hasher.ids_) == 400
    same(hasher.add(extra, extra_y).remove(range(20)), twin)


def test_a_full_disk_is_one_clear_error(tmp_path):
    with pytest.raises(OSError, match=r"no room for .* MB of scratch; free some, or name another"):
        Scratch(str(tmp_path)).empty((1 << 44,), np.uint8)


@pytest.mark.parametrize("engine", ["tape", 3, "disk:/no/such/place"])
def test_an_unknown_engine_is_refused(engine):
    with pytest.raises(ValueError, match="engine"):
        SIH(engine=engine).fit(*made(20))


def test_names_of_engines(tmp_path):
    assert isinstance(open_engine(None).store, Memory)
    assert isinstance(open_engine("local").store, Memory)
    assert open_engine("disk").store.directory is None
    assert open_engine(f"disk:{tmp_path}").store.directory == str(tmp_path)
    assert isinstance(LocalEngine().store, Memory)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of the address space as on Linux")
def test_features_beyond_the_limit_of_memory():
    """120 MB of Φ in a process that may take 60 MB more than it has."""
    script = """
        import resource, sys
        import numpy as np
        from sihash import SIH
        y = np.arange(100_000) % 4
        X = (np.eye(4)[y] + np.random.RandomState(0).normal(size=(len(y), 4)) / 2).astype(np.float32)
        params = dict(n_bits=4, n_anchors=299, kernel_width=1.0, anchors="random", random_state=0)
        SIH(engine="disk", **{**params, "n_anchors": 10}).fit(X[:500], y[:500])
        for line in open("/proc/self/status"):
            if line.startswith("VmData"):
                used = int(line.split()[1]) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (used + (60 << 20),) * 2)
        SIH(engine=sys.argv[1], **params).fit(X, y)
    """

    def run(engine):
        command = [sys.executable, "-c", textwrap.dedent(script), engine]
        return subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        )

    assert run("disk").returncode == 0
    assert "MemoryError" in run("local").stderr
