"""One method trained and scored, its kernel width and soft margin chosen on training rows before.

Test rows have no way into the choice. What table1, map and pr are made of: they share their records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.evaluation import bit_statistics, leave_one_out
from sihash.hasher import Hasher
from sihash.hashing import SIH
from sihash.research.methods import METHODS, PAPER_C_X, Setting
from sihash.research.records import Key
from sihash.research.runner import Result, Run, Runner, Seconds, timed
from sihash.research.scales import Scale
from sihash.research.task import Rows, folds

N_TIMED = 2  # transforms of the test rows; the fastest counts
# Rough, at full scale; the others hardly depend on bits.
_SECONDS_A_BIT = {"fasthash": 1.2, "ksh": 0.3, "sih_paper": 0.3}
TUNED = ("sih_constants", "sdh")  # the methods whose width is chosen here; our defaults choose their own
SHARED = {"ksh": "sdh"}  # KSH has the width of SDH: its own search would take longer than all the others


def selection_runs(data: str, scale: Scale) -> list[Run]:
    return [_selection_run(data, method, scale) for method in TUNED]


def selection_key(data: str, method: str, scale: Scale) -> dict[str, object]:
    return {"kind": "selection", "data": data, "method": method, "scale": scale.name}


def _selection_run(data: str, method: str, scale: Scale) -> Run:
    name = selection_key(data, method, scale)
    return Run(name, lambda runner: choose(runner.task(data).train, data, method, scale), 20.0)


def choose(train: Rows, data: str, method: str, scale: Scale) -> Result:
    """The width with the best mAP on held-out training rows; then, for SIH, the margin C at that width.

    For CIFAR-10 the paper prints C = 16, so that is what is used there; what cross-validation would take is
    recorded beside it.
    """
    tried: list[dict[str, float]] = []
    rows = train[np.random.RandomState(0).permutation(len(train))[: scale.n_validation]]

    def score(width: float, C: float) -> float:
        setting = Setting(scale.bits, 0, scale.n_anchors, width, C, scale.n_labelled, scale.n_trees)
        scores = []
        for fit_rows, held_out in folds(rows, scale.n_folds):
            hasher = METHODS[method].make(setting).fit(fit_rows.X, fit_rows.y)
            scores.append(leave_one_out(hasher.transform(held_out.X), held_out.y).mAP)
        tried.append({"width": width, "C": C, "mAP": float(np.mean(scores))})
        return tried[-1]["mAP"]

    width = max(scale.widths, key=lambda width: score(width, PAPER_C_X))
    C = max(scale.margins, key=lambda C: score(width, C)) if method == "sih_constants" else PAPER_C_X
    used = PAPER_C_X if data == "cifar10" else C
    return {"width": width, "C": used, "C_by_validation": C, "tried": tried, "n_rows": len(rows)}


def setting_of(
    runner: Runner, data: str, method: str, *, n_bits: int, n_anchors: int, seed: int, scale: Scale
) -> Setting:
    """What a fit is asked for, with the recorded choice of width and C."""
    tuned = method if method in TUNED else SHARED.get(method, "sih_constants")
    chosen = runner.records[selection_key(data, tuned, scale)]["result"]
    return Setting(n_bits, seed, n_anchors, chosen["width"], chosen["C"], scale.n_labelled, scale.n_trees)


def key(
    data: str, method: str, scale: Scale, n_bits: int, n_train: int | None, n_anchors: int | None, seed: int
) -> Key:
    """The name of a fit; ``n_train`` None means all rows, ``n_anchors`` None that the method has none."""
    return {
        "kind": "fit",
        "data": data,
        "scale": scale.name,
        "method": method,
        "n_bits": n_bits,
        "n_train": n_train,
        "n_anchors": n_anchors if METHODS[method].has_anchors else None,
        "seed": seed,
    }


def run(
    data: str,
    method: str,
    scale: Scale,
    seed: int,
    *,
    n_bits: int | None = None,
    n_train: int | None = None,
    n_anchors: int | None = None,
) -> Run:
    """A fit by the sizes of the scale, where no others are given."""
    n_bits, n_anchors = n_bits or scale.bits, n_anchors or scale.n_anchors
    name = key(data, method, scale, n_bits, n_train, n_anchors, seed)
    cost = 3.0 + n_bits * _SECONDS_A_BIT.get(method, 0.03) + (n_anchors / 1000) ** 2 * (n_train is None)
    return Run(name, lambda runner: fit_and_score(runner, name, n_anchors), cost)


def fit_and_score(runner: Runner, name: Key, n_anchors: int) -> Result:
    """Train, hash the test rows, score them."""
    hasher, result = fitted(runner, name, n_anchors)
    test = runner.task(name["data"]).test
    codes, result["seconds"]["transform"] = _timed_transform(hasher, test.X)
    scores = leave_one_out(codes, test.y)
    return result | {
        "test_microseconds": 1e6 * result["seconds"]["transform"]["cpu"] / len(test),
        "mAP": scores.mAP,
        "precision": scores.precision[: hasher.n_bits + 1].tolist(),
        "recall": scores.recall[: hasher.n_bits + 1].tolist(),
        "n_queries": scores.n_queries,
        "imbalance": bit_statistics(codes, hasher.n_bits).mean_imbalance,
    }


def fitted(runner: Runner, name: Key, n_anchors: int) -> tuple[Any, Result]:
    """The hasher that a key asks for, and what is to be said of its training."""
    data, method, seed = name["data"], name["method"], name["seed"]
    rows = runner.task(data).subset(name["n_train"], seed)
    setting = setting_of(
        runner, data, method, n_bits=name["n_bits"], n_anchors=n_anchors, seed=seed, scale=runner.scale
    )
    runner.keep((f"warm {method}", data), lambda: _warm_up(runner, name))
    hasher, seconds = timed(lambda: METHODS[method].make(setting).fit(rows.X, rows.y))
    params = {k: v for k, v in hasher.get_params().items() if isinstance(v, str | int | float)}
    n_learned = min(len(rows), params.get("n_labelled", len(rows)))  # KSH learns from fewer rows than it gets
    result: Result = {"n_train": n_learned, "n_test": len(runner.task(data).test)}
    result |= {"params": params, "seconds": {"fit": seconds}}
    if hasattr(hasher, "kernel_"):
        result["width"] = float(hasher.kernel_.width)
    if isinstance(hasher, SIH):
        result["seconds"]["phases of fit"] = dict(hasher.report_.seconds)
        result |= {"n_iter": hasher.n_iter_, "n_steps": hasher.report_.n_steps}
        result["max_gap"] = hasher.report_.max_gap
    return hasher, result


def _warm_up(runner: Runner, name: Key) -> None:
    """Compiled loops are loaded outside the timer."""
    data, method = name["data"], name["method"]
    few = runner.task(data).subset(200, 0)
    setting = setting_of(runner, data, method, n_bits=8, n_anchors=20, seed=0, scale=runner.scale)
    METHODS[method].make(setting).fit(few.X, few.y).transform(few.X)


def _timed_transform(hasher: Hasher, X: Array) -> tuple[Array, Seconds]:
    tries = [timed(lambda: hasher.transform(X)) for _ in range(N_TIMED)]
    return min(tries, key=lambda result: result[1]["cpu"])
