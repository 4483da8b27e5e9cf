"""Training past the memory of one machine: on disk, on Dask, and how a step grows with the rows.

``python -m benchmarks.scale disk`` sets a fit with Φ in scratch files, in a process that may take 3 GB of
memory, beside one in memory. ``dask`` sets a fit on a Dask cluster of one worker beside a local one, in
turns, and weighs what a step sends for two numbers of rows. ``growth`` measures the cost of a step from
50,000 to 1,000,000 rows, in seconds of the processor. Data are made: ten overlapping classes. Only ratios
within one run mean anything.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

from sihash import SIH
from sihash._typing import Array
from sihash.engines import LocalEngine, open_engine
from sihash.engines.crew import Crew
from sihash.hashing.codebook import make_codebook
from sihash.kernel import KernelMap, normalise
from sihash.svm import smooth
from sihash.svm.binary import make_machines
from sihash.svm.smooth_machines import SmoothMachines
from sihash.threads import team

N_BITS, N_CLASSES, WIDTH, C = 32, 10, 0.8, 32.0
LIMIT = 3 << 30  # bytes of memory that a process with Φ on disk may take


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["disk", "dask", "growth", "one"])
    parser.add_argument("--rows", type=int, default=0, help="default: 1,000,000 (disk), 50,000 (dask)")
    parser.add_argument("--anchors", type=int, default=1000)
    parser.add_argument("--features", type=int, default=64, help="dimensions of the vectors")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engine", default="local", help="of a single fit (one)")
    args = parser.parse_args()
    {"disk": disk, "dask": dask, "growth": growth, "one": one}[args.what](args)


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
    return SIH(N_BITS, args.anchors, "random", WIDTH, C_x=C, random_state=0, engine=engine)


# Out of core.


def disk(args: argparse.Namespace) -> None:
    args.rows = args.rows or 1_000_000
    found: dict[str, list[dict[str, float]]] = {"local": [], "disk": []}
    for _ in range(args.repeats):
        for engine in found:
            command = [sys.executable, "-m", "benchmarks.scale", "one", "--engine", engine]
            command += [f"--{name}={getattr(args, name)}" for name in ("rows", "anchors", "features")]
            answer = subprocess.run(command, capture_output=True, text=True, check=True)
            found[engine].append(json.loads(answer.stdout))
            print(engine, answer.stdout.strip(), flush=True)
    phi = args.rows * (args.anchors + 1) * 4 / 2**30
    for name in ("step", "fit", "processor"):
        ratio = np.median([b[name] / a[name] for a, b in zip(*found.values(), strict=True)])
        print(f"{args.rows:,} × {args.anchors:,}, Φ {phi:.1f} GB: {name} on disk / in memory {ratio:.2f}")
    peak = max(run["peak_gb"] for run in found["disk"])
    print(f"peak memory on disk {peak:.2f} GB (of it its own, limited to 3 GB by the kernel: see above)")


def one(args: argparse.Namespace) -> None:
    """One fit, in a process of its own: seconds, seconds a step, peak memory."""
    X, y = made_rows(args.rows, args.features)
    hasher(args.engine, args).set_params(n_anchors=20).fit(X[:2000], y[:2000])
    if args.engine == "disk":
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    processor = time.process_time()
    report = hasher(args.engine, args).fit(X, y).report_
    processor = time.process_time() - processor
    n_steps = int(sum(r.n_steps.max() for r in report.rounds))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        json.dumps(
            {
                "fit": round(report.total_seconds, 2),
                "processor": round(processor, 2),
                "step": round(report.seconds["binary SVMs"] / max(n_steps, 1), 3),
                "steps": n_steps,
                "gap": round(report.max_gap, 4),
                "peak_gb": round(peak, 2),
            }
        )
    )


# Dask.


def dask(args: argparse.Namespace) -> None:
    from distributed import Client, LocalCluster

    n = args.rows or 50_000
    threads = os.cpu_count() or 1
    cluster = LocalCluster(n_workers=1, threads_per_worker=threads, dashboard_address=None)
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
        for rows in (n // 2, n):
            sent, n_steps = weighed(X[:rows], y[:rows], args)
            print(f"{rows:,} rows: {sent / n_steps / 2**20:.2f} MB a step")


def cost(report: Any) -> float:
    """Seconds of the binary SVMs, a step."""
    return report.seconds["binary SVMs"] / sum(r.n_steps.max() for r in report.rounds)


def total(report: Any) -> float:
    return float(report.total_seconds)


def weighed(X: Array, y: Array, args: argparse.Namespace) -> tuple[int, int]:
    """Bytes of all messages of a fit but those that lay the rows out, as they are serialised; steps."""
    call, sent = Crew.call, 0

    def weigh(crew: Any, places: list[int], method: str, calls: Any) -> Any:
        nonlocal sent
        answers = call(crew, places, method, calls)
        if method == "run":
            sent += len(pickle.dumps(calls, 5)) + len(pickle.dumps(answers, 5))
        return answers

    Crew.call = weigh  # type: ignore[method-assign]
    try:
        report = hasher("dask", args).fit(X, y).report_
    finally:
        Crew.call = call  # type: ignore[method-assign]
    return sent, int(sum(r.n_steps.max() for r in report.rounds))


# Growth.


def growth(args: argparse.Namespace) -> None:
    sizes = [50_000, 100_000, 200_000, 400_000, 1_000_000]
    X, y = made_rows(sizes[-1], args.features)
    mean = X.mean(axis=0, dtype=np.float64)
    anchors = normalise(X[:: len(X) // args.anchors][: args.anchors], mean)
    kernel = KernelMap(mean, anchors, WIDTH)
    seconds = []
    for n in sizes:
        seconds.append(step_seconds(open_engine(args.engine), kernel, X[:n], y[:n], args.repeats))
        print(f"{n:,} rows: {seconds[-1]:.3f} s of the processor a step", flush=True)
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"{args.engine}, {args.anchors:,} anchors, {N_BITS} bits: slope of log-log {slope:.3f}")


def step_seconds(engine: Any, kernel: KernelMap, X: Array, y: Array, repeats: int) -> float:
    """Seconds of the processor (all threads) for the cheapest of some steps of all bits.

    Not of the clock: what others run on the machine would count too.
    """
    assert isinstance(engine, LocalEngine)
    words = make_codebook("separated", N_BITS, np.bincount(y), True, np.random.RandomState(0))
    columns = {"X": X, "y": y, "pair": y.astype(np.int32), "key": np.arange(len(y))}
    with team(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machines = make_machines(engine.lay_out(kernel, columns, 10, words), C, "smooth")
        assert isinstance(machines, SmoothMachines)
        run = smooth._Run(machines, 1e-4)
        taken = []
        for _ in range(repeats + 1):
            start = time.process_time()
            run.step()
            taken.append(time.process_time() - start)
    return min(taken[1:])


if __name__ == "__main__":
    main()
