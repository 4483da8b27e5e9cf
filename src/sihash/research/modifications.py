"""A collection changes: keep the hash functions, learn from scratch, or update. The paper's Figures 4 to 6.

The four modifications, each from or to a smaller collection drawn at random: classes join or leave, images
join or leave. Passive, from scratch and incremental are scored on the test rows of the final collection.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from sihash._typing import Array
from sihash.evaluation import leave_one_out
from sihash.hashing import SIH, Change
from sihash.research import selection
from sihash.research.lab import Lab, Result, Run
from sihash.research.methods import METHODS
from sihash.research.records import Key
from sihash.research.scales import Scale
from sihash.research.task import Rows, Task
from sihash.research.timing import Seconds, timed

KINDS = {
    "add_classes": "adding new classes",
    "remove_classes": "deleting classes",
    "add_images": "adding images",
    "remove_images": "deleting images",
}
STRATEGIES = ("passive", "scratch", "incremental")
USUAL = "sih"  # the paper's parameters
Timed = tuple[SIH, Seconds]


def points(kind: str, scale: Scale) -> tuple[float, ...]:
    """Sizes of the smaller collection: classes, or a share of the images."""
    return scale.class_points if kind.endswith("classes") else scale.image_points


def plan(data: str, scale: Scale) -> list[Run]:
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
    cost = 10.0 if method == "sih_preset" else 2.0
    return Run(name, lambda lab: compare(lab, name), cost)


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


def compare(lab: Lab, name: Key) -> Result:
    """The three strategies at one point.

    The fit on all rows serves every point of a repeat, the one on the smaller collection adding and deleting.
    """
    data, method, kind, point, repeat = (name[k] for k in ("data", "method", "change", "point", "repeat"))
    task = lab.task(data)
    rows = np.arange(len(task.train))
    drawn = draw(task, kind, point, repeat)

    def fit(own: Array) -> Timed:
        hasher, X, y = new_hasher(lab, data, method, repeat), task.train.X[own], task.train.y[own]
        return timed(lambda: hasher.fit(X, y, ids=own.tolist()))

    whole = lab.keep(("whole", (data, method, repeat)), lambda: fit(rows))
    smaller = (data, method, repeat, kind.split("_")[1], point)
    small = lab.keep(("small", smaller), lambda: fit(rows[drawn.inside]))
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


def new_hasher(lab: Lab, data: str, method: str, seed: int) -> SIH:
    scale = lab.scale
    setting = selection.setting(
        lab, data, method, n_bits=scale.bits, n_anchors=scale.n_anchors, seed=seed, scale=scale
    )
    hasher = METHODS[method].make(setting)
    assert isinstance(hasher, SIH)
    return hasher


def _told(trained: Timed, asked: Rows) -> Result:
    """mAP, and what the last fit or update took: for passive that is the fit on the collection before."""
    hasher, seconds = trained
    mAP = leave_one_out(hasher.transform(asked.X), asked.y).mAP
    return {"mAP": mAP, "seconds": seconds, "n_steps": hasher.report_.n_steps}
