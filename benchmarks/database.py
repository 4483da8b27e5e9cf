"""The image database beside the work it is made of: ``python -m benchmarks.database [query create …]``.

- ``query``: one vector against many items; what is ours is the time beyond encoding it and asking the index.
- ``create``: a database from CIFAR-10 GIST vectors, against `SIH.fit` and encoding alone.
- ``encode``: a million 512-d vectors to codes, against the matrix products of that alone.
- ``add``: 1,000 images to a database of 100,000, against the features and codes of these images alone.
- ``filters``: searches restricted by columns, against the same searches over everything.
- ``million``: a million 512-d vectors from an ``.npy`` file: created, searched, updated; seconds and memory.

Times are medians of several runs taken by turns with what they are compared with; only ratios mean anything.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.timing import timed
from threadpoolctl import threadpool_limits

from sihash import SIH
from sihash._typing import Array
from sihash.codes import pack, sign
from sihash.database import Database
from sihash.features import extract
from sihash.index import open_index
from sihash.kernel import row_blocks
from sihash.research import data as research_data
from sihash.threads import map_threads

PARAMS: dict[str, Any] = {"n_bits": 64, "n_anchors": 1000, "kernel_width": 0.8, "random_state": 0}


def made_vectors(n: int, d: int = 512, n_classes: int = 10, seed: int = 0) -> tuple[Array, Array]:
    """Rows around class centres, as float32."""
    centres = np.random.default_rng(99).standard_normal((20, d), dtype=np.float32)
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    X = rng.standard_normal((n, d), dtype=np.float32)
    return 2 * X + centres[y], y


def query(folder: Path, args: argparse.Namespace) -> None:
    """Single queries, different ones, each timed on its own; the index alone is asked the same codes."""
    X, y = made_vectors(args.items)
    db = Database.create(folder / "query", X, y, training_rows=3000, **PARAMS)
    hasher = SIH.load(next((folder / "query" / "models").glob("*.hash-*")))
    index = open_index("exact", PARAMS["n_bits"])
    index.add(
        np.arange(len(X)),
        np.concatenate([hasher.transform(X[k : k + 50_000]) for k in range(0, len(X), 50_000)]),
    )
    Q = made_vectors(500, seed=1)[0]

    def bare(row: Array) -> object:
        margins = hasher.kernel_(row) @ hasher.bit_coef_.T
        return index.search(pack(sign(margins)), 10)

    ours, alone = by_turns(
        lambda k: db.search(Q[k : k + 1], rank="hamming"), lambda k: bare(Q[k : k + 1]), len(Q)
    )
    print(
        f"query, {len(X):,} items: {1e6 * ours:.0f} µs, code and index alone {1e6 * alone:.0f} µs: ", end=""
    )
    print(f"{1e6 * (ours - alone):.0f} µs are ours")


def by_turns(first: Callable[[int], object], second: Callable[[int], object], n: int) -> tuple[float, float]:
    """Median seconds of two things done one after the other, ``n`` times."""
    times = np.array([[timed(lambda k=k: first(k)), timed(lambda k=k: second(k))] for k in range(n)])
    a, b = np.median(times, axis=0)
    return float(a), float(b)


def create(folder: Path, args: argparse.Namespace) -> None:
    """All parameters at their defaults, as a newcomer would have it."""
    data = research_data.load("cifar10", "gist")
    X, y = np.ascontiguousarray(data.X_train), np.asarray(data.y_train)
    shares = []
    for repeat in range(args.repeats + 1):
        place = folder / f"create{repeat}"
        seconds = timed(lambda place=place: Database.create(place, X, y).close())
        start = time.perf_counter()
        SIH(random_state=0).fit(X, y).transform(X)
        alone = time.perf_counter() - start
        if repeat:  # the first loads compiled code
            shares.append(seconds / alone)
            print(f"create, {len(X):,} vectors: {seconds:.1f} s, fit and encoding alone {alone:.1f} s")
    print(f"create: {np.median(shares):.2f} times fit and encoding")


def encode(folder: Path, args: argparse.Namespace) -> None:
    """The products with anchors and weights, in the blocks and threads that encoding uses."""
    X, y = made_vectors(args.rows)
    hasher = SIH(**PARAMS).fit(X[:20_000], y[:20_000])
    anchors = np.ascontiguousarray(hasher.kernel_.anchors.T, dtype=np.float32)
    weights = np.ascontiguousarray(hasher.bit_coef_[:, : anchors.shape[1]].T, dtype=np.float32)
    blocks = list(row_blocks(len(X)))
    shares = []
    for _ in range(args.repeats):
        alone = timed(lambda: map_threads(lambda rows: (X[rows] @ anchors) @ weights, blocks))
        seconds = timed(lambda: hasher.transform(X))
        shares.append(alone / seconds)
        print(f"encode {len(X):,} vectors: {seconds:.1f} s, products alone {alone:.1f} s")
    print(f"encode: at {np.median(shares):.2f} of the rate of its products")


def add(folder: Path, args: argparse.Namespace) -> None:
    data = research_data.load("cifar10")
    images = np.concatenate([data.X_train, data.X_test, 255 - data.X_train])[: args.items_add]
    numbers = np.concatenate([data.y_train, data.y_test, data.y_train])[: args.items_add]
    rng = np.random.RandomState(0)
    db = Database.create(folder / "add", list(images), numbers, training_rows=3000, **PARAMS)
    hasher = SIH.load(next((folder / "add" / "models").glob("*.hash-*")))
    shares = []
    for repeat in range(args.repeats + 1):
        new = rng.randint(0, 255, (1000, 32, 32, 3)).astype(np.uint8)
        seconds = timed(lambda: db.add(list(new), [3] * 1000))  # noqa: B023
        alone = timed(lambda: hasher.transform(extract(new, "gist")))  # noqa: B023
        if repeat:
            shares.append(seconds / alone)
            print(
                f"add 1,000 images to {len(db) - 1000:,}: {seconds:.2f} s, features and codes {alone:.2f} s"
            )
    print(f"add: {np.median(shares):.2f} times features and codes")


def million(folder: Path, args: argparse.Namespace) -> None:
    peak, n, step = Peak(), args.rows, 50_000
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float32, shape=(n, 512))
    y = np.empty(n, dtype=np.int64)
    for start in range(0, n, step):
        X[start : start + step], y[start : start + step] = made_vectors(min(step, n - start), seed=start + 7)
    X.flush()
    del X
    np.save(folder / "X_labels.npy", y)
    peak("before")
    start_time = time.perf_counter()
    db = Database.create(folder / "million", folder / "X.npy", training_rows=args.training_rows, **PARAMS)
    peak(f"created in {time.perf_counter() - start_time:.0f} s")
    Q = made_vectors(100, seed=1)[0]
    db.search(Q[:1])
    for rank in ("hamming", "combined"):
        seconds = np.median(
            [timed(lambda k=k, rank=rank: db.search(Q[k : k + 1], rank=rank)) for k in range(100)]
        )
        peak(f"{rank} search: {1e3 * seconds:.2f} ms")
    db.add(*made_vectors(10_000, n_classes=11, seed=5))
    start_time = time.perf_counter()
    report = db.update()
    peak(f"updated in {time.perf_counter() - start_time:.0f} s: {report.seconds}")
    start_time = time.perf_counter()
    Database(folder / "million").search(Q[:1])
    peak(f"opened and asked in {time.perf_counter() - start_time:.1f} s")


class Peak:
    """The most memory that this process held at any moment, mapped files left out, by looking often."""

    def __init__(self) -> None:
        self.kilobytes = 0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            status = Path("/proc/self/status").read_text()
            self.kilobytes = max(self.kilobytes, int(status.split("RssAnon:")[1].split()[0]))
            time.sleep(0.02)

    def __call__(self, what: str) -> None:
        print(f"{what}; peak memory {self.kilobytes / 2**20:.2f} GiB", flush=True)


def filters(folder: Path, args: argparse.Namespace) -> None:
    """Searches that columns restrict: ``again`` by one condition, ``new`` by another for each query."""
    with threadpool_limits(1):
        database, queries = shop(folder / "shop", args.items)
        if args.removed:
            some = np.random.default_rng(1).random(args.items) < args.removed
            database.remove([f"item-{k}" for k in np.flatnonzero(some)])
        fresh = count()
        for share in (0.01, 0.1, 0.5, 0.95):
            cut = int(share * 1_000_000)
            asked: dict[str, Callable[[], str | None]] = {
                "none": lambda: None,
                "again": lambda cut=cut: f"price < {cut}",
                "new": lambda cut=cut: f"price < {cut + next(fresh) / 1e6}",
                "new, two columns and text": lambda cut=cut: (
                    f"price < {cut + next(fresh) / 1e6} and day >= '2020-01-01' and shop != 'no such'"
                ),
            }
            seconds = least_seconds(args.repeats, database, queries, list(asked.values()))
            words = ", ".join(f"{name} {s / seconds[0]:.2f}" for name, s in zip(asked, seconds, strict=True))
            print(f"{share:>5.0%} of the items: {words} (unfiltered {1e6 * seconds[0] / 200:.0f} µs)")


def shop(path: Path, n: int) -> tuple[Database, Array]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, 64))
    y = rng.integers(0, 20, n)
    X = (centres[y] + 0.8 * rng.normal(size=(n, 64))).astype(np.float32)
    days = np.datetime64("2020-01-01") + rng.integers(0, 2000, n)
    columns = {
        "price": rng.integers(0, 1_000_000, n),
        "day": [str(day) for day in days],
        "shop": [f"shop {k}" for k in rng.integers(0, 50, n)],
    }
    database = Database.create(
        path, X, y, ids=[f"item-{k}" for k in range(n)], columns=columns, training_rows=2000, n_anchors=200
    )
    queries = centres[rng.integers(0, 20, 200)] + 0.8 * rng.normal(size=(200, 64))
    return database, queries.astype(np.float32)


def least_seconds(
    repeats: int, database: Database, queries: Array, asked: list[Callable[[], str | None]]
) -> list[float]:
    """Least seconds of all queries for each kind of condition, run in turns."""

    def once(where: Callable[[], str | None]) -> float:
        texts = [where() for _ in queries]
        start = time.perf_counter()
        for query, text in zip(queries, texts, strict=True):
            database.search(query, k=10, where=text)
        return time.perf_counter() - start

    for where in asked:
        once(where)
    return [min(times) for times in zip(*[[once(w) for w in asked] for _ in range(repeats)], strict=True)]


WORK = {
    "query": query,
    "create": create,
    "encode": encode,
    "add": add,
    "million": million,
    "filters": filters,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=["query", "create", "encode", "add"])
    parser.add_argument("--items", type=int, default=100_000, help="of query and filters")
    parser.add_argument("--items-add", type=int, default=100_000, help="of add")
    parser.add_argument("--removed", type=float, default=0.0, help="share of the items, of filters")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of encode and million")
    parser.add_argument("--training-rows", type=int, default=100_000, help="of million")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", help="where to work; the default is a temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for name in args.what:
            WORK[name](Path(folder), args)


if __name__ == "__main__":
    main()
