"""SIH as a whole: fit beside SDH, the share of matrix products, peak memory, mAP over seeds.

``python -m benchmarks.sih speed`` sets `SIH.fit` beside `SDH.fit` from the same rows, anchors and width, in
turns, and watches how long its threads are inside matrix products. ``memory`` reports the peak memory of a
fit beside Φ. ``quality`` prints mAP on the test images over seeds. Only ratios within one run mean
anything.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from benchmarks.data import FEATURES, load
from benchmarks.timing import timed

from sihash import SIH, kernel
from sihash._typing import Array
from sihash.baselines import SDH
from sihash.evaluation import leave_one_out
from sihash.svm import balance, moves, products, shared_hessian, slopes
from sihash.threads import n_threads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["speed", "memory", "quality", "peak"])
    parser.add_argument("--data", default="cifar10", choices=sorted(FEATURES))
    parser.add_argument("--anchors", type=int, default=1000)
    parser.add_argument("--how", default="classes", help="how anchors are chosen: classes, kmeans or random")
    parser.add_argument("--width", default="auto", help="kernel width, or auto")
    parser.add_argument("--C", type=float, default=SIH().C_x)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    if args.what == "memory":
        memory(args)
        return
    data = load(args.data)
    X, y = np.ascontiguousarray(data.X_train, dtype=np.float32), data.y_train
    if args.what == "speed":
        speed(X, y, args)
    elif args.what == "quality":
        quality(X, y, data.X_test, data.y_test, args)
    else:
        peak(X, y, args)


def speed(X: Array, y: Array, args: argparse.Namespace) -> None:
    width = 0.8 if args.width == "auto" else float(args.width)
    anchors = X[np.random.RandomState(0).permutation(len(X))[: args.anchors]]
    common = {"n_bits": 32, "anchors": anchors, "kernel_width": width, "random_state": 0}
    SIH(C_x=args.C, **common).fit(X, y)  # compiled kernels are loaded outside the timer
    SDH(**common).fit(X[::50], y[::50])
    ratios, shares = [], []
    for _ in range(args.seeds):
        sdh = timed(lambda: SDH(**common).fit(X, y))
        hasher = SIH(C_x=args.C, **common)
        with products_watched() as spent:
            sih = timed(lambda hasher=hasher: hasher.fit(X, y))
        in_products = sum(spent) / n_threads()
        ratios.append(sih / sdh)
        shares.append(in_products / sih)
        print(
            f"SDH {sdh:.2f} s, SIH {sih:.2f} s, of it in products {in_products:.2f} s; {hasher.report_}",
            flush=True,
        )
    print(f"SIH / SDH: {np.median(ratios):.2f}; matrix products: {100 * np.median(shares):.0f} % of a fit")


@contextmanager
def products_watched() -> Iterator[list[float]]:
    """Seconds of all threads inside products, where the kernel map and the smoothed solver call them.

    These are `np.matmul`, and the compiled ones of `sihash.svm.products`.
    """
    spent: list[float] = []

    def watched(product: Callable[..., Any]) -> Callable[..., Any]:
        def timed_product(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return product(*args, **kwargs)
            finally:
                spent.append(time.perf_counter() - start)

        return timed_product

    class Watched:
        matmul = staticmethod(watched(np.matmul))

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

    modules: tuple[Any, ...] = (kernel, balance, moves, products, slopes, shared_hessian)
    compiled = {name: getattr(products, name) for name in ("_add_tiles", "add_sparse_product")}
    for module in modules:
        module.np = Watched()
    for name, function in compiled.items():
        setattr(products, name, watched(function))
    try:
        yield spent
    finally:
        for name, function in compiled.items():
            setattr(products, name, function)
        for module in modules:
            module.np = np


def memory(args: argparse.Namespace) -> None:
    """Peak memory of a fit beyond that of loading the data, each in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sih", "peak", "--data", args.data]
    command += ["--anchors", str(args.anchors)]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def peak(X: Array, y: Array, args: argparse.Namespace) -> None:
    SIH(n_anchors=20, random_state=0).fit(X[::50], y[::50])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    SIH(n_anchors=args.anchors, kernel_width=0.7, random_state=0).fit(X, y)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    phi = len(X) * (args.anchors + 1) * 4 / 2**20
    print(
        f"peak of a fit: {after - before:.0f} MB; Φ {phi:.0f} MB; bar (2.5 Φ + 500) {2.5 * phi + 500:.0f} MB"
    )


def quality(X: Array, y: Array, X_test: Array, y_test: Array, args: argparse.Namespace) -> None:
    width = args.width if args.width == "auto" else float(args.width)
    rows = []
    for seed in range(args.seeds):
        params = {"n_anchors": args.anchors, "anchors": args.how, "kernel_width": width, "C_x": args.C}
        hasher = SIH(**params, random_state=seed)
        seconds = timed(lambda hasher=hasher: hasher.fit(X, y))
        scores = leave_one_out(hasher.transform(X_test), y_test)
        rows.append((scores.mAP, scores.precision[2]))
        print(f"seed {seed}: {scores.mAP:.4f}, {scores.precision[2]:.4f}, {seconds:.1f} s", flush=True)
    mAP, precision = np.array(rows).T
    print(
        f"{args.data}, {args.anchors} {args.how} anchors, width {width}, C {args.C:g}, {args.seeds} seeds: "
        f"mAP {mAP.mean():.4f} ± {mAP.std():.4f}, "
        f"precision at 2 {precision.mean():.4f} ± {precision.std():.4f}"
    )


if __name__ == "__main__":
    main()
