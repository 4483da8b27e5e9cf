"""A collection changes: keep the hash functions, learn from scratch, or update. The paper's Figures 4 to 6.

The four modifications, each from or to a smaller collection drawn at random: classes join or leave, images
join or leave. Passive, from scratch and incremental are scored on the test rows of the final collection. Then
a long life: a stream of updates of all four kinds, beside fits from scratch on the way.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.evaluation import leave_one_out
from sihash.hashing import SIH, Change
from sihash.research.fits import setting_of
from sihash.research.methods import METHODS
from sihash.research.records import Key
from sihash.research.runner import Result, Run, Runner, Seconds, timed
from sihash.research.scales import Scale
from sihash.research.task import Rows, Task

KINDS = {
    "add_classes": "adding new classes",
    "remove_classes": "deleting classes",
    "add_images": "adding images",
    "remove_images": "deleting images",
}
STRATEGIES = ("passive", "scratch", "incremental")
USUAL = "sih_constants"  # the paper's parameters
FIRST_SHARE = 0.6  # of the images of a class are there when it joins
STEP = 0.02  # share of the collection that an update of images adds or deletes
Timed = tuple[SIH, Seconds]


def points(kind: str, scale: Scale) -> tuple[float, ...]:
    """Sizes of the smaller collection: classes, or a share of the images."""
    return scale.class_points if kind.endswith("classes") else scale.image_points


def change_runs(data: str, scale: Scale) -> list[Run]:
    """Repeat after repeat, so that an unfinished reproduction has some of every point."""
    return [
        _run(data, method, kind, point, repeat, scale)
        for method, n_repeats in scale.repeats.items()
        for repeat in range(n_repeats)
        for what in ("classes", "images")
        for point in points(what, scale)
        for kind in (f"add_{what}", f"remove_{what}")
    ]


def _run(data: str, method: str, kind: str, point: float, repeat: int, scale: Scale) -> Run:
    name: Key = {"kind": "change", "data": data, "scale": scale.name, "method": method}
    name |= {"change": kind, "point": point, "repeat": repeat}
    cost = 10.0 if method == "sih_paper" else 2.0
    return Run(name, lambda runner: compare(runner, name), cost)


@dataclass(frozen=True)
class Draw:
    """Which rows make the smaller collection: ``inside`` (n, bool); ``classes`` that it has."""

    inside: Array
    classes: Array


def draw(task: Task, kind: str, point: float, seed: int) -> Draw:
    """Random classes, or random images of every class."""
    rng = np.random.RandomState(1000 + seed)
    classes, y = task.classes, task.train.y
    if kind.endswith("classes"):
        chosen = np.sort(rng.permutation(classes)[: int(point)])
        return Draw(np.isin(y, chosen), chosen)
    inside = np.zeros(len(y), dtype=bool)
    inside[rng.permutation(len(y))[: round(point * len(y))]] = True
    return Draw(inside, classes)


def compare(runner: Runner, name: Key) -> Result:
    """The three strategies at one point.

    The fit on all rows serves every point of a repeat, the one on the smaller collection adding and deleting.
    """
    data, method, kind, point, repeat = (name[k] for k in ("data", "method", "change", "point", "repeat"))
    task = runner.task(data)
    rows = np.arange(len(task.train))
    drawn = draw(task, kind, point, repeat)

    def fit(own: Array) -> Timed:
        hasher, X, y = new_hasher(runner, data, method, repeat), task.train.X[own], task.train.y[own]
        return timed(lambda: hasher.fit(X, y, ids=own.tolist()))

    whole = runner.keep(("whole", (data, method, repeat)), lambda: fit(rows))
    smaller = (data, method, repeat, kind.split("_")[1], point)
    small = runner.keep(("small", smaller), lambda: fit(rows[drawn.inside]))
    if kind.startswith("add"):
        before, scratch, asked = small, whole, task.test
        outside = ~drawn.inside
        change = Change(task.train.X[outside], task.train.y[outside], ids=rows[outside].tolist())
    else:
        before, scratch = whole, small
        asked = task.test[np.isin(task.test.y, drawn.classes)]
        change = _removal(task, drawn, kind)
    copied = copy.deepcopy(before[0])  # which an update need not do, so the timer does not see it
    updated = timed(lambda: change.update(copied))
    return {
        "n_before": len(before[0].ids_),
        "n_after": len(updated[0].ids_),
        "classes": drawn.classes.tolist(),
        "passive": _told(before, asked),
        "scratch": _told(scratch, asked),
        "incremental": _told(updated, asked),
    }


def _removal(task: Task, drawn: Draw, kind: str) -> Change:
    if kind == "remove_classes":
        return Change(remove_classes=np.setdiff1d(task.classes, drawn.classes).tolist())
    return Change(remove_ids=np.flatnonzero(~drawn.inside).tolist())


def new_hasher(runner: Runner, data: str, method: str, seed: int) -> SIH:
    scale = runner.scale
    setting = setting_of(
        runner, data, method, n_bits=scale.bits, n_anchors=scale.n_anchors, seed=seed, scale=scale
    )
    hasher = METHODS[method].make(setting)
    assert isinstance(hasher, SIH)
    return hasher


def _told(trained: Timed, asked: Rows) -> Result:
    """mAP, and what the last fit or update took: for passive that is the fit on the collection before."""
    hasher, seconds = trained
    mAP = leave_one_out(hasher.transform(asked.X), asked.y).mAP
    return {"mAP": mAP, "seconds": seconds, "n_steps": hasher.report_.n_steps}


# The stream.


def stream_runs(data: str, scale: Scale) -> list[Run]:
    name = {"kind": "stream", "data": data, "scale": scale.name, "seed": 0}
    return [Run(name, lambda runner: live(runner, data), 4.0 * scale.n_updates)]


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


def live(runner: Runner, data: str) -> Result:
    """Every update scored on the test rows of the classes that are there; some beside a fit from scratch."""
    task, scale = runner.task(data), runner.scale
    X, y = task.train.X, task.train.y
    now = LiveCollection.start(task, 0)

    def fit() -> SIH:
        rows = np.flatnonzero(now.inside)
        return new_hasher(runner, data, USUAL, 0).fit(X[rows], y[rows], ids=rows.tolist())

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
