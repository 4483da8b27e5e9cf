"""The baselines side by side on one data set: mAP, precision at radius 2, and fit time as a ratio to SDH.

``python -m benchmarks.baselines`` prints the table of docs/baselines.md, and with ``--floor`` how far SDH is
from its floor. Only ratios within one run mean anything: seconds depend on the machine and its other work.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from benchmarks.data import NAMES, load
from benchmarks.timing import timed

from sihash._typing import Array
from sihash.evaluation import leave_one_out
from sihash.kernel_fit import fit_kernel_map
from sihash.research.baselines import BRE, CCAITQ, DBC, KSH, LSH, PCAITQ, SDH, FastHash

METHODS = {cls.__name__: cls for cls in (LSH, PCAITQ, CCAITQ, BRE, SDH, KSH, DBC, FastHash)}
KERNELISED = ("SDH", "KSH", "BRE", "DBC")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=list(METHODS), help="default: all")
    parser.add_argument("--data", default="cifar10", choices=NAMES)
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--anchors", type=int, default=1000)
    parser.add_argument("--width", type=float, default=0.8, help="kernel width of SDH, KSH, BRE and DBC")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=50_000, help="training rows; fewer for a quick try")
    parser.add_argument("--floor", action="store_true", help="set SDH beside its floor instead")
    args = parser.parse_args()
    data = load(args.data)
    step = max(1, len(data.X_train) // args.rows)
    X, y = data.X_train[::step], data.y_train[::step]
    SDH(args.bits, n_anchors=20).fit(X[::20], y[::20])  # compiled kernels are loaded outside the timer
    if args.floor:
        print_floor(X, y, args)
    else:
        print_table(X, y, data.X_test, data.y_test, args)


def print_table(X: Array, y: Array, X_test: Array, y_test: Array, args: argparse.Namespace) -> None:
    """A fit of SDH beside every fit of a method, so that both meet the machine in the same mood."""
    print("method      mAP              precision@2  fit / SDH  transform / SDH")
    for name in args.methods:
        rows = np.array([measure(name, seed, X, y, X_test, y_test, args) for seed in range(args.seeds)])
        mAP, precision, fit, transform = rows.T
        print(
            f"{name:10}  {mAP.mean():.4f} ± {mAP.std():.4f}  {precision.mean():11.4f}"
            f"  {np.median(fit):9.2f}  {np.median(transform):15.2f}",
            flush=True,
        )


def measure(
    name: str, seed: int, X: Array, y: Array, X_test: Array, y_test: Array, args: argparse.Namespace
) -> tuple[float, float, float, float]:
    """mAP, precision at radius 2, and the times of fit and transform over those of SDH."""
    sdh, hasher = build("SDH", seed, args), build(name, seed, args)
    sdh_fit = timed(lambda: sdh.fit(X, y))
    fit = timed(lambda: hasher.fit(X, y))
    sdh_transform = timed(lambda: sdh.transform(X_test))
    transform = timed(lambda: hasher.transform(X_test))
    codes = hasher.transform(X_test)
    scores = leave_one_out(codes, y_test)
    return scores.mAP, scores.precision[2], fit / sdh_fit, transform / sdh_transform


def build(name: str, seed: int, args: argparse.Namespace) -> Any:
    kernel = {"n_anchors": args.anchors, "kernel_width": args.width} if name in KERNELISED else {}
    return METHODS[name](args.bits, random_state=seed, **kernel)


def print_floor(X: Array, y: Array, args: argparse.Namespace) -> None:
    """The floor: Φ, its Gram matrix, and the two products of each round, in the float type of the data."""

    def floor(n_iter: int) -> None:
        Phi = fit_kernel_map(X, y, args.anchors, "random", args.width, np.random.RandomState(0))(X)
        P, B = np.ones((Phi.shape[1], args.bits), Phi.dtype), np.ones((len(X), args.bits), Phi.dtype)
        Phi.T @ Phi
        for _ in range(n_iter):
            Phi @ P
            Phi.T @ B

    ratios = []
    for seed in range(args.seeds):
        sdh = build("SDH", seed, args)
        fit = timed(lambda sdh=sdh: sdh.fit(X, y))
        least = timed(lambda sdh=sdh: floor(sdh.n_iter_))
        ratios.append(fit / least)
        print(
            f"{sdh.n_iter_} rounds: SDH {fit:.2f} s, floor {least:.2f} s, ratio {ratios[-1]:.2f}", flush=True
        )
    print(f"SDH takes {np.median(ratios):.2f} times its floor")


if __name__ == "__main__":
    main()
