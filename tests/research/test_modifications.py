"""Changing collections: the right rows come and go, and the strategies are scored on the right queries."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sihash.research import changes, fits
from sihash.research.records import Records
from sihash.research.runner import Runner
from sihash.research.scales import SMOKE
from sihash.research.task import load_task

SCALE = dataclasses.replace(
    SMOKE, n_train=500, n_test=200, n_anchors=60, bits=16, widths=(0.6,), margins=(16.0,), n_updates=9
)


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    runner = Runner(SCALE, Records(tmp_path_factory.mktemp("changes") / "records.jsonl"))
    runner.execute(fits.selection_runs("digits", SCALE)[:1])
    return runner


@pytest.mark.parametrize("kind", changes.KINDS)
def test_draws(kind):
    task = load_task("digits", 500, None)
    point = 4 if kind.endswith("classes") else 0.3
    drawn = changes.draw(task, kind, point, 0)
    inside = task.train.y[drawn.inside]
    if kind.endswith("classes"):
        assert set(inside) == set(drawn.classes)
        assert len(drawn.classes) == 4
        assert drawn.inside.sum() == np.isin(task.train.y, drawn.classes).sum()
    else:
        assert drawn.inside.sum() == 150
        assert len(drawn.classes) == 10
    assert np.array_equal(drawn.inside, changes.draw(task, kind, point, 0).inside)
    assert not np.array_equal(drawn.inside, changes.draw(task, kind, point, 1).inside)


def compared(runner, kind, point):
    name = {"data": "digits", "method": changes.USUAL, "change": kind, "point": point, "repeat": 0}
    return changes.compare(runner, name)


@pytest.mark.parametrize("kind", changes.KINDS)
def test_strategies_side_by_side(runner, kind):
    point = 5 if kind.endswith("classes") else 0.5
    result = compared(runner, kind, point)
    small = int(changes.draw(runner.task("digits"), kind, point, 0).inside.sum())
    sizes = (small, 500) if kind.startswith("add") else (500, small)
    assert (result["n_before"], result["n_after"]) == sizes
    assert set(changes.STRATEGIES) <= set(result)
    assert result["incremental"]["mAP"] > 0.6
    if kind == "add_classes":
        assert result["incremental"]["mAP"] > result["passive"]["mAP"] + 0.05


def test_deleting_classes_asks_only_for_those_left(runner):
    few = compared(runner, "remove_classes", 2)
    assert len(few["classes"]) == 2
    assert few["passive"]["mAP"] > 0.9, "two digits are easier to tell apart than ten"


class TestStream:
    def test_the_collection_follows_its_changes(self):
        task = load_task("digits", None, None)
        now = changes.LiveCollection.start(task, 0)
        seen = set()
        for kind in changes.change_kinds(np.random.RandomState(0), 40):
            before = now.inside.copy()
            kind, rows, gone = now.next_change(kind, task.classes.tolist())
            seen.add(kind)
            changed = np.flatnonzero(before != now.inside)
            assert np.array_equal(np.sort(rows), changed)
            assert now.inside[rows].all() == kind.startswith("add")
            assert not set(gone) & set(now.classes)
            assert set(task.train.y[now.inside]) == set(now.classes)
            assert len(now.classes) >= 2
        assert seen == set(changes.KINDS)

    def test_every_update_is_scored(self, runner):
        steps = changes.live(runner, "digits")["steps"]
        assert len(steps) == SCALE.n_updates
        assert all(step["incremental"] > 0.5 for step in steps)
        compared = [n for n, step in enumerate(steps, 1) if "scratch" in step]
        assert compared == list(range(SCALE.scratch_every, SCALE.n_updates + 1, SCALE.scratch_every))
        assert {step["kind"] for step in steps} == set(changes.KINDS)
