"""The baselines side by side on CIFAR-10 GIST: mAP, precision at radius 2, and fit time as a ratio to SDH.

``python -m benchmarks.baselines`` prints the table of docs/baselines.md; ``--floor`` what SDH cannot do without.
Only ratios within one run mean anything: seconds depend on the machine and on what else it does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sihash import datasets
from sihash.baselines import CCAITQ, KSH, LSH, PCAITQ, SDH, FastHash
from sihash.baselines.kernelised import fit_kernel_map
from sihash.evaluation import leave_one_out

BARS = {"CCAITQ": 0.31, "SDH": 0.39, "KSH": 0.335, "FastHash": 0.35}  # mAP at 32 bits
METHODS = {cls.__name__: cls for cls in (LSH, PCAITQ, CCAITQ, SDH, KSH, FastHash)}
KERNELISED = ("SDH", "KSH")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=list(METHODS), help="default: all")
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--anchors", type=int, default=1000)
    parser.add_argument("--width", type=float, default=0.8, help="kernel width of SDH and KSH")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=None, help="training rows, for a quick try")
    parser.add_argument("--floor", action="store_true", help="compare SDH with its floor instead")
    args = parser.parse_args()
    data = datasets.load("cifar10", features="gist")
    X, y = data.X_train[: args.rows], data.y_train[: args.rows]
    SDH(args.bits, n_anchors=20).fit(X[:200], y[:200])  # compiled kernels are loaded outside the timer
    if args.floor:
        print_floor(X, y, args)
    else:
        print_table(X, y, data.X_test, data.y_test, args)


def print_table(X: Any, y: Any, X_test: Any, y_test: Any, args: argparse.Namespace) -> None:
    """One SDH fit beside each fit of a method, so that both meet the machine in the same mood."""
    print(
        f"{'method':10} {'mAP':>14} {'bar':>6} {'precision@2':>12} {'fit / SDH':>10} {'transform / SDH':>16}"
    )
    for name in args.methods:
        mAP, precision, fit_ratio, transform_ratio = [], [], [], []
        for seed in range(args.seeds):
            sdh, sdh_fit = timed(lambda s=seed: build("SDH", s, args).fit(X, y))
            _, sdh_transform = timed(lambda h=sdh: h.transform(X_test))
            hasher, fit = timed(lambda s=seed, n=name: build(n, s, args).fit(X, y))
            codes, transform = timed(lambda h=hasher: h.transform(X_test))
            scores = leave_one_out(codes, y_test)
            mAP.append(scores.mAP)
            precision.append(scores.precision[2])
            fit_ratio.append(fit / sdh_fit)
            transform_ratio.append(transform / sdh_transform)
        print(
            f"{name:10} {np.mean(mAP):.4f} ± {np.std(mAP):.4f} {BARS.get(name, 0) or '':>6} "
            f"{np.mean(precision):12.4f} {np.median(fit_ratio):10.2f} {np.median(transform_ratio):16.2f}",
            flush=True,
        )


def build(name: str, seed: int, args: argparse.Namespace) -> Any:
    kernel = {"n_anchors": args.anchors, "kernel_width": args.width} if name in KERNELISED else {}
    return METHODS[name](args.bits, random_state=seed, **kernel)


def print_floor(X: Any, y: Any, args: argparse.Namespace) -> None:
    """The floor: Φ, its Gram matrix, and the two products of each round, in the float type of the data."""

    def floor(n_iter: int) -> None:
        kernel = fit_kernel_map(
            X, np.zeros(len(X), dtype=int), args.anchors, args.width, np.random.RandomState(0)
        )
        Phi = kernel(X)
        _ = Phi.T @ Phi
        P, B = np.ones((Phi.shape[1], args.bits), Phi.dtype), np.ones((len(X), args.bits), Phi.dtype)
        for _ in range(n_iter):
            _ = Phi @ P
            _ = Phi.T @ B

    ratios = []
    for seed in range(max(args.seeds, 3)):
        sdh, fit = timed(lambda s=seed: build("SDH", s, args).fit(X, y))
        _, least = timed(lambda h=sdh: floor(h.n_iter_))
        ratios.append(fit / least)
        print(
            f"seed {seed}: {sdh.n_iter_} rounds, SDH {fit:.2f} s, its floor {least:.2f} s, ratio {ratios[-1]:.2f}"
        )
    print(f"SDH takes {np.median(ratios):.2f} times its floor (bar: 2)")


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


if __name__ == "__main__":
    main()
