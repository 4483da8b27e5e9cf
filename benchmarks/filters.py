"""Searches that columns restrict, beside the same searches over everything, in one run.

``python -m benchmarks.filters`` makes a database of 100,000 vectors with three columns, and asks 200 queries
one by one, with conditions that leave a hundredth, a tenth, a half and nearly all of the items. ``new`` are
conditions that were never asked before, ``again`` the same one for every query. Only ratios mean anything.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

from sihash import Database
from sihash._typing import Array

N_CLASSES, WIDTH, N_QUERIES, K = 20, 64, 200, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--removed", type=float, default=0.0, help="share of the items removed before")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    with TemporaryDirectory() as folder, threadpool_limits(1):
        database, queries = made(Path(folder) / "db", args.items)
        if args.removed:
            some = np.random.default_rng(1).random(args.items) < args.removed
            database.remove([f"item-{k}" for k in np.flatnonzero(some)])
        print(f"{len(database):,} items, {N_QUERIES} queries one by one; times of the unfiltered search")
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
            seconds = best_of(args.repeats, database, queries, list(asked.values()))
            plain = seconds[0]
            words = ", ".join(f"{name} {s / plain:.2f}" for name, s in zip(asked, seconds, strict=True))
            print(f"{share:>5.0%} of the items: {words} (unfiltered {1e6 * plain / N_QUERIES:.0f} µs)")


def made(path: Path, n: int) -> tuple[Database, Array]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(N_CLASSES, WIDTH))
    y = rng.integers(0, N_CLASSES, n)
    X = (centres[y] + 0.8 * rng.normal(size=(n, WIDTH))).astype(np.float32)
    days = np.datetime64("2020-01-01") + rng.integers(0, 2000, n)
    columns = {
        "price": rng.integers(0, 1_000_000, n),
        "day": [str(day) for day in days],
        "shop": [f"shop {k}" for k in rng.integers(0, 50, n)],
    }
    database = Database.create(
        path, X, y, ids=[f"item-{k}" for k in range(n)], columns=columns, training_rows=2000, n_anchors=200
    )
    queries = centres[rng.integers(0, N_CLASSES, N_QUERIES)] + 0.8 * rng.normal(size=(N_QUERIES, WIDTH))
    return database, queries.astype(np.float32)


def best_of(
    repeats: int, database: Database, queries: Array, asked: list[Callable[[], str | None]]
) -> list[float]:
    """Least seconds of all queries for each kind of condition, run in turns."""

    def once(where: Callable[[], str | None]) -> float:
        texts = [where() for _ in queries]
        start = perf_counter()
        for query, text in zip(queries, texts, strict=True):
            database.search(query, k=K, where=text)
        return perf_counter() - start

    for where in asked:
        once(where)
    return [min(times) for times in zip(*[[once(w) for w in asked] for _ in range(repeats)], strict=True)]


if __name__ == "__main__":
    main()
