"""Memory on loan: as good as NumPy's own, never in two hands, and given up when nobody needs as much."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sihash import memory

LARGE = (1000, 400)  # 1.6 MB of float32


@pytest.fixture
def shelf(monkeypatch):
    shelf = memory._Shelf()
    monkeypatch.setattr(memory, "_shelf", shelf)
    return shelf


def place(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("shape", [(3, 4), (0, 5), LARGE])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_arrays_are_what_numpy_would_make(shape, dtype):
    rng = np.random.RandomState(0)
    for _ in range(3):  # the second is where the first was
        array = memory.zeros(shape, dtype)
        np.testing.assert_array_equal(array, np.zeros(shape, dtype))
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.flags.aligned
        array[...] = rng.randint(100, size=shape)
        twin = memory.copy(array)
        np.testing.assert_array_equal(twin, array)
        assert not np.shares_memory(twin, array)
        del array, twin


@pytest.mark.usefixtures("shelf")
def test_memory_is_used_again_once_no_array_is_left():
    others = [memory.empty(LARGE, np.float32) for _ in range(9)]  # so that some may be kept
    array = others.pop()
    where, window = place(array), array[10:, 3]
    del array
    assert place(memory.empty(LARGE, np.float32)) != where, "a window on it is still open"
    del window
    again = [memory.empty((1000, 390), np.float32) for _ in range(2)]
    assert where in map(place, again)
    assert not any(np.shares_memory(array, other) for array in again for other in others)


def test_much_smaller_arrays_do_not_take_large_memory(shelf):
    others = [memory.empty(LARGE, np.float32) for _ in range(9)]
    where = place(others.pop())
    assert place(memory.empty((1000, 150), np.float32)) != where
    assert len(shelf._unused) == 2
    assert place(memory.empty(LARGE, np.float32)) == where


def test_no_more_is_kept_than_a_quarter_of_what_is_in_use(shelf):
    arrays = [memory.empty(LARGE, np.float32) for _ in range(20)]
    size = arrays[0].nbytes
    for n_left in range(19, -1, -1):
        arrays.pop()
        kept = min(20 - n_left, n_left // 4) * size
        assert sum(map(len, shelf._unused.values())) == shelf._n_unused == kept
        assert shelf._n_in_use == n_left * size


def test_small_arrays_are_left_to_numpy(shelf):
    array = memory.empty((100, 100), np.float32)
    assert array.base is None
    assert shelf._n_in_use == 0


def test_what_is_kept_is_given_up_when_memory_runs_out(shelf, monkeypatch):
    others = [memory.empty(LARGE, np.float32) for _ in range(9)]
    others.pop()
    assert shelf._unused
    empty = np.empty

    def scarce(*args):
        if shelf._unused:
            raise MemoryError
        return empty(*args)

    monkeypatch.setattr(memory.np, "empty", scarce)
    assert memory.empty((4000, 400), np.float32).shape == (4000, 400)
    monkeypatch.setattr(memory.np, "empty", lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError):
        memory.empty((8000, 400), np.float32)
    assert len(others) == 8


def test_threads_never_share_memory(shelf):
    def work(k):
        rng = np.random.RandomState(k)
        for _ in range(100):
            array = memory.empty((rng.randint(300, 600), 400), np.float32)
            array.fill(k)
            if not (array == k).all():
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert shelf._n_in_use == 0
    assert not shelf._unused
