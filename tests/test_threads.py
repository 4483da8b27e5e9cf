"""Threads: order, errors, limits, and no trace left behind."""

import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from sihash.threads import fold_threads, map_threads, n_threads, n_threads_of_team, start, team, uninterrupted


def blas_threads():
    """Of numpy's and scipy's BLAS; FAISS brings another, which no product of ours uses."""
    ours = [l for l in threadpool_info() if l["user_api"] == "blas" and "faiss" not in l["filepath"]]  # noqa: E741
    return [library["num_threads"] for library in ours]


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_results_come_in_the_order_of_the_items(limit):
    with threadpool_limits(limit):
        assert map_threads(lambda k: k * k, range(100)) == [k * k for k in range(100)]
        assert map_threads(lambda k: k, iter("abc")) == ["a", "b", "c"]
        assert map_threads(lambda k: k, []) == []


def test_as_many_threads_as_the_blas_may_use():
    for limit in (1, 2):
        with threadpool_limits(limit):
            assert n_threads() == limit
            seen = map_threads(lambda _: threading.get_ident(), range(50))
            assert len(set(seen)) <= limit


def test_items_really_run_side_by_side():
    """Two items that wait for each other come through only if both are under way at once."""
    with threadpool_limits(2):
        barrier = threading.Barrier(2, timeout=30)
        assert sorted(map_threads(lambda _: barrier.wait(), range(2))) == [0, 1]


def test_inside_the_blas_has_one_thread_and_afterwards_as_many_as_before():
    with threadpool_limits(2):
        before = blas_threads()
        assert map_threads(lambda _: max(blas_threads()), range(4)) == [1] * 4
        assert blas_threads() == before
        with team():
            assert max(blas_threads()) == 1
        assert blas_threads() == before


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_fold_adds_in_the_order_of_the_items(limit):
    def late_first(k):
        time.sleep(0.02 if k % 5 == 0 else 0)
        return k * k

    with threadpool_limits(limit):
        seen = []
        fold_threads(late_first, range(20), lambda k, result: seen.append((k, result)))
        assert seen == [(k, k * k) for k in range(20)]


def test_an_error_while_adding_comes_through():
    def add(k, _):
        if k == 2:
            raise KeyError("two")

    with threadpool_limits(2), pytest.raises(KeyError, match="two"):
        fold_threads(lambda k: k, range(10), add)


def test_after_an_error_no_further_item_is_begun():
    begun = []

    def work(k):
        begun.append(k)
        if k == 0:
            raise ZeroDivisionError
        time.sleep(0.05)

    with threadpool_limits(2), pytest.raises(ZeroDivisionError):
        map_threads(work, range(50))
    assert len(begun) <= 4


def test_work_in_the_background_leaves_the_caller_all_items():
    """The only other thread is taken: nothing waits for it."""
    with threadpool_limits(2), team():
        release = threading.Event()
        result = start(lambda: release.wait(30))
        assert map_threads(lambda k: k, range(5)) == list(range(5))
        release.set()
        assert result()


def test_nested_maps_neither_hang_nor_multiply():
    with threadpool_limits(2), team():
        table = map_threads(lambda i: map_threads(lambda j: i * j, range(5)), range(5))
    assert table == [[i * j for j in range(5)] for i in range(5)]


@pytest.mark.parametrize("limit", [1, 2])
def test_an_error_comes_through_and_leaves_no_trace(limit):
    def fail(k):
        if k == 3:
            raise KeyError("three")
        return k

    with threadpool_limits(limit):
        before = blas_threads()
        with pytest.raises(KeyError, match="three"):
            map_threads(fail, range(10))
        assert blas_threads() == before
        assert map_threads(lambda k: k, range(3)) == [0, 1, 2]


def test_no_thread_outlives_a_map():
    with threadpool_limits(2):
        before = set(threading.enumerate())
        map_threads(np.sqrt, [np.ones(3)] * 8)
        assert set(threading.enumerate()) == before


def test_teams_of_several_threads_leave_the_blas_as_it_was():
    with threadpool_limits(2):
        before = blas_threads()
        n = 4
        barrier = threading.Barrier(n)

        def work():
            for _ in range(100):
                barrier.wait()
                assert map_threads(lambda k: k, range(4)) == [0, 1, 2, 3]

        threads = [threading.Thread(target=work) for _ in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert blas_threads() == before


def test_uninterrupted_hands_back_results_and_errors():
    assert uninterrupted(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 / 0)


def test_teams_of_two_threads_leave_the_blas_as_it_was():
    before = n_threads()
    inside, overlapped = threading.Barrier(2, timeout=20), []

    def work():
        with team():
            inside.wait()
            overlapped.append(n_threads_of_team())

    pair = [threading.Thread(target=work) for _ in range(2)]
    for thread in pair:
        thread.start()
    for thread in pair:
        thread.join()
    assert overlapped == [before, before]
    assert n_threads() == before
