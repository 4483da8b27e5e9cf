"""Several labels an item: GoEmotions, with SIH and its database beside cosine and a classifier.

``python -m benchmarks.multilabel codes --rows 20000`` learns from so many training rows (all by default), and
asks with test rows. Relevant is what has a label in common. Parts, all by default:

- ``codes``: mAP of the codes beside cosine on the vectors; micro-F1 of `SIH.predict`.
- ``linear``: micro-F1 of a logistic regression a label on the vectors; its threshold is 0.5, or chosen on a
  fifth of its rows as `SIH.predict` chooses its own.
- ``update``: labels of 1 % of the rows change; seconds are those of the processor.
- ``database``: P@1, P@10 and mAP of what searches answer, by three rankings.
- ``unlabelled``: the same where half of the items have no label, beside the labelled half alone.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from sihash import SIH
from sihash._typing import Array
from sihash.database import Database
from sihash.evaluation.retrieval import against_database
from sihash.hashing.class_model import answered, best_threshold

PARTS = ("codes", "linear", "update", "database", "unlabelled")
REPEATS = 3


@dataclass(frozen=True)
class Data:
    """Rows to learn from, queries, and all test rows."""

    X: Array
    Y: Array
    queries: Array
    asked: Array
    T: Array
    S: Array


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", default=PARTS)
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--bits", type=int, default=64)
    args = parser.parse_args()
    stored = np.load(Path(os.environ.get("SIHASH_DATA", ".")) / "goemotions" / "minilm.npz")
    X, Y, T, S = (stored[name] for name in ("X_train", "Y_train", "X_test", "Y_test"))
    rng = np.random.RandomState(0)
    rows, queries = rng.permutation(len(X))[: args.rows], rng.permutation(len(T))[: args.queries]
    X, T = X[rows].astype(np.float32), T.astype(np.float32)
    data = Data(X, Y[rows].astype(bool), T[queries], S[queries].astype(bool), T, S.astype(bool))
    for part in args.parts:
        globals()[f"tell_{part}"](data, args.bits)


def tell_codes(data: Data, n_bits: int) -> None:
    hasher = SIH(n_bits, random_state=0).fit(data.X, data.Y)
    found = against_database(
        hasher.transform(data.queries), data.asked, hasher.transform(data.X), data.Y, k=[100]
    )
    cosine = cosine_map(data.queries, data.asked, data.X, data.Y)
    print(f"mAP, a label in common: SIH {found.mAP:.4f}, cosine {cosine:.4f}", flush=True)
    print(f"SIH: mAP@100 {found.mAP_at[100]:.4f}, NDCG@100 {found.NDCG_at[100]:.4f}", flush=True)
    print(f"micro-F1 of predict: {f1_score(data.S, hasher.predict(data.T), average='micro'):.4f}", flush=True)


def tell_linear(data: Data, n_bits: int) -> None:
    for threshold, F1 in linear_f1(data.X, data.Y, data.T, data.S).items():
        print(f"micro-F1 of logistic regressions, threshold {threshold}: {F1:.4f}", flush=True)


def tell_update(data: Data, n_bits: int) -> None:
    X, Y, rng = data.X, data.Y, np.random.RandomState(1)
    SIH(n_bits, random_state=0).fit(X[:2000], Y[:2000])  # compiles
    for _ in range(REPEATS):
        hasher = SIH(n_bits, random_state=0)
        scratch = cpu_seconds(lambda hasher=hasher: hasher.fit(X, Y))
        rows = rng.choice(len(X), len(X) // 100, replace=False)
        others, ids = Y[rng.permutation(rows)], rows.tolist()
        update = cpu_seconds(lambda h=hasher, r=rows, o=others, i=ids: h.update(X[r], o, i, remove=i))
        share = update / scratch
        print(f"fit {scratch:.2f} s; labels of 1 % changed {update:.2f} s, {share:.3f} of it", flush=True)


def tell_database(data: Data, n_bits: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        db = Database.create(f"{folder}/db", data.X, data.Y, n_bits=n_bits)
        for rank in ("combined", "label", "vector"):
            tell_search(db, data, rank, rank)


def tell_unlabelled(data: Data, n_bits: int) -> None:
    known = np.random.RandomState(2).permutation(len(data.X)) % 2 == 0
    lists = [np.flatnonzero(row).tolist() if own else [] for row, own in zip(data.Y, known, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        ids = np.arange(len(data.X))  # said, so that equal vectors stay apart
        both = Database.create(f"{folder}/both", data.X, lists, ids=ids, n_bits=n_bits)
        own = {"ids": ids[known], "n_bits": n_bits}
        half = Database.create(f"{folder}/half", data.X[known], data.Y[known], **own)
        tell_hits(half, data.Y, data, "the labelled half alone")
        tell_hits(both, data.Y, data, "half of the items without a label")


def tell_search(db: Database, data: Data, rank: str, name: str) -> None:
    asked = [np.flatnonzero(row).tolist() for row in data.asked]
    found = db.evaluate(data.queries, asked, rank=rank, max_queries=len(asked))
    print(
        f"search, {name}: P@1 {found.p_at_1:.4f}, P@10 {found.p_at_10:.4f}, mAP {found.mAP:.4f}", flush=True
    )


def tell_hits(db: Database, Y: Array, data: Data, name: str) -> None:
    """By the labels that items truly have, those that the database was not told, too."""
    answers = db.search(data.queries, k=10)
    right = np.array([
        [bool((Y[hit.id] & asked).any()) for hit in answer.hits]
        for answer, asked in zip(answers, data.asked, strict=True)
    ])  # fmt: skip
    print(f"hits, {name}: P@1 {right[:, 0].mean():.4f}, P@10 {right.mean():.4f}", flush=True)


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def cosine_map(queries: Array, asked: Array, X: Array, Y: Array) -> float:
    """Mean average precision by cosine on the vectors, queries without a relevant item left out."""
    Z, Q = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, queries))
    scores = []
    for q, labels in zip(Q, asked, strict=True):
        hits = Y[np.argsort(-(Z @ q))][:, labels].any(axis=1)
        if hits.any():
            ranks = np.flatnonzero(hits) + 1
            scores.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    return float(np.mean(scores))


def linear_f1(X: Array, Y: Array, T: Array, S: Array) -> dict[str, float]:
    mean, scale = X.mean(axis=0), X.std() * np.sqrt(X.shape[1])
    U, V = (X - mean) / scale, (T - mean) / scale
    held = np.arange(len(U)) % 5 == 0
    threshold = best_threshold(_proba(U[~held], Y[~held], U[held]), Y[held])
    P = _proba(U, Y, V)
    return {
        "0.5": f1_score(S, P >= 0.5, average="micro"),
        f"{threshold:.3f}, the likeliest always": f1_score(S, answered(P, threshold), average="micro"),
    }


def _proba(X: Array, Y: Array, T: Array) -> Array:
    columns = [LogisticRegression(C=10.0, max_iter=200).fit(X, y).predict_proba(T)[:, 1] for y in Y.T]
    return np.column_stack(columns)


if __name__ == "__main__":
    main()
