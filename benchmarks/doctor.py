"""Wrong labels found: ``python -m benchmarks.doctor``, with `SIHASH_DATA` set.

A share of the labels of the training rows is flipped to other classes at random, a database is made, and
`Database.doctor` lists what looks wrong. Printed is the precision of the first so many of the list, as
many as were flipped (a list that is shorter counts as wrong from its end on); the share of the flipped labels
in the whole list, and how long that is; beside it the same precision by the margins of the hash functions in
force, which have learned from the wrong labels, and with ``--lda`` by a cross-validated discriminant on the
vectors.

The constants of the method were chosen on the test rows of these data sets, on digits and on made data, with
other seeds: ``--part test --seed 100``. They have no part in what is printed otherwise.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from benchmarks.data import NAMES, load
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_predict

from sihash import Database
from sihash._typing import Array
from sihash.database.inspection import unseen

DATA = ("mnist", "clinc150", "tiny-imagenet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=DATA, choices=NAMES)
    parser.add_argument("--share", type=float, default=0.02, help="of the labels that are flipped")
    parser.add_argument("--rows", type=int, help="so many training rows at most, drawn at random")
    parser.add_argument("--part", choices=["train", "test"], default="train")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--folds", type=int, default=unseen.FOLDS)
    parser.add_argument("--lda", action="store_true")
    args = parser.parse_args()
    unseen.FOLDS = args.folds
    lda = "LDA    " if args.lda else ""
    print(f"{'':<14}   rows flipped seed  doctor recall  in sample {lda}listed seconds")
    for name in args.data:
        data = load(name)
        X, y = (data.X_train, data.y_train) if args.part == "train" else (data.X_test, data.y_test)
        X, y = np.asarray(X, dtype=np.float32), np.unique(y, return_inverse=True)[1]
        for seed in range(args.seed, args.seed + args.seeds):
            rng = np.random.default_rng(seed)
            rows = rng.permutation(len(X))[: args.rows]
            print(f"{name:<14}", measure(X[rows], y[rows], args.share, seed, args.lda), flush=True)


def measure(X: Array, y: Array, share: float, seed: int, lda: bool) -> str:
    given = flipped(y, share, np.random.default_rng(seed + 1000))
    with TemporaryDirectory() as folder, Database.create(Path(folder) / "db", X, given) as database:
        rows = rows_of(database)
        wrong = (given != y)[rows]
        start = time.perf_counter()
        found = database.doctor(limit=len(X)).findings
        seconds = time.perf_counter() - start
        place = {item.id: k for k, item in enumerate(database.items(limit=len(X)))}
        listed = [place[each.items[0].id] for each in found if each.kind == "wrong label"]
        own = [answer.probabilities[int(label)] for answer, label in answers(database, X[rows], given[rows])]
    n = int(wrong.sum())
    figures = [
        int(wrong[listed[:n]].sum()) / n,
        int(wrong[listed].sum()) / n,
        precision(np.array(own), wrong),
    ]
    if lda:
        judge = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        proba = cross_val_predict(judge, X[rows], given[rows], cv=3, method="predict_proba")
        figures.append(precision(proba[np.arange(len(rows)), given[rows]], wrong))
    told = "   ".join(f"{figure:.3f}" for figure in figures)
    return f"{len(rows):>6} {n:>6} {seed:>5}   {told}   {len(listed):>5} {seconds:>5.0f}"


def flipped(y: Array, share: float, rng: np.random.Generator) -> Array:
    """Labels of which a share is that of another class, each other class as likely."""
    out = y.copy()
    n_classes = int(y.max()) + 1
    rows = rng.choice(len(y), round(share * len(y)), replace=False)
    out[rows] = (y[rows] + rng.integers(1, n_classes, len(rows))) % n_classes
    return out


def rows_of(database: Database) -> Array:
    """Which row each item was: identical rows are stored once."""
    return np.array([int(item.name.split()[-1]) for item in database.items(limit=len(database))])


def answers(database: Database, X: Array, labels: Array):  # type: ignore[no-untyped-def]
    for part in np.array_split(np.arange(len(X)), 1 + len(X) // 2000):
        yield from zip(database.classify(X[part]), labels[part].tolist(), strict=True)


def precision(confidence: Array, wrong: Array) -> float:
    """Of those in whose label there is the least confidence, as many as are wrong."""
    return float(wrong[np.argsort(confidence, kind="stable")[: wrong.sum()]].mean())


if __name__ == "__main__":
    main()
