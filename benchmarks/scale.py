"""Training past the memory of one machine: on disk, on Dask, and how a step grows with the rows.

``python -m benchmarks.scale disk`` runs a fit with Φ in scratch files in a process that may take 3 GB of
memory, and sets steps on disk beside steps in memory, in turns. ``dask`` sets a fit on a Dask cluster of
one worker beside a local one, in turns, and weighs its messages for two numbers of rows. ``growth``
measures the cost of a step from 50,000 to 1,000,000 rows, in seconds of the processor. Data are made: ten
overlapping classes. Only ratios within one run mean anything.
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from typing import Any

import numpy as np

from sihash import SIH
from sihash._typing import Array
from sihash.engines import open_engine
from sihash.engines.dask_actors import DaskActors
from sihash.hashing.words import first_words
from sihash.kernel import KernelMap, normalise
from sihash.svm import smooth
from sihash.svm.binary import make_svms
from sihash.threads import team

N_BITS, N_CLASSES, WIDTH, C = 32, 10, 0.8, 32.0
LIMIT = 3 << 30  # bytes of memory that a process with Φ on disk may take


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["disk", "dask", "growth", "limited"])
    parser.add_argument("--rows", type=int, default=0, help="default: 1,000,000 (disk), 50,000 (dask)")
    parser.add_argument("--anchors", type=int, default=1000)
    parser.add_argument("--features", type=int, default=64, help="dimensions of the vectors")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tol", type=float, default=SIH().tol)
    args = parser.parse_args()
    {"disk": disk, "dask": dask, "growth": growth, "limited": limited}[args.what](args)


def made_rows(n: int, d: int) -> tuple[Array, Array]:
    """Ten overlapping classes, each of several clusters."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(N_CLASSES, 20, d)).astype(np.float32) * 0.25
    y = rng.integers(0, N_CLASSES, n)
    X = centres[y, rng.integers(0, 20, n)]
    for part in np.array_split(X, max(1, n // 10_000)):
        part += 0.5 * rng.standard_normal(part.shape, dtype=np.float32)
    return X, y


def hasher(engine: str | None, args: argparse.Namespace) -> SIH:
    return SIH(
        N_BITS,
        args.anchors,
        anchors="random",
        kernel_width=WIDTH,
        C_x=C,
        tol=args.tol,
        training_rows="all",
        random_state=0,
        engine=engine,
    )


# Out of core.


def disk(args: argparse.Namespace) -> None:
    n = args.rows or 1_000_000
    phi = n * (args.anchors + 1) * 4 / 2**30
    command = [sys.executable, "-m", "benchmarks.scale", "limited", f"--rows={n}"]
    command += [f"--anchors={args.anchors}", f"--features={args.features}", f"--tol={args.tol}"]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip(), flush=True)
    X, y = made_rows(n, args.features)
    kernel = made_kernel(X, args.anchors)
    with team(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [start(open_engine(engine), kernel, X, y) for engine in ("local", "disk")]
        pairs = []
        for _ in range(args.repeats + 1):
            pairs.append([clocked(run) for run in runs])
            print(f"a step in memory {pairs[-1][0][0]:.2f} s, on disk {pairs[-1][1][0]:.2f} s", flush=True)
    (local, local_processor), (mapped, mapped_processor) = np.array(pairs[1:]).transpose(1, 2, 0)
    print(
        f"{n:,} × {args.anchors:,} × {N_BITS}, Φ {phi:.1f} GB: a step on disk / in memory "
        f"{np.median(mapped / local):.2f} (median of pairs), {mapped.min() / local.min():.2f} (fastest), "
        f"{np.median(mapped_processor / local_processor):.2f} in seconds of the processor"
    )


def limited(args: argparse.Namespace) -> None:
    """A fit on disk in a process that may take 3 GB, and what it took."""
    X, y = made_rows(args.rows, args.features)
    hasher("disk", args).set_params(n_anchors=20).fit(X[:2000], y[:2000])
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    report = hasher("disk", args).fit(X, y).report_
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{report}; peak of a process limited to 3 GB: {peak:.2f} GB, mapped pages included")


# Dask.


def dask(args: argparse.Namespace) -> None:
    from distributed import Client, LocalCluster

    n = args.rows or 50_000
    threads = os.cpu_count() or 1
    cluster = LocalCluster(n_workers=1, threads_per_worker=threads, dashboard_address=":0")
    with cluster, Client(cluster):
        X, y = made_rows(n, args.features)
        for engine in (None, "dask"):  # kernels are loaded outside the timer
            hasher(engine, args).set_params(n_anchors=20).fit(X[:30_000], y[:30_000])
        runs: dict[str | None, list[Any]] = {None: [], "dask": []}
        for _ in range(args.repeats):
            for engine, reports in runs.items():
                reports.append(hasher(engine, args).fit(X, y).report_)
                print(f"{engine or 'local'} {reports[-1]}", flush=True)
        # The fastest of each, as what others run on the machine only adds.
        step, fit = (
            min(map(seconds, runs["dask"])) / min(map(seconds, runs[None])) for seconds in (cost, total)
        )
        print(f"{n:,} × {args.anchors:,} × {N_BITS}, one worker / local: a step {step:.2f}, a fit {fit:.2f}")
        half, whole = (weighed(X[:rows], y[:rows], args) for rows in (n // 2, n))
        for name in sorted(half.keys() & whole.keys(), key=lambda name: -max(whole[name])):
            print(
                f"{name:>12}: {max(half[name]) / 2**20:.3f} MB a message with {n // 2:,} rows "
                f"({len(half[name])} of them), {max(whole[name]) / 2**20:.3f} with {n:,} ({len(whole[name])})"
            )


def cost(report: Any) -> float:
    """Seconds of the binary SVMs, a step."""
    return report.seconds["binary SVMs"] / sum(r.n_steps.max() for r in report.rounds)


def total(report: Any) -> float:
    return float(report.total_seconds)


def weighed(X: Array, y: Array, args: argparse.Namespace) -> dict[str, list[int]]:
    """Bytes of the messages of a fit and their answers, as they are serialised, by what is asked."""
    call = DaskActors.call
    sent: dict[str, list[int]] = defaultdict(list)

    def weigh(crew: Any, places: list[int], method: str, calls: Any) -> Any:
        answers = call(crew, places, method, calls)
        if method == "run":
            _, function, own, *_ = calls[0]
            asked = next((each for each in own if callable(each)), function)
            sent[asked.__name__].append(len(pickle.dumps(calls, 5)) + len(pickle.dumps(answers, 5)))
        return answers

    DaskActors.call = weigh  # type: ignore[method-assign]
    try:
        hasher("dask", args).fit(X, y)
    finally:
        DaskActors.call = call  # type: ignore[method-assign]
    return sent


# Growth.


def growth(args: argparse.Namespace) -> None:
    sizes = [50_000, 100_000, 200_000, 400_000, 1_000_000]
    X, y = made_rows(sizes[-1], args.features)
    kernel = made_kernel(X, args.anchors)
    seconds = []
    for n in sizes:
        with team():
            run = start(open_engine("local"), kernel, X[:n], y[:n])
            # Seconds of the processor: the clock would count what others run here.
            seconds.append(min([clocked(run)[1] for _ in range(args.repeats + 1)][1:]))
        print(f"{n:,} rows: {seconds[-1]:.3f} s of the processor a step", flush=True)
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"{args.anchors:,} anchors, {N_BITS} bits: slope of log-log {slope:.3f}")


def made_kernel(X: Array, n_anchors: int) -> KernelMap:
    mean = X.mean(axis=0, dtype=np.float64)
    return KernelMap(mean, normalise(X[:: len(X) // n_anchors][:n_anchors], mean), WIDTH)


def start(engine: Any, kernel: KernelMap, X: Array, y: Array) -> Any:
    """A solve of all bits that has not taken a step yet."""
    words = first_words("separated", N_BITS, np.bincount(y), True, np.random.RandomState(0))
    columns = {"X": X, "y": y, "pair": y.astype(np.int32), "key": np.arange(len(y))}
    return make_svms(engine.lay_out(kernel, columns, words), C, "smooth")


def clocked(svms: Any) -> tuple[float, float]:
    """Seconds of one step, by the clock and of the processor (all threads). The first makes the Hessian."""
    before = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one step is not enough, and is not meant to be
        smooth.solve(svms, 1e-6, max_steps=1)
    return time.perf_counter() - before[0], time.process_time() - before[1]


if __name__ == "__main__":
    main()
