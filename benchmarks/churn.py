"""Many small additions and many versions, beside the same collection made at once, and after a compaction.

    python -m benchmarks.churn [--items 1000] [--versions 20] [--width 64]

The promised sizes are ``--items 10000 --versions 1000``: some minutes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sihash.database import ImageDatabase

CLASSES = 10
FIRST = 500  # items at the creation
PARAMS = {"n_bits": 32, "n_anchors": 50, "kernel_width": 1.0, "index": "exact"}


def rows(n: int, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of `CLASSES` classes, and their labels."""
    rng = np.random.RandomState(seed)
    centres = np.random.RandomState(0).normal(size=(CLASSES, width))
    y = np.arange(n) % CLASSES
    return (centres[y] + rng.normal(size=(n, width))).astype(np.float32), y


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def opened(path: Path, query: np.ndarray) -> float:
    """Seconds to open a database and search once; the best of five."""

    def once() -> None:
        with ImageDatabase(path) as db:
            db.search(query, k=5)

    return min(seconds(once) for _ in range(5))


def n_files(path: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(path))


def tenths(name: str, taken: list[float]) -> None:
    """The mean of the first tenth, and of the last one beside it."""
    n = max(1, len(taken) // 10)
    first, last = np.mean(taken[:n]), np.mean(taken[-n:])
    print(f"{name}: {1e3 * first:.1f} ms at first, {1e3 * last:.1f} ms at last, {last / first:.2f} times")


def run(n_items: int, n_versions: int, width: int) -> None:
    (X, y), (first_X, first_y) = rows(n_items, width, 1), rows(FIRST, width, 2)
    query = rows(1, width, 3)[0]
    with tempfile.TemporaryDirectory() as folder:
        path, once = Path(folder) / "churned", Path(folder) / "once"
        adds, updates = [], []
        every = max(1, n_items // max(1, n_versions))
        with ImageDatabase.create(path, first_X, first_y, **PARAMS) as db:
            for k in range(n_items):
                adds.append(seconds(lambda k=k: db.add(X[k : k + 1], y[k : k + 1])))
                if k % every == every - 1 and len(updates) < n_versions:
                    updates.append(seconds(db.update))
        tenths(f"{n_items} one-item additions", adds)
        if updates:
            tenths(f"{len(updates)} updates", updates)
        churned = opened(path, query)
        print(f"files: {n_files(path)}")
        ImageDatabase.create(
            once, np.concatenate([first_X, X]), np.concatenate([first_y, y]), **PARAMS
        ).close()
        at_once = opened(once, query)
        with ImageDatabase(path) as db:
            db.compact()
        compact = opened(path, query)
        print(
            f"open and search: {1e3 * churned:.1f} ms; compacted {1e3 * compact:.1f} ms "
            f"({churned / compact:.2f} times); made at once {1e3 * at_once:.1f} ms "
            f"({churned / at_once:.2f} times)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--versions", type=int, default=20)
    parser.add_argument("--width", type=int, default=64)
    given = parser.parse_args()
    run(given.items, given.versions, given.width)


if __name__ == "__main__":
    main()
