"""Collections whose items come and go: ``python -m benchmarks.churn additions|rounds``.

- ``additions``: many small additions and many versions, beside the same collection made at once, and after a
  compaction. The promised sizes are ``--items 10000 --versions 1000``: an hour.
- ``rounds``: ten rounds of a tenth removed, a tenth added, an update; what searches find beside brute force,
  how long they take, memory and disk; then a compaction. The promised size is ``--items 100000``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sihash.database import Database

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
    """Processor time: other work on the machine counts less."""
    start = time.process_time()
    work()
    return time.process_time() - start


def opened(path: Path, query: np.ndarray) -> float:
    """Seconds to open a database and search once; the best of five."""

    def once() -> None:
        with Database(path) as db:
            db.search(query, k=5)

    return min(seconds(once) for _ in range(5))


def n_files(path: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(path))


def tenths(name: str, taken: list[float]) -> None:
    """The mean of the first tenth, and of the last one beside it."""
    n = max(1, len(taken) // 10)
    first, last = np.mean(taken[:n]), np.mean(taken[-n:])
    print(f"{name}: {1e3 * first:.1f} ms at first, {1e3 * last:.1f} ms at last, {last / first:.2f} times")


def additions(n_items: int, n_versions: int, width: int) -> None:
    (X, y), (first_X, first_y) = rows(n_items, width, 1), rows(FIRST, width, 2)
    query = rows(1, width, 3)[0]
    with tempfile.TemporaryDirectory() as folder:
        path, once = Path(folder) / "churned", Path(folder) / "once"
        adds, updates = [], []
        every = max(1, n_items // max(1, n_versions))
        with Database.create(path, first_X, first_y, **PARAMS) as db:
            for k in range(n_items):
                adds.append(seconds(lambda k=k: db.add(X[k : k + 1], y[k : k + 1])))
                if k % every == every - 1 and len(updates) < n_versions:
                    updates.append(seconds(db.update))
        tenths(f"{n_items} one-item additions", adds)
        if updates:
            tenths(f"{len(updates)} updates", updates)
        churned = opened(path, query)
        print(f"files: {n_files(path)}")
        Database.create(once, np.concatenate([first_X, X]), np.concatenate([first_y, y]), **PARAMS).close()
        at_once = opened(once, query)
        with Database(path) as db:
            db.compact()
        compact = opened(path, query)
        print(
            f"open and search: {1e3 * churned:.1f} ms; compacted {1e3 * compact:.1f} ms "
            f"({churned / compact:.2f} times); made at once {1e3 * at_once:.1f} ms "
            f"({churned / at_once:.2f} times)"
        )


# Rounds.


def brute_force(X: np.ndarray, ids: np.ndarray, query: np.ndarray, mean: np.ndarray, k: int) -> set[int]:
    """Ids of the k vectors with the largest cosines, both centred."""
    centred, own = X - mean, query - mean
    cosines = centred @ own / np.linalg.norm(centred, axis=1)
    return set(ids[np.argpartition(-cosines, k)[:k]].tolist())


def recalls(db: Database, X: np.ndarray, ids: np.ndarray, Q: np.ndarray, mean: np.ndarray) -> list[float]:
    """Of ten hits, by code and by vector, the share that brute force over all living items finds.

    By code a hit counts if it is no farther than the tenth nearest: which of those at one distance are
    taken is another matter.
    """
    codes = np.frombuffer(b"".join(item.code for item in db.items(limit=len(ids))), np.uint8)
    codes = codes.reshape(len(ids), -1)
    by_code, by_vector = [], []
    for query in Q:
        (answer,) = db.search(query[None], k=10, rank="hamming")
        own = np.frombuffer(answer.query_code, np.uint8)
        tenth = np.sort(np.bitwise_count(codes ^ own).sum(axis=1))[9]
        by_code.append(np.mean([hit.distance <= tenth for hit in answer.hits]))
        (answer,) = db.search(query[None], k=10, rank="vector")
        by_vector.append(len(brute_force(X, ids, query, mean, 10) & {hit.id for hit in answer.hits}) / 10)
    return [float(np.mean(by_code)), float(np.mean(by_vector))]


def search_ms(databases: list[Database], Q: np.ndarray) -> list[float]:
    """Processor time of a search in each, by turns; the median of many."""
    taken: list[list[float]] = [[] for _ in databases]
    for query in np.concatenate([Q] * 4):
        for own, db in zip(taken, databases, strict=True):
            start = time.thread_time()
            db.search(query[None], k=10)
            own.append(time.thread_time() - start)
    return [1e3 * float(np.median(own[len(Q) :])) for own in taken]


def megabytes(path: Path) -> float:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 2**20


def memory(pid: str = "self") -> float:
    """Megabytes that a process holds itself, mapped files left out."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 2**10


SEARCHES = """
import sys
import numpy as np
from sihash.database import Database
db = Database(sys.argv[1])
for seed in range(100):
    db.search(np.random.RandomState(seed).normal(size=(1, int(sys.argv[2]))).astype(np.float32))
print("searched", flush=True)
sys.stdin.readline()
"""


def memory_to_search(path: Path, width: int) -> float:
    """What a process holds that opens a database and searches."""
    command = [sys.executable, "-c", SEARCHES, str(path), str(width)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = memory(str(process.pid))
        process.kill()
    return found


def rounds(n_items: int, n_rounds: int, width: int) -> None:
    """One process that stays. Searches take turns with those in a copy in which nothing ever changed."""
    tenth = n_items // 10
    (X, y), (new_X, new_y) = rows(n_items, width, 1), rows(tenth * n_rounds, width, 2)
    Q, mean, rng = rows(100, width, 3)[0], X.mean(axis=0), np.random.RandomState(0)
    everything = np.concatenate([X, new_X])
    ids = np.arange(n_items)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "db"
        db = Database.create(path, X, y, n_bits=32, training_rows=20_000)
        untouched = Database(shutil.copytree(path, Path(folder) / "untouched"))

        def tell(what: str) -> None:
            taken, first = search_ms([db, untouched], Q)
            by_code, by_vector = recalls(db, everything[ids], ids, Q, mean)
            print(
                f"{what}: {len(db):,} items; recall@10 by code {by_code:.3f}, by vector {by_vector:.3f}; "
                f"search {taken:.2f} ms, {taken / first:.2f} times; memory {memory():.0f} MB, "
                f"to open and search {memory_to_search(path, width):.0f} MB, disk {megabytes(path):.0f} MB",
                flush=True,
            )

        tell("at first")
        for k in range(n_rounds):
            gone = rng.choice(len(ids), tenth, replace=False)
            db.remove(ids[gone].tolist())
            own = slice(k * tenth, (k + 1) * tenth)
            added = db.add(new_X[own], new_y[own]).added
            ids = np.concatenate([np.delete(ids, gone), np.array(added)])
            db.update()
            tell(f"round {k + 1}")
        db.compact()
        tell("compacted")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["additions", "rounds"])
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--versions", type=int, default=20, help="of additions")
    parser.add_argument("--rounds", type=int, default=10, help="of rounds")
    parser.add_argument("--width", type=int, default=64)
    given = parser.parse_args()
    if given.what == "additions":
        additions(given.items, given.versions, given.width)
    else:
        rounds(given.items, given.rounds, given.width)


if __name__ == "__main__":
    main()
