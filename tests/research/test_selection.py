"""Nothing is chosen on test images."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sihash.research import fits
from sihash.research.records import Records
from sihash.research.runner import Runner
from sihash.research.scales import SMOKE
from sihash.research.task import Rows, Task, folds, load_task

SCALE = dataclasses.replace(SMOKE, n_train=400, n_anchors=50, widths=(0.05, 0.6), margins=(4.0, 16.0))


@pytest.fixture(scope="module")
def task():
    return load_task("digits", SCALE.n_train, None)


class Sealed:
    """Test rows that nobody may look at."""

    def __getattr__(self, name):
        raise AssertionError(f"the choice of parameters looked at the test rows ({name})")

    __len__ = __getitem__ = __array__ = None


def test_the_choice_never_sees_the_test_rows(task, tmp_path):
    """The very runs that `reproduce` does, on a task whose test rows raise when touched."""
    runner = Runner(SCALE, Records(tmp_path / "records.jsonl"))
    runner.cache["task"] = "digits", Task("digits", task.train, Sealed())
    runner.execute(fits.selection_runs("digits", SCALE))
    assert {r["key"]["method"] for r in runner.records.where(kind="selection")} == set(fits.TUNED)


def test_folds_are_parts_of_the_training_rows(task):
    train = Rows(np.arange(len(task.train))[:, None], task.train.y)
    held_out_rows = []
    for fit_rows, held_out in folds(train, 5):
        assert not set(fit_rows.X[:, 0]) & set(held_out.X[:, 0])
        assert len(fit_rows) + len(held_out) == len(train)
        held_out_rows += held_out.X[:, 0].tolist()
    assert sorted(held_out_rows) == list(range(len(train)))


def test_the_best_on_held_out_rows_is_taken(task):
    chosen = fits.choose(task.train, "digits", "sih_constants", SCALE)
    by_width = [t for t in chosen["tried"] if t["C"] == fits.PAPER_C_X][: len(SCALE.widths)]
    assert chosen["width"] == max(by_width, key=lambda t: t["mAP"])["width"] == 0.6
    assert chosen["C"] == chosen["C_by_validation"]


def test_cifar10_has_the_printed_margin(task):
    chosen = fits.choose(
        task.train, "cifar10", "sih_constants", dataclasses.replace(SCALE, margins=(64.0,), widths=(0.6,))
    )
    assert (chosen["C"], chosen["C_by_validation"]) == (16.0, 64.0)
