"""Whole processes of the command line, on a small database: seconds, and seconds of the processor.

python -m benchmarks.startup
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from sklearn.datasets import load_digits

from sihash import Database


def seconds(*arguments: str) -> tuple[float, float]:
    """Of one process: on the wall, and of the processor."""
    before, start = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "sihash", *arguments], capture_output=True, check=False)
    wall, after = time.perf_counter() - start, os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, busy


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        database, query, more = str(place / "db"), str(place / "q.npy"), str(place / "more.npz")
        Database.create(database, X[:1000], y[:1000], n_anchors=300).close()
        np.save(query, X[1000:1001])
        np.savez(more, X=X[1000:1010], y=y[1000:1010])
        verbs = [
            ("--version",),
            ("info", "nowhere"),
            ("create", "db", "nowhere"),
            ("search", database, "nowhere.npy"),
            ("info", database),
            ("search", database, query),
            ("classify", database, query),
            ("add", database, more),
            ("update", database),  # the first learns, the others have nothing to learn
            ("relabel", database, "3", "4"),
            ("remove", database, "--class", "7"),
            ("undo", database),
            ("evaluate", database),
            ("export", database, str(place / "out.npz")),
            ("verify", database),
            ("doctor", database),
            ("compact", database),
        ]
        for verb in verbs:
            wall, busy = zip(*(seconds(*verb) for _ in range(args.repeats)), strict=True)
            shown = " ".join(Path(part).name for part in verb)
            print(f"{shown:<24} {median(wall):.2f} s, processor {median(busy):.2f} s (first {busy[0]:.2f})")


if __name__ == "__main__":
    main()
