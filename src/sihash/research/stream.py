"""A long life: mAP over a stream of updates of all four kinds, beside fits from scratch on the way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.evaluation import leave_one_out
from sihash.hashing import SIH
from sihash.research.lab import Lab, Result, Run
from sihash.research.modifications import USUAL, new_hasher
from sihash.research.scales import Scale
from sihash.research.task import Task
from sihash.research.timing import timed

FIRST_SHARE = 0.6  # of the images of a class are there when it joins
STEP = 0.02  # share of the collection that an update of images adds or deletes


def plan(data: str, scale: Scale) -> list[Run]:
    name = {"kind": "stream", "data": data, "scale": scale.name, "seed": 0}
    return [Run(name, lambda lab: live(lab, data), 4.0 * scale.n_updates)]


@dataclass
class LiveCollection:
    """Which rows and classes are in the collection now, and what happens to it next."""

    y: Array
    inside: Array  # (n,) bool
    classes: list[int]
    rng: np.random.RandomState

    @classmethod
    def start(cls, task: Task, seed: int) -> LiveCollection:
        """Two thirds of the classes, with a share of their images."""
        rng = np.random.RandomState(seed)
        classes = task.classes.tolist()
        y = task.train.y
        started = cls(y, np.zeros(len(y), dtype=bool), [], rng)
        for label in classes[: max(2, 2 * len(classes) // 3)]:
            started.inside[started.newcomers(label)] = True
            started.classes.append(label)
        return started

    def newcomers(self, label: int) -> Array:
        own = np.flatnonzero(self.y == label)
        return np.sort(self.rng.permutation(own)[: max(2, round(FIRST_SHARE * len(own)))])

    def next_change(self, kind: str, all_classes: list[int]) -> tuple[str, Array, list[int]]:
        """The kind that is possible, the rows that come or go, the classes that go; and carries it out."""
        absent = [label for label in all_classes if label not in self.classes]
        if kind == "add_classes" and not absent:
            kind = "remove_classes"
        if kind == "remove_classes" and len(self.classes) <= 3:
            kind = "add_classes"
        n = max(1, round(STEP * self.inside.sum()))
        if kind == "add_classes":
            label = absent[self.rng.randint(len(absent))]
            rows = self.newcomers(label)
            self.classes.append(label)
        elif kind == "remove_classes":
            label = self.classes.pop(self.rng.randint(len(self.classes)))
            rows = np.flatnonzero(self.inside & (self.y == label))
            self.inside[rows] = False
            return kind, rows, [label]
        elif kind == "add_images":
            rows = self.rng.permutation(np.flatnonzero(~self.inside & np.isin(self.y, self.classes)))[:n]
        else:
            rows = self.rng.permutation(np.flatnonzero(self.inside))[:n]
        self.inside[rows] = kind.startswith("add")
        return kind, rows, []


def live(lab: Lab, data: str) -> Result:
    """Every update scored on the test rows of the classes that are there; some beside a fit from scratch."""
    task, scale = lab.task(data), lab.scale
    X, y = task.train.X, task.train.y
    now = LiveCollection.start(task, 0)

    def fit() -> SIH:
        rows = np.flatnonzero(now.inside)
        return new_hasher(lab, data, USUAL, 0).fit(X[rows], y[rows], ids=rows.tolist())

    def mAP(hasher: SIH) -> float:
        asked = np.isin(task.test.y, now.classes)
        return leave_one_out(hasher.transform(task.test.X[asked]), task.test.y[asked]).mAP

    hasher, passive = fit(), fit()
    steps = []
    for number, kind in enumerate(change_kinds(now.rng, scale.n_updates), start=1):
        kind, rows, gone = now.next_change(kind, task.classes.tolist())
        arguments: dict[str, Any] = {"remove": rows.tolist()}
        if kind.startswith("add"):
            arguments = {"X": X[rows], "y": y[rows], "ids": rows.tolist()}
        elif gone:
            arguments = {"remove_classes": gone}
        _, seconds = timed(partial(hasher.update, **arguments))
        step = {"kind": kind, "n_rows": int(now.inside.sum()), "n_classes": len(now.classes)}
        step |= {"seconds": seconds, "n_changed": len(rows)}
        step |= {"incremental": mAP(hasher), "passive": mAP(passive)}
        if number % scale.scratch_every == 0:
            scratch, seconds = timed(fit)
            step |= {"scratch": mAP(scratch), "scratch_seconds": seconds}
        steps.append(step)
    return {"steps": steps}


def change_kinds(rng: np.random.RandomState, n: int) -> list[str]:
    """All four kinds in every four updates, in random order."""
    kinds = ["add_classes", "remove_classes", "add_images", "remove_images"]
    return [kind for _ in range(-(-n // 4)) for kind in rng.permutation(kinds).tolist()][:n]
