"""Additions that wait side by side share a transaction; what comes of them is as if each had come alone."""

from __future__ import annotations

import multiprocessing
import threading
import time
from contextlib import closing

import numpy as np
import pytest
import small
from hypothesis import given, settings
from hypothesis import strategies as st

from sihash.database import Database, DatabaseBusy, DatabaseError, operations, verify
from sihash.database.sources import open_source
from sihash.store.catalogue import Catalogue
from sihash.store.locks import Line, locked

SAME = 7  # a seed: its rows come again and again

additions = st.fixed_dictionaries(
    {
        "n": st.integers(1, 3),
        "seed": st.sampled_from([SAME, 8, 9]),
        "ids": st.sampled_from([None, [1, 2, 3], ["a", "b", "c"], ["B", "60", "61"], ["c", 62, "70"]]),
        "labels": st.sampled_from([[0, 1, 2], ["new", 1, None], [3, 3, 3], [5, 5]]),
        "columns": st.sampled_from(
            [{}, {"price": [1.0, 2.0, 3.0]}, {"price": ["dear"] * 3}, {"size": [1, 2, 3]}]
        ),
        "replace": st.booleans(),
    }
)


def opened(addition):
    n = addition["n"]
    X, _ = small.rows(n, seed=addition["seed"])
    columns = {name: values[:n] for name, values in addition["columns"].items()}
    ids = addition["ids"] and addition["ids"][:n]

    def open_(known):
        return open_source(X, addition["labels"][:n], None, ids, columns, addition["replace"])

    return operations.Addition(open_, lambda step, share: None)


def outcome(work):
    try:
        return work()
    except DatabaseError as error:
        return str(error)


def plain(outcomes):
    return [str(one) if isinstance(one, Exception) else one for one in outcomes]


@settings(max_examples=40 if not small.SOAK else 2000)
@given(st.lists(additions, min_size=2, max_size=5))
def test_a_group_is_what_its_additions_are_one_after_the_other(template, chosen):
    with small.fast_folder() as folder:
        alone, together = (Database(small.copy(template, folder / name)) for name in ("alone", "together"))
        with alone, together:
            expected = [
                outcome(lambda one=one: operations.add(alone._reader, [opened(one)])[0]) for one in chosen
            ]
            found = operations.add(together._reader, [opened(one) for one in chosen])
            assert plain(found) == expected
            assert small.seen(together) == small.seen(alone)
            assert verify(together.path) == []
            n = together.info()["operation"]
            assert (
                n
                == alone.info()["operation"]
                == 1 + sum(not isinstance(one, str) and bool(one.added) for one in expected)
            )
            if n > 1:
                with closing(Catalogue(together.path)) as catalogue:
                    assert len(catalogue.rows("segments")) == 2
            for _ in range(n - 1):  # each is an operation: they are undone one by one
                assert together.undo() == alone.undo()
                assert small.seen(together) == small.seen(alone)


def test_threads_that_add_share_transactions(db):
    """All at once, while a first one holds the lock: none is told to come back, all are durable."""
    started, n = threading.Barrier(13), 12
    reports, commits = [], []
    write = operations.add

    def counted(reader, group):
        outcomes = write(reader, group)
        commits.append(len(outcomes))
        return outcomes

    def add(seed):
        started.wait()
        reports.append(db.add(*small.rows(1, seed=seed)))

    threads = [threading.Thread(target=add, args=(100 + k,)) for k in range(n)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations, "add", counted)
        with locked(db.path / "writer.lock", "is writing to it"):
            for thread in threads:
                thread.start()
            started.wait()
            time.sleep(0.3)
        for thread in threads:
            thread.join()
    assert sorted(id for report in reports for id in report.added) == list(range(60, 60 + n))
    assert sum(commits) == n
    assert len(commits) < n / 2
    with Database(db.path) as fresh:
        assert len(fresh) == 60 + n
        assert small.seen(fresh) == small.seen(db)


def test_an_addition_reads_labels_when_it_is_its_turn(db):
    """In a group, too: the labels of those before it count."""
    seen = []

    def labels(known):
        seen.append(set(known))
        return ["new"]

    def addition(seed):
        return operations.Addition(
            lambda known: open_source(small.rows(1, seed=seed)[0], labels(known())), lambda *_: None
        )

    operations.add(db._reader, [addition(1), addition(2)])
    assert seen == [{0, 1, 2}, {0, 1, 2, "new"}]


def test_many_items_are_left_to_the_next_transaction(db):
    large = operations.MOST_TOGETHER
    group = [
        opened({"n": 1, "seed": k, "ids": None, "labels": [0], "columns": {}, "replace": False})
        for k in (1, 2)
    ]
    group[0].open = lambda known: open_source(small.rows(large, seed=1)[0])
    assert [len(report.added) for report in operations.add(db._reader, group)] == [large]


def test_a_line_is_passed_in_the_order_of_arrival():
    line, order, inside = Line(), [], threading.Event()
    go = threading.Event()

    def work(items):
        order.append(("together", items))
        return items

    def first():
        with line.turn("busy", 5.0):
            inside.set()
            go.wait()

    def alone():
        with line.turn("busy", 5.0):
            order.append("alone")

    def wait_for(n):
        while len(line._places) < n:
            time.sleep(0.001)

    threads = [threading.Thread(target=first)]
    threads[0].start()
    inside.wait()
    steps = [lambda: line.do(work, 1, "busy", 5.0), lambda: line.do(work, 2, "busy", 5.0), alone]
    steps += [lambda: line.do(work, 3, "busy", 5.0)]
    for n, step in enumerate(steps, 1):
        threads.append(threading.Thread(target=step))
        threads[-1].start()
        wait_for(n)
    with pytest.raises(DatabaseBusy, match="busy now"), line.turn("busy now", 0.01):
        pass
    go.set()
    for thread in threads:
        thread.join()
    assert order == [("together", [1, 2]), "alone", ("together", [3])]


def test_the_first_of_a_line_that_fails_takes_nobody_with_it():
    line, go, inside = Line(), threading.Event(), threading.Event()
    outcomes = []

    def work(items):
        if items[0] == 1:
            raise RuntimeError("only the first")
        return [ValueError(f"{item} is odd") if item % 2 else item for item in items]

    def ask(item):
        try:
            outcomes.append(line.do(work, item, "busy", 5.0))
        except (RuntimeError, ValueError) as error:
            outcomes.append(str(error))

    def first():
        with line.turn("busy", 5.0):
            inside.set()
            go.wait()

    threads = [threading.Thread(target=first)]
    threads[0].start()
    inside.wait()
    for item in (1, 2, 3, 4):
        threads.append(threading.Thread(target=ask, args=(item,)))
        threads[-1].start()
        while len(line._places) < item:
            time.sleep(0.001)
    go.set()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == ["2", "3 is odd", "4", "only the first"]


def _adds(path, first, n):
    with Database(path) as db:
        for k in range(n):
            db.add(*small.rows(1, seed=first + k))


def test_processes_that_add_wait_for_each_other(db):
    """Of three, each that waits gets its turn: none is told that the database is busy."""
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_adds, args=(db.path, 1000 * k, 15)) for k in (1, 2, 3)]
    for process in others:
        process.start()
    for process in others:
        process.join()
    assert [process.exitcode for process in others] == [0, 0, 0]
    assert len(db) == 60 + 45
    assert verify(db.path) == []


def test_patience_ends(db):
    with Database(db.path, patience=0.0) as hasty, locked(db.path / "writer.lock", "is writing to it"):
        with pytest.raises(DatabaseBusy, match="is writing to it"):
            hasty.add(np.zeros((1, small.WIDTH)))
        with pytest.raises(DatabaseBusy, match="is writing to it"):
            hasty.remove([1])
