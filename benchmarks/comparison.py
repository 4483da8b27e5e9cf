"""A database of all training rows beside what one would otherwise take, asked with test rows.

``python -m benchmarks.comparison mnist --bits 32`` takes a data set by its name, or an ``.npz`` file with
``X_train``, ``y_train``, ``X_test``, ``y_test``, such as ``$SIHASH_DATA/clinc150/minilm.npz``.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import numpy as np
from benchmarks.data import FEATURES, load

from sihash._typing import Array
from sihash.cli.comparison import comparison_table
from sihash.database import ImageDatabase


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help=f"{' or '.join(sorted(FEATURES))}, or an .npz file")
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--queries", type=int, default=1000)
    args = parser.parse_args()
    X, y, queries, labels = rows(args.data)
    with (
        tempfile.TemporaryDirectory() as folder,
        ImageDatabase.create(os.path.join(folder, "db"), X, y.tolist(), n_bits=args.bits) as database,
    ):
        print(comparison_table(database.compare(queries, labels.tolist(), max_queries=args.queries)))


def rows(data: str) -> tuple[Array, Array, Array, Array]:
    """Training and test rows with their labels."""
    if data in FEATURES:
        found = load(data)
        return found.X_train, found.y_train, found.X_test, found.y_test
    with np.load(data, allow_pickle=False) as stored:
        X, y, queries, labels = (stored[name] for name in ("X_train", "y_train", "X_test", "y_test"))
    return X.astype(np.float32), y, queries.astype(np.float32), labels


if __name__ == "__main__":
    main()
