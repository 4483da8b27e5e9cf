"""SIH as a whole: fit beside SDH, peak memory, mAP beside a certified solve.

``python -m benchmarks.sih speed`` sets `SIH.fit` beside `SDH.fit` from the same rows, anchors and width, in
turns. ``memory`` reports the peak memory of a fit beside Φ, ``certified`` mAP of the defaults beside that of
OCAS certified to 1 % on the same codes. Only ratios within one run mean anything.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

import numpy as np
from benchmarks.data import N_BITS, NAMES, load
from benchmarks.timing import timed

from sihash import SIH, codes
from sihash._typing import Array
from sihash.evaluation import leave_one_out
from sihash.research.baselines import SDH
from sihash.svm import solve_binary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["speed", "memory", "certified", "peak"])
    parser.add_argument("--data", default="cifar10", choices=NAMES)
    parser.add_argument("--anchors", type=int, default=1000)
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
    elif args.what == "certified":
        certified(X, y, data.X_test, data.y_test, args)
    else:
        peak(X, y, args)


def speed(X: Array, y: Array, args: argparse.Namespace) -> None:
    width = 0.8 if args.width == "auto" else float(args.width)
    anchors = X[np.random.RandomState(0).permutation(len(X))[: args.anchors]]
    common = {"n_bits": 32, "anchors": anchors, "kernel_width": width, "random_state": 0}
    SIH(C_x=args.C, **common).fit(X, y)  # compiled kernels are loaded outside the timer
    SDH(**common).fit(X[::50], y[::50])
    ratios = []
    for _ in range(args.seeds):
        sdh = timed(lambda: SDH(**common).fit(X, y))
        hasher = SIH(C_x=args.C, **common)
        sih = timed(lambda hasher=hasher: hasher.fit(X, y))
        ratios.append(sih / sdh)
        print(f"SDH {sdh:.2f} s, SIH {sih:.2f} s; {hasher.report_}", flush=True)
    print(f"SIH / SDH: {np.median(ratios):.2f}")


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


def certified(X: Array, y: Array, X_test: Array, y_test: Array, args: argparse.Namespace) -> None:
    """The weights of the defaults, and those of OCAS from there to a proved gap of 1 %, on the test rows."""
    differences = []
    for seed in range(args.seeds):
        hasher = SIH(n_bits=N_BITS.get(args.data, 32), n_anchors=args.anchors, C_x=args.C, random_state=seed)
        hasher.fit(X, y)
        Phi, Y = hasher.kernel_(X), hasher.codes_
        start = solve_binary(Phi, Y, args.C, tol=0.5)
        tight = solve_binary(Phi, Y, args.C, tol=0.01, method="ocas", warm=start.warm)
        ours = leave_one_out(hasher.transform(X_test), y_test).mAP
        bits = codes.pack(codes.sign(hasher.kernel_(X_test) @ tight.W.T.astype(np.float32)))
        theirs = leave_one_out(bits, y_test).mAP
        excess = hasher.objective_.binary / tight.upper.sum() - 1
        differences.append(ours - theirs)
        print(
            f"seed {seed}: {hasher.report_.n_steps:.1f} steps, {100 * excess:.2f} % above OCAS "
            f"({tight.n_steps.mean():.0f} steps); mAP {ours:.4f}, certified {theirs:.4f}",
            flush=True,
        )
    print(f"{args.data}: mAP {np.mean(differences):+.4f} against a solve certified to 1 %")


if __name__ == "__main__":
    main()
