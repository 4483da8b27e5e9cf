"""One method trained and scored: what table1, map and pr are made of. They share their records."""

from __future__ import annotations

from typing import Any

from sihash._typing import Array
from sihash.evaluation import bit_statistics, leave_one_out
from sihash.hasher import Hasher
from sihash.hashing import SIH
from sihash.research import rankings, selection
from sihash.research.lab import Lab, Result, Run
from sihash.research.methods import METHODS
from sihash.research.records import Key
from sihash.research.scales import Scale
from sihash.research.timing import Seconds, timed

N_TIMED = 2  # transforms of the test rows; the fastest counts
# Rough, at full scale; the others hardly depend on bits.
_SECONDS_A_BIT = {"fasthash": 1.2, "ksh": 0.3, "sih_preset": 0.3}


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
    return Run(name, lambda lab: fit_and_score(lab, name, n_anchors), cost)


def fit_and_score(lab: Lab, name: Key, n_anchors: int) -> Result:
    """Train, hash the test rows, score them."""
    hasher, result = fitted(lab, name, n_anchors)
    test = lab.task(name["data"]).test
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


def fitted(lab: Lab, name: Key, n_anchors: int) -> tuple[Any, Result]:
    """The hasher that a key asks for, and what is to be said of its training."""
    data, method, seed = name["data"], name["method"], name["seed"]
    rows = lab.task(data).subset(name["n_train"], seed)
    setting = selection.setting(
        lab, data, method, n_bits=name["n_bits"], n_anchors=n_anchors, seed=seed, scale=lab.scale
    )
    lab.keep((f"warm {method}", data), lambda: _warm_up(lab, name))
    hasher, seconds = timed(lambda: METHODS[method].make(setting).fit(rows.X, rows.y))
    params = {k: v for k, v in hasher.get_params().items() if isinstance(v, str | int | float)}
    n_learned = min(len(rows), params.get("n_labelled", len(rows)))  # KSH learns from fewer rows than it gets
    result: Result = {"n_train": n_learned, "n_test": len(lab.task(data).test)}
    result |= {"params": params, "seconds": {"fit": seconds}}
    if hasattr(hasher, "kernel_"):
        result["width"] = float(hasher.kernel_.width)
    if isinstance(hasher, SIH):
        result["seconds"]["phases of fit"] = dict(hasher.report_.seconds)
        result |= {"n_iter": hasher.n_iter_, "n_steps": hasher.report_.n_steps}
        result["max_gap"] = hasher.report_.max_gap
    return hasher, result


def _warm_up(lab: Lab, name: Key) -> None:
    """Compiled loops are loaded outside the timer."""
    data, method = name["data"], name["method"]
    few = lab.task(data).subset(200, 0)
    setting = selection.setting(lab, data, method, n_bits=8, n_anchors=20, seed=0, scale=lab.scale)
    METHODS[method].make(setting).fit(few.X, few.y).transform(few.X)


def _timed_transform(hasher: Hasher, X: Array) -> tuple[Array, Seconds]:
    tries = [timed(lambda: hasher.transform(X)) for _ in range(N_TIMED)]
    return min(tries, key=lambda result: result[1]["cpu"])


def ranking_run(data: str, method: str, scale: Scale, seed: int) -> Run:
    """The codes of a 32-bit fit ranked otherwise than by Hamming distance: not the paper's protocol."""
    name = key(data, method, scale, scale.bits, None, scale.n_anchors, seed) | {"kind": "ranking"}
    return Run(name, lambda lab: _rank(lab, name), 12.0)


def _rank(lab: Lab, name: Key) -> Result:
    hasher, result = fitted(lab, name, name["n_anchors"])
    test = lab.task(name["data"]).test
    hamming = leave_one_out(hasher.transform(test.X), test.y).mAP
    return result | {"mAP": {"hamming": hamming, **rankings.leave_one_out_scores(hasher, test.X, test.y)}}
