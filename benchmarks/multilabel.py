"""Several labels an item: SIH on GoEmotions beside cosine and a linear classifier, and an update of labels.

``python -m benchmarks.multilabel --rows 20000`` learns from so many training rows (all by default), and asks
with test rows. Relevant is what has a label in common. The classifier is a logistic regression a label on the
vectors; its threshold is 0.5, or chosen on a fifth of its rows as `SIH.predict` chooses its own. Seconds are
those of the processor.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from sihash import SIH
from sihash._typing import Array
from sihash.evaluation.retrieval import against_database
from sihash.hashing.label_probability import best_threshold, predicted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--bits", type=int, default=64)
    args = parser.parse_args()
    data = np.load(Path(os.environ.get("SIHASH_DATA", ".")) / "goemotions" / "minilm.npz")
    X, Y, T, S = (data[name] for name in ("X_train", "Y_train", "X_test", "Y_test"))
    rng = np.random.RandomState(0)
    rows, queries = rng.permutation(len(X))[: args.rows], rng.permutation(len(T))[: args.queries]
    X, T = X[rows].astype(np.float32), T.astype(np.float32)
    Y, asked = Y[rows], S[queries]

    hasher = SIH(args.bits, random_state=0)
    scratch = cpu_seconds(lambda: hasher.fit(X, Y))
    found = against_database(hasher.transform(T[queries]), asked, hasher.transform(X), Y)
    cosine = cosine_map(T[queries], asked, X, Y)
    print(f"mAP, a label in common: SIH {found.mAP:.4f}, cosine {cosine:.4f}", flush=True)
    print(f"micro-F1 of predict: {f1_score(S, hasher.predict(T), average='micro'):.4f}", flush=True)

    changed = rng.choice(len(X), len(X) // 100, replace=False)
    others = Y[rng.permutation(changed)]

    def relabel() -> None:
        hasher.update(X[changed], others, changed.tolist(), remove=changed.tolist())

    update = cpu_seconds(relabel)
    print(
        f"fit {scratch:.2f} s; labels of 1 % changed {update:.2f} s, {update / scratch:.3f} of it", flush=True
    )

    for threshold, F1 in linear_f1(X, Y, T, S).items():
        print(f"micro-F1 of logistic regressions, threshold {threshold}: {F1:.4f}", flush=True)


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
        f"{threshold:.3f}, the likeliest always": f1_score(S, predicted(P, threshold), average="micro"),
    }


def _proba(X: Array, Y: Array, T: Array) -> Array:
    columns = [LogisticRegression(C=10.0, max_iter=200).fit(X, y).predict_proba(T)[:, 1] for y in Y.T]
    return np.column_stack(columns)


if __name__ == "__main__":
    main()
