"""Whole processes on large collections: ``sihash create``, ``add``, ``update``, ``remove``, as users do it.

``python -m benchmarks.end_to_end`` makes vectors of a hundred classes, runs the commands one after the other,
each as a process of its own, and prints seconds, peak memory, and the share of ``create``; after ``create``
also what searches take. ``--rows`` says how many; ``--times 10`` does it again for a collection so many times
as large, to see how the cost of an update grows. ``--quality`` also learns from all rows, in this process,
and compares mAP on queries that neither has seen.
Peak memory is that of the process without mapped files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sihash._typing import Array

N_CLASSES, N_QUERIES = 100, 2000
STEP = 50_000  # rows made at a time


def made(n: int, width: int, seed: int) -> tuple[Array, Array]:
    """Vectors around centres of classes, each class with directions of its own in which it spreads."""
    shape = np.random.default_rng(0)
    centres = shape.normal(size=(N_CLASSES, width)).astype(np.float32)
    spread = shape.normal(size=(N_CLASSES, 16, width)).astype(np.float32)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, n)
    X = rng.normal(size=(n, width)).astype(np.float32) * np.float32(1.6)
    for k in range(N_CLASSES):
        own = np.flatnonzero(y == k)
        X[own] += centres[k] + rng.normal(size=(len(own), 16)).astype(np.float32) @ spread[k] * np.float32(
            0.5
        )
    return X, y


def write(path: Path, n: int, width: int, seed: int) -> None:
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, width))
    y = np.empty(n, dtype=np.int64)
    for start in range(0, n, STEP):
        part = slice(start, min(start + STEP, n))
        X[part], y[part] = made(part.stop - start, width, seed + start)
    X.flush()
    np.save(path.with_name(f"{path.stem}_labels.npy"), y)


def run(*arguments: object) -> tuple[float, float]:
    """A command in a process of its own: seconds, and peak memory in GB without mapped files."""
    command = [str(Path(sys.executable).with_name("sihash")), *map(str, arguments)]
    start, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max(peak, int(status.split("RssAnon:")[1].split()[0]))
        except (IndexError, OSError):
            pass
        time.sleep(0.02)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {process.stderr.read().decode()}")  # type: ignore[union-attr]
    return seconds, peak / 2**20


def told(what: str, seconds: float, gigabytes: float, beside: float) -> None:
    print(f"{what:28} {seconds:7.1f} s  {seconds / beside:5.2f} of create  {gigabytes:5.2f} GB", flush=True)


def life(folder: Path, n: int, args: argparse.Namespace) -> float:
    """The commands on ``n`` rows; returns the seconds of the update."""
    write(folder / "all.npy", n, args.width, 1)
    write(folder / "more.npy", n // 100, args.width, 10**9)
    if args.cold:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    create, memory = run("create", folder / "db", folder / "all.npy", "--bits", args.bits)
    print(f"{n:,} × {args.width}, {N_CLASSES} classes, {args.bits} bits")
    told("create", create, memory, create)
    search(folder, create)
    told("add 1 %", *run("add", folder / "db", folder / "more.npy"), create)
    update = run("update", folder / "db")
    told("update", *update, create)
    told("remove --class (1 %)", *run("remove", folder / "db", "--class", 7), create)
    told("update", *run("update", folder / "db"), create)
    return update[0]


def search(folder: Path, create: float) -> None:
    """The first answer of a new process; then, in this one, queries one after the other; bytes."""
    from sihash import Database

    queries, _ = made(N_QUERIES // 4, np.load(folder / "all.npy", mmap_mode="r").shape[1], 10**9 + 1)
    np.save(folder / "query.npy", queries[:1])
    told("a search, new process", *run("search", folder / "db", folder / "query.npy"), create)
    with Database(folder / "db") as db:
        facts, times, used = db.info(), [], []
        db.search(queries)  # pages of sketches are read
        for query in queries:
            start, processor = time.perf_counter(), time.process_time()
            db.search(query[None])
            times.append(time.perf_counter() - start)
            used.append(time.process_time() - processor)
        start = time.perf_counter()
        db.search(queries)
        batch = len(queries) / (time.perf_counter() - start)
    p50, p99, spent = 1e3 * np.array([*np.quantile(times, (0.5, 0.99)), np.median(used)])
    share = facts["bytes"] / (folder / "all.npy").stat().st_size
    print(f"a query: {p50:.2f} ms, 99 % within {p99:.2f}, {spent:.2f} of the processor")
    print(f"in a batch: {batch:,.0f} queries a second")
    print(f"bytes: a search reads {facts['bytes_per_item']} an item; {share:.2f} of the vectors", flush=True)


def quality(folder: Path, n: int, args: argparse.Namespace) -> None:
    """mAP of codes learned from the default sample and from all rows, on queries that neither has seen."""
    from sihash import SIH
    from sihash.evaluation import against_database

    X, y = np.load(folder / "all.npy", mmap_mode="r"), np.load(folder / "all_labels.npy")
    queries, labels = made(N_QUERIES, args.width, 10**9 + 1)
    some = np.random.RandomState(0).permutation(n)[:100_000]
    scores = {}
    for rows in (100_000, "all"):
        hasher = SIH(n_bits=args.bits, training_rows=rows, engine="disk", random_state=0).fit(X, y)
        codes = hasher.transform(queries), hasher.transform(np.asarray(X[np.sort(some)]))
        scores[str(rows)] = against_database(codes[0], labels, codes[1], y[np.sort(some)]).mAP
    print(f"mAP by training rows: {json.dumps(scores)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--cold", action="store_true", help="empty the file cache first (needs root)")
    parser.add_argument("--folder", help="where to work; the default is a temporary folder")
    args = parser.parse_args()
    updates = []
    for n in (args.rows, args.rows * args.times) if args.times > 1 else (args.rows,):
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            updates.append(life(Path(folder), n, args))
            if args.quality:
                quality(Path(folder), n, args)
    if len(updates) > 1:
        print(f"update: {updates[1] / updates[0]:.2f} times the cost at {args.times} times the size")


if __name__ == "__main__":
    main()
