"""The life of a collection of one to ten million items on one machine, beside FAISS.

``python -m benchmarks.millions`` makes vectors with the class structure of real ones: each is a point between
two training vectors of one class of Tiny-ImageNet-200, projected to 128 principal components, with noise. The
commands of a user run as processes, one after the other; then 1,000 queries, made from test vectors alike,
search the database. At the smallest size FAISS' flat binary index searches the same codes, and its HNSW the
float vectors, one thread for a query everywhere. Records, with seconds by the clock and of the processor, and
a plot go to ``--out``; what is recorded there is not run again. Ten million vectors take 20 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.data import load
from benchmarks.end_to_end import run
from threadpoolctl import threadpool_limits

from sihash import Database
from sihash._typing import Array
from sihash.research.records import Records
from sihash.research.runner import timed

WIDTH, BITS, N_QUERIES, K = 128, 64, 1000, 10
NOISE = 0.3  # of the standard deviation of a component
STEP = 50_000  # rows made at a time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--out", type=Path, default=Path("sihash-millions"))
    parser.add_argument("--no-hnsw", action="store_true", help="its graph takes minutes to build")
    parser.add_argument(
        "--ask", type=Path, help=argparse.SUPPRESS
    )  # what a process that searches is called with
    args = parser.parse_args()
    if args.ask:
        print(json.dumps(ask(args.ask)))
        return
    records = Records(args.out / "records.jsonl")
    for n in args.rows:
        key = {"kind": "millions", "n": n}
        if key not in records:
            with tempfile.TemporaryDirectory(dir=args.out.parent) as folder:
                result, seconds = timed(lambda n=n, folder=folder: life(Path(folder), n, args))  # type: ignore[misc]
            records.add(key, result, seconds["wall"])
        print(f"{n:,} items: {json.dumps(records[key]['result'])}", flush=True)
    plot({n: records[{"kind": "millions", "n": n}]["result"] for n in args.rows}, args.out / "millions.png")


class Source:
    """Tiny-ImageNet-200 in 128 principal components, and as many rows like it as one wants."""

    def __init__(self) -> None:
        data = load("tiny-imagenet")
        mean = data.X_train.mean(axis=0)
        Z = data.X_train - mean
        components = np.linalg.eigh(Z.T @ Z)[1][:, : -WIDTH - 1 : -1].astype(np.float32)
        self.X, self.y = Z @ components, np.asarray(data.y_train)
        self.tests, self.asked = (data.X_test - mean) @ components, np.asarray(data.y_test)
        self.noise = NOISE * self.X.std(axis=0)
        self.by_class = [np.flatnonzero(self.y == c) for c in range(self.y.max() + 1)]

    def rows(self, n: int, seed: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(seed)
        one = rng.integers(0, len(self.X), n)
        sizes = np.array([len(own) for own in self.by_class])[self.y[one]]
        other = np.array(
            [self.by_class[c][k] for c, k in zip(self.y[one], rng.integers(0, sizes), strict=True)]
        )
        share = 0.5 * rng.random((n, 1), dtype=np.float32)
        X = self.X[one] + share * (self.X[other] - self.X[one])
        return X + self.noise * rng.standard_normal((n, WIDTH), dtype=np.float32), self.y[one]

    def queries(self) -> tuple[Array, Array]:
        rng = np.random.default_rng(1)
        some = rng.permutation(len(self.tests))[:N_QUERIES]
        noise = self.noise * rng.standard_normal((N_QUERIES, WIDTH), dtype=np.float32)
        return self.tests[some] + noise, self.asked[some]

    def write(self, path: Path, n: int, seed: int) -> None:
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, WIDTH))
        y = np.empty(n, dtype=np.int64)
        for start in range(0, n, STEP):
            part = slice(start, min(start + STEP, n))
            X[part], y[part] = self.rows(part.stop - start, seed + start)
        X.flush()
        np.save(path.with_name(f"{path.stem}_labels.npy"), y)


def life(folder: Path, n: int, args: argparse.Namespace) -> dict[str, Any]:
    """Seconds, gigabytes of memory (without mapped files) and of disk, and how well and fast it answers."""
    source = Source()
    source.write(folder / "all.npy", n, 10)
    source.write(folder / "more.npy", n // 100, 10**9)
    np.savez(folder / "queries.npz", X=source.queries()[0], y=source.queries()[1])
    database, found = folder / "db", {}
    for name, arguments in {
        "create": ("create", database, folder / "all.npy", "--bits", BITS),
        "add 1 %": ("add", database, folder / "more.npy"),
        "update": ("update", database),
        "remove a class": ("remove", database, "--class", 7),
        "update after it": ("update", database),
    }.items():
        before = processor_seconds()
        seconds, memory = run(*arguments)
        found[name] = {"seconds": seconds, "processor": processor_seconds() - before, "memory": memory}
        told = f"{seconds:.1f} s, {found[name]['processor']:.1f} of the processor, {memory:.2f} GB"
        print(f"{n:,}: {name} {told}", flush=True)
    found["disk"] = sum(path.stat().st_size for path in database.rglob("*") if path.is_file()) / 2**30
    found["vectors"] = (folder / "all.npy").stat().st_size / 2**30
    command = [sys.executable, "-m", "benchmarks.millions", "--ask", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found["search"] = json.loads(done.stdout.splitlines()[-1])
    if n == min(args.rows):
        found |= beside_faiss(folder, args.no_hnsw)
    return found


def processor_seconds() -> float:
    """Of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ask(folder: Path) -> dict[str, float]:
    """Open a database and search it, in a process of its own: one query after the other, by one thread."""
    queries = np.load(folder / "queries.npz")
    started = time.perf_counter()
    with Database(folder / "db") as database:
        database.search(queries["X"][:1], k=K)
        opened = time.perf_counter() - started
        found = answered(lambda q: [int(h.label) for h in database.search(q, k=K)[0].hits], queries)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"first answer": opened, "memory with mapped files": peak, **found}


def answered(labels: Any, queries: Any) -> dict[str, float]:
    """P@1, P@10 and the median milliseconds of a query (of the processor, as others may use it too).

    ``labels`` gives those of the ten best hits.
    """
    hits, times = [], []
    with threadpool_limits(1):
        for query in queries["X"]:
            started = time.process_time()
            hits.append(labels(query[None]))
            times.append(time.process_time() - started)
    right = np.array(hits) == queries["y"][:, None]
    return {"ms": 1000 * float(np.median(times)), "p_at_1": right[:, 0].mean(), "p_at_10": right.mean()}


def beside_faiss(folder: Path, no_hnsw: bool) -> dict[str, Any]:
    """The codes in a flat binary index, the float vectors in HNSW: seconds to build, bytes, answers."""
    import faiss

    X, y = np.load(folder / "all.npy", mmap_mode="r"), np.load(folder / "all_labels.npy")
    queries = np.load(folder / "queries.npz")
    found: dict[str, Any] = {}
    with Database(folder / "db") as database:
        hasher = database._read(lambda snapshot: snapshot.hasher)
        codes = np.concatenate(
            [hasher.transform(X[start : start + STEP]) for start in range(0, len(X), STEP)]
        )
        flat = faiss.IndexBinaryFlat(BITS)
        _, seconds = timed(lambda: flat.add(codes))
        binary = answered(lambda q: y[flat.search(hasher.transform(q), K)[1][0]], queries)
    found["faiss, flat binary"] = {"seconds": seconds["wall"], "bytes": BITS // 8, **binary}
    if no_hnsw:
        return found
    hnsw = faiss.IndexHNSWFlat(WIDTH, 32, faiss.METRIC_INNER_PRODUCT)
    hnsw.hnsw.efSearch = 64

    def unit(Z: Array) -> Array:
        return np.ascontiguousarray(Z / np.linalg.norm(Z, axis=1, keepdims=True))

    def build() -> None:
        for start in range(0, len(X), STEP):
            hnsw.add(unit(X[start : start + STEP]))

    _, seconds = timed(build)
    own = answered(lambda q: y[hnsw.search(unit(q), K)[1][0]], queries)
    size = 4 * WIDTH + 4 * 2 * 32  # the vector, and 64 links on the lowest level
    return found | {"faiss, HNSW of floats": {"seconds": seconds["wall"], "bytes": size, **own}}


def plot(found: dict[int, dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    sizes = sorted(found)
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axes = figure.subplots(1, 3)
    for name, style in zip(("create", "add 1 %", "update", "remove a class"), "os^D", strict=True):
        seconds = [found[n][name]["processor"] for n in sizes]
        axes[0].plot(sizes, seconds, marker=style, label=name)
    axes[0].set(ylabel="seconds of the processor", title="a command", yscale="log")
    for name, style in zip(("create", "update"), "o^", strict=True):
        axes[1].plot(sizes, [found[n][name]["memory"] for n in sizes], marker=style, label=f"memory, {name}")
    axes[1].plot(sizes, [found[n]["disk"] for n in sizes], "s--", label="disk, database")
    axes[1].plot(sizes, [found[n]["vectors"] for n in sizes], "k:", label="disk, vectors alone")
    axes[1].set(ylabel="GB", title="memory and disk", yscale="log")
    axes[2].plot(sizes, [found[n]["search"]["ms"] for n in sizes], "o-", label="sihash search")
    for name, style in zip(("faiss, flat binary", "faiss, HNSW of floats"), "sv", strict=True):
        there = [n for n in sizes if name in found[n]]
        times = [found[n][name]["ms"] for n in there]
        if there:
            axes[2].plot(there, times, style, label=name.replace("faiss", "FAISS"))
    axes[2].set(ylabel="milliseconds", title="a query, one thread", yscale="log")
    for ax in axes:
        ax.set(xlabel="items", xscale="log")
        ax.margins(y=0.3)  # room for the legend
        ax.set_xticks(sizes, [f"{n / 1e6:g} million" for n in sizes], minor=False)
        ax.set_xticks([], minor=True)
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
    print(f"plotted to {path}")


if __name__ == "__main__":
    main()
