"""Kernel width and soft margin, by cross-validation on training rows. Test rows have no way in here."""

from __future__ import annotations

import numpy as np

from sihash.evaluation import leave_one_out
from sihash.research.lab import Lab, Result, Run
from sihash.research.methods import METHODS, PAPER_C_X, Setting
from sihash.research.scales import Scale
from sihash.research.task import Rows, folds

TUNED = ("sih", "sdh")  # the methods whose width is chosen here; our defaults choose their own
SHARED = {"ksh": "sdh"}  # KSH has the width of SDH: its own search would take longer than all the others


def plan(data: str, scale: Scale) -> list[Run]:
    return [_run(data, method, scale, 20.0) for method in TUNED]


def key(data: str, method: str, scale: Scale) -> dict[str, object]:
    return {"kind": "selection", "data": data, "method": method, "scale": scale.name}


def _run(data: str, method: str, scale: Scale, cost: float) -> Run:
    return Run(key(data, method, scale), lambda lab: choose(lab.task(data).train, data, method, scale), cost)


def choose(train: Rows, data: str, method: str, scale: Scale) -> Result:
    """The width with the best mAP on held-out training rows; then, for SIH, the margin C at that width.

    For CIFAR-10 the paper prints C = 16, so that is what is used there; what cross-validation would take is
    recorded beside it.
    """
    tried: list[dict[str, float]] = []
    rows = train[np.random.RandomState(0).permutation(len(train))[: scale.n_validation]]

    def score(width: float, C: float) -> float:
        setting = Setting(scale.bits, scale.n_anchors, width, C, 0, scale)
        scores = []
        for fit_rows, held_out in folds(rows, scale.n_folds):
            hasher = METHODS[method].make(setting).fit(fit_rows.X, fit_rows.y)
            scores.append(leave_one_out(hasher.transform(held_out.X), held_out.y).mAP)
        tried.append({"width": width, "C": C, "mAP": float(np.mean(scores))})
        return tried[-1]["mAP"]

    width = max(scale.widths, key=lambda width: score(width, PAPER_C_X))
    C = max(scale.margins, key=lambda C: score(width, C)) if method == "sih" else PAPER_C_X
    used = PAPER_C_X if data == "cifar10" else C
    return {"width": width, "C": used, "C_by_validation": C, "tried": tried, "n_rows": len(rows)}


def setting(
    lab: Lab, data: str, method: str, *, n_bits: int, n_anchors: int, seed: int, scale: Scale
) -> Setting:
    """What a fit is asked for, with the recorded choice of width and C."""
    tuned = method if method in TUNED else SHARED.get(method, "sih")
    chosen = lab.records[key(data, tuned, scale)]["result"]
    return Setting(n_bits, n_anchors, chosen["width"], chosen["C"], seed, scale)
