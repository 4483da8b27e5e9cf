"""Collections as they come: classes of unequal size, many, noisy, of several modes; labels hidden, unknown.

``python -m benchmarks.collections [PART ...]``; every database is made with the defaults. Parts:

- ``first`` (the default): P@1 and P@10 of `Database.search`, beside what a user would take instead. Test
  queries are spread evenly over the classes; ``by size`` weighs the same queries by the size of their class,
  as they come if items are drawn from the collection. ``lead`` is search less the best of the others, query
  by query, with its standard error.
- ``estimate``: what `Database.evaluate` says without queries, beside fresh queries that come as the items do.
- ``joined``: 50 classes of 1, 3 and 10 rows added to 100, before any update.
- ``hidden``: half, 90 % or 98 % of the labels hidden; hits are judged by the labels that are true.
- ``unknown``: queries of no class, and how many of both kinds are told to look like no class.

``--sets`` names some of the sets (``clinc150-tail``, …), ``--draws`` repeats with other rows, ``--large``
adds 300,000 rows × 768. ``--out`` appends a line of JSON for each result. Data: the folder ``SIHASH_DATA``.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sihash import Database
from sihash._typing import Array
from sihash.evaluation.alternatives import linear_discriminants, nearest_class_mean
from sihash.research import data as research_data

SIZES = [1, 2, 3, 5, 10, 20, 40, 80]  # rows of a class in a long-tailed cut
K = 10
BLOCK_SCORES = 50_000_000  # scores of items held at a time


@dataclass
class Collection:
    """Rows to make a database of, and queries. ``y`` and ``labels`` are class numbers."""

    X: Array
    y: Array
    queries: Array
    labels: Array


@dataclass
class Source:
    """Rows and test rows that collections are cut from; ``unknown`` are queries of no class."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    unknown: Array | None = None

    def cut(self, sizes: Array, rng: np.random.RandomState, n_queries: int) -> Collection:
        """So many rows of each class (or all, if there are fewer), and queries spread evenly over classes."""
        by_class = [rng.permutation(np.flatnonzero(self.y == k))[:size] for k, size in enumerate(sizes)]
        rows = rng.permutation(np.concatenate(by_class))
        asking = evenly(self.y_test, n_queries, rng)
        return Collection(self.X[rows], self.y[rows], self.X_test[asking], self.y_test[asking])


def evenly(y: Array, n: int, rng: np.random.RandomState) -> Array:
    """Places of ``n`` rows, as many of each class as can be."""
    order = rng.permutation(len(y))
    turn = np.empty(len(y), dtype=int)  # which of its class a row is
    for k in np.unique(y):
        turn[order[y[order] == k]] = np.arange(np.sum(y == k))
    return order[np.argsort(turn[order], kind="stable")][:n]


# Sources.


def embedded(path: str) -> Source:
    with np.load(Path(os.environ.get("SIHASH_DATA", ".")) / path, allow_pickle=False) as file:
        parts = {name: file[name] for name in file.files if name.startswith(("X_", "y_", "Y_"))}
    X, T = parts["X_train"].astype(np.float32), parts["X_test"].astype(np.float32)
    if "Y_train" in parts:  # of several labels: the rows that have exactly one
        one, of_test = parts["Y_train"].sum(axis=1) == 1, parts["Y_test"].sum(axis=1) == 1
        y, t = parts["Y_train"][one].argmax(axis=1), parts["Y_test"][of_test].argmax(axis=1)
        return Source(X[one], y, T[of_test], t)
    unknown = parts["X_unknown"].astype(np.float32) if "X_unknown" in parts else None
    return Source(X, parts["y_train"].astype(int), T, parts["y_test"].astype(int), unknown)


def named(name: str, features: str) -> Source:
    data = research_data.load(name, features)
    rows = (np.asarray(X, dtype=np.float32) for X in (data.X_train, data.X_test))
    (X, T), (y, t) = rows, (np.asarray(labels, dtype=int) for labels in (data.y_train, data.y_test))
    return Source(X, y, T, t)


def modes(n_classes: int, n_modes: int, n_rows: int, noise: float, seed: int, n_queries: int) -> Source:
    """Classes of so many normal modes in 768 dimensions, each mode drawn with spread 1."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n_classes, n_modes, 768), dtype=np.float32)

    def draw(y: Array) -> Array:
        X = noise * rng.standard_normal((len(y), 768), dtype=np.float32)
        X += centres[y, rng.integers(n_modes, size=len(y))]
        return X

    y, t = np.repeat(np.arange(n_classes), n_rows), np.resize(np.arange(n_classes), n_queries)
    return Source(draw(y), y, draw(t), t)


def many_small(seed: int, n_queries: int) -> Source:
    """1,623 classes in 256 dimensions, whose rows spread along other directions, some further than others."""
    rng, d, n_classes = np.random.default_rng(seed), 256, 1623
    between = np.arange(1.0, d + 1) ** -1.0
    within = 2 * rng.permutation(np.arange(1.0, d + 1)) ** -0.6
    centres = rng.standard_normal((n_classes, d)) * np.sqrt(between)

    def draw(y: Array) -> Array:
        spread = np.exp(0.5 * rng.standard_normal((len(y), 1)))
        return (centres[y] + spread * rng.standard_normal((len(y), d)) * np.sqrt(within)).astype(np.float32)

    y, t = np.repeat(np.arange(n_classes), 15), np.resize(np.arange(n_classes), n_queries)
    return Source(draw(y), y, draw(t), t)


SOURCES: dict[str, Callable[[int, int], Source]] = {  # by the number of the draw, and of queries
    "clinc150": lambda seed, n: embedded("clinc150/minilm.npz"),
    "tiny": lambda seed, n: embedded("tiny-imagenet-200/efficientnet-lite0.npz"),
    "goemotions": lambda seed, n: embedded("goemotions/minilm.npz"),
    "cifar10": lambda seed, n: named("cifar10", "gist"),
    "mnist": lambda seed, n: named("mnist", "pixels"),
    "small": many_small,
    "noisy": lambda seed, n: modes(500, 1, 60, 3.5, seed, n),
    "modes": lambda seed, n: modes(100, 4, 200, 3.5, seed, n),
    "large-modes": lambda seed, n: modes(300, 4, 1000, 3.0, seed, n),
}
ALL = 10**9
SETS: dict[str, Callable[[np.random.RandomState], Any]] = {  # sizes of a class, or a drawing of them
    "clinc150-tail": lambda rng: rng.choice(SIZES, 150),
    "tiny-tail": lambda rng: rng.choice(SIZES, 200),
    "small-tail": lambda rng: rng.randint(1, 16, 1623),
    "clinc150-even": lambda rng: np.full(150, ALL),
    "tiny-even": lambda rng: np.full(200, ALL),
    "mnist-even": lambda rng: np.full(10, 1000),
    "noisy-even": lambda rng: np.full(500, ALL),
    "modes-even": lambda rng: np.full(100, ALL),
    "goemotions-tail": lambda rng: rng.choice(SIZES, 28),
    "cifar10-tail": lambda rng: rng.choice(SIZES, 10),
    "cifar10-even": lambda rng: np.full(10, ALL),
    "large-modes-even": lambda rng: np.full(300, ALL),
}


def collection(name: str, draw: int, n_queries: int) -> Collection:
    source = SOURCES[name.rpartition("-")[0]](draw, n_queries)
    rng = np.random.RandomState(draw)
    return source.cut(SETS[name](rng), rng, n_queries)


# What a user would take instead: each gives the hits (n_queries × 10, bool) of its ten first answers.


def unit(X: Array) -> Array:
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def by_class(scores: Array, labels: Array, counts: Array) -> Array:
    """Hits if items come by the score of their class (n_queries × n_classes)."""
    order = np.argsort(-scores, axis=1, kind="stable")
    place = (order == labels[:, None]).argmax(axis=1)
    before = np.cumsum(counts[order], axis=1)[np.arange(len(labels)), place] - counts[labels]
    places = np.arange(K)
    return (places >= before[:, None]) & (places < (before + counts[labels])[:, None])


def by_item(scores: Callable[[slice], Array], y: Array, labels: Array) -> Array:
    """Hits if items come by a score of their own; ``scores`` is called with slices of the queries."""
    hits, step = [], max(1, BLOCK_SCORES // len(y))
    for start in range(0, len(labels), step):
        block = scores(slice(start, start + step))
        best = np.argpartition(-block, min(K, len(y) - 1), axis=1)[:, :K]
        order = np.argsort(-np.take_along_axis(block, best, axis=1), axis=1)
        hits.append(y[np.take_along_axis(best, order, axis=1)] == labels[start : start + step, None])
    return np.concatenate(hits)


def rivals(data: Collection) -> Iterator[tuple[str, Array]]:
    Z, Q, y, labels = unit(data.X), unit(data.queries), data.y, data.labels
    n_classes = max(y.max(), labels.max()) + 1
    counts = np.bincount(y, minlength=n_classes)
    yield "cosine", by_item(lambda rows: Q[rows] @ Z.T, y, labels)
    everything = np.ones(len(y), dtype=bool)
    for name, learn in (("nearest class mean", nearest_class_mean), ("LDA's label", linear_discriminants)):
        scores = np.full((len(Q), n_classes), -np.inf)
        known = learn(data.X, y, everything)(data.queries)
        scores[:, : known.shape[1]] = known
        yield name, by_class(scores, labels, counts)
    yield "LDA + cosine", by_item(lambda rows: scores[rows][:, y] + Q[rows] @ Z.T, y, labels)


def searched(database: Database, queries: Array, labels: Array, truth: Array | None = None) -> Array:
    """Hits of `Database.search`; with ``truth`` by the number of an item, whatever label it was given."""
    hits = np.zeros((len(queries), K), dtype=bool)
    for row, answer, label in zip(hits, database.search(queries, k=K), labels, strict=True):
        found = [hit.label if truth is None else truth[hit.id] for hit in answer.hits]
        row[: len(found)] = np.array(found) == label
    return hits


# Parts.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["first"], help=", ".join(PARTS))
    parser.add_argument("--sets", default="", help="some of: " + ",".join(SETS))
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--queries", type=int, default=3000)
    parser.add_argument("--large", action="store_true", help="300,000 rows × 768, too")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    for part in args.parts:
        for told in PARTS[part](args):
            if args.out:
                with open(args.out, "a") as file:
                    file.write(json.dumps({"part": part, **told}) + "\n")


def chosen_sets(args: argparse.Namespace) -> list[str]:
    return args.sets.split(",") if args.sets else [n for n in SETS if args.large or n != "large-modes-even"]


def mean_and_error(values: Array, weights: Array | None = None) -> tuple[float, float]:
    """A weighted mean over queries, and its standard error."""
    w = np.ones(len(values)) if weights is None else weights
    mean = np.average(values, weights=w)
    return float(mean), float(np.sqrt(np.sum((w * (values - mean)) ** 2)) / w.sum())


def told_hits(name: str, hits: Array, weights: Array) -> dict[str, Any]:
    p1, e1 = mean_and_error(hits[:, 0])
    p10, e10 = mean_and_error(hits.mean(axis=1))
    weighted, _ = mean_and_error(hits[:, 0], weights)
    weighted10, _ = mean_and_error(hits.mean(axis=1), weights)
    print(
        f"  {name:20s} P@1 {p1:.3f} ± {e1:.3f}  P@10 {p10:.3f} ± {e10:.3f}  "
        f"by size {weighted:.3f}, {weighted10:.3f}",
        flush=True,
    )
    return {
        "name": name,
        "p1": p1,
        "p1_error": e1,
        "p10": p10,
        "p1_by_size": weighted,
        "p10_by_size": weighted10,
    }


def first(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name in chosen_sets(args):
        hits: dict[str, list[Array]] = {}
        sizes, seconds = [], []
        for draw in range(args.draws):
            data = collection(name, draw, args.queries)
            sizes.append(np.bincount(data.y, minlength=data.labels.max() + 1)[data.labels])
            with TemporaryDirectory() as folder:
                started = time.process_time()
                with Database.create(f"{folder}/db", data.X, data.y) as database:
                    seconds.append(time.process_time() - started)
                    hits.setdefault("sihash search", []).append(searched(database, data.queries, data.labels))
            for rival, found in rivals(data):
                hits.setdefault(rival, []).append(found)
        of_class = np.concatenate(sizes)
        print(
            f"{name}: {len(data.y):,} rows × {data.X.shape[1]}, {len(np.unique(data.y)):,} classes, "
            f"{args.draws} × {len(data.labels):,} queries, create {np.mean(seconds):.1f} processor s",
            flush=True,
        )
        found = {rival: np.concatenate(parts) for rival, parts in hits.items()}
        rows = [told_hits(rival, each, of_class.astype(float)) for rival, each in found.items()]
        leads = told_lead(found)
        told = {"set": name, "draws": args.draws, "seconds": seconds, "rows": rows, "leads": leads}
        if 1 < len(np.unique(of_class)) <= 20:
            told["by_class_size"] = told_by_class_size(found, of_class)
        yield told


def told_lead(found: dict[str, Array]) -> dict[str, list[float]]:
    """Search less the best of the others, by P@1 and by P@10, with the standard error of the pairs."""
    ours, *others = found
    leads = {}
    for what, judge in (
        ("P@1", lambda hits: hits[:, 0].astype(float)),
        ("P@10", lambda hits: hits.mean(axis=1)),
    ):
        best = max(others, key=lambda name: judge(found[name]).mean())
        mean, error = mean_and_error(judge(found[ours]) - judge(found[best]))
        print(f"  lead in {what}: {mean:+.3f} ± {error:.3f} ({best})", flush=True)
        leads[what] = [mean, error]
    return leads


def told_by_class_size(found: dict[str, Array], sizes: Array) -> dict[str, list[float]]:
    distinct = np.unique(sizes)
    print("  P@1 by class size  " + "".join(f"{size:7d}" for size in distinct))
    table = {name: [float(hits[sizes == s, 0].mean()) for s in distinct] for name, hits in found.items()}
    for name, row in table.items():
        print(f"    {name:18s}" + "".join(f"{share:7.3f}" for share in row), flush=True)
    return table


def by_chance(seed: int, n_queries: int) -> Collection:
    """1,500 rows of CLINC150 with labels of five classes given by chance; so have the queries."""
    rng, source = np.random.RandomState(seed), SOURCES["clinc150"](seed, n_queries)
    rows, asking = rng.permutation(len(source.X))[:1500], rng.permutation(len(source.X_test))[:n_queries]
    y, labels = rng.randint(5, size=len(rows)), rng.randint(5, size=len(asking))
    return Collection(source.X[rows], y, source.X_test[asking], labels)


def small_cut(name: str, n_rows: int) -> Callable[[int, int], Collection]:
    def make(seed: int, n_queries: int) -> Collection:
        source = SOURCES[name](seed, n_queries)
        return source.cut(np.full(source.y.max() + 1, n_rows), np.random.RandomState(seed), n_queries)

    return make


SHAPES: dict[str, Callable[[int, int], Collection]] = {
    "2,000 photos (GIST)": small_cut("cifar10", 200),
    "labels by chance": by_chance,
    "150 classes of 15": small_cut("clinc150", 15),
    "Tiny-ImageNet, 15 a class": small_cut("tiny", 15),
    "CLINC150, long tail": lambda seed, n: collection("clinc150-tail", seed, n),
    "500 noisy classes": lambda seed, n: collection("noisy-even", seed, n),
    "100 classes of four modes": lambda seed, n: collection("modes-even", seed, n),
    "MNIST, 10,000": lambda seed, n: collection("mnist-even", seed, n),
}


def estimate(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name, make in SHAPES.items():
        if args.sets and not any(word in name for word in args.sets.split(",")):
            continue
        for draw in range(args.draws):
            data = make(draw, args.queries)
            weights = np.bincount(data.y, minlength=data.labels.max() + 1)[data.labels].astype(float)
            with TemporaryDirectory() as folder, Database.create(f"{folder}/db", data.X, data.y) as database:
                said = database.evaluate()
                hits = searched(database, data.queries, data.labels)
            fresh, error = mean_and_error(hits[:, 0], weights)
            fresh10, error10 = mean_and_error(hits.mean(axis=1), weights)
            error = np.hypot(error, np.sqrt(fresh * (1 - fresh) / said.n_queries))
            print(
                f"{name}: says P@1 {said.p_at_1:.3f} P@10 {said.p_at_10:.3f}, "
                f"fresh {fresh:.3f} {fresh10:.3f}; "
                f"off by {said.p_at_1 - fresh:+.3f}, {(said.p_at_1 - fresh) / error:+.1f} standard errors",
                flush=True,
            )
            yield {
                "set": name, "draw": draw, "said": [said.p_at_1, said.p_at_10], "fresh": [fresh, fresh10],
                "error": [error, error10],
            }  # fmt: skip


def joined(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """CLINC150's classes in another order each draw: the first 100 are learned, 50 join."""
    for n_rows in (1, 3, 10):
        ours, means, old_ours, old_means = [], [], [], []
        for draw in range(args.draws):
            rng, source = np.random.RandomState(draw), SOURCES["clinc150"](draw, args.queries)
            order = rng.permutation(150)
            sizes = np.full(150, ALL)
            sizes[order[100:]] = n_rows
            data = source.cut(sizes, rng, args.queries)
            new = np.isin(data.y, order[100:])
            old = data.X[~new], data.y[~new]
            with TemporaryDirectory() as folder, Database.create(f"{folder}/db", *old) as database:
                database.add(data.X[new], data.y[new])
                hits = searched(database, data.queries, data.labels)[:, 0]
            mean_hits = dict(rivals(data))["nearest class mean"][:, 0]
            of_new = np.isin(data.labels, order[100:])
            for found, part in zip((ours, means, old_ours, old_means), (0, 1, 2, 3), strict=True):
                found.append((mean_hits if part % 2 else hits)[of_new if part < 2 else ~of_new])
        shares = [mean_and_error(np.concatenate(each)) for each in (ours, means, old_ours, old_means)]
        print(
            f"50 classes of {n_rows} joined 100: new P@1 {shares[0][0]:.3f} ± {shares[0][1]:.3f} (nearest "
            f"mean {shares[1][0]:.3f}), old {shares[2][0]:.3f} ({shares[3][0]:.3f})",
            flush=True,
        )
        yield {
            "rows": n_rows,
            "new": shares[0],
            "new_mean": shares[1],
            "old": shares[2],
            "old_mean": shares[3],
        }


def hidden(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name, share in product(("clinc150", "tiny"), (0.5, 0.9, 0.98)):
        if args.sets and name not in args.sets.split(","):
            continue
        for draw in range(args.draws):
            rng, source = np.random.RandomState(draw), SOURCES[name](draw, args.queries)
            data = source.cut(np.full(source.y.max() + 1, ALL), rng, args.queries)
            known = rng.random_sample(len(data.y)) >= share
            labels = [int(label) if told else None for label, told in zip(data.y, known, strict=True)]
            with TemporaryDirectory() as folder:
                ids = np.arange(len(data.y))
                with Database.create(f"{folder}/all", data.X, labels, ids=ids) as database:
                    ours = searched(database, data.queries, data.labels, data.y)
                with Database.create(f"{folder}/known", data.X[known], data.y[known]) as database:
                    alone = searched(database, data.queries, data.labels)
            cosine = next(iter(rivals(data)))[1]
            shares = [mean_and_error(each[:, 0]) for each in (ours, alone, cosine)]
            print(
                f"{name}, {share:.0%} hidden: P@1 {shares[0][0]:.3f} ± {shares[0][1]:.3f}, P@10 "
                f"{ours.mean():.3f}; the labelled part alone {shares[1][0]:.3f}, {alone.mean():.3f}; cosine "
                f"{shares[2][0]:.3f}, {cosine.mean():.3f}",
                flush=True,
            )
            yield {
                "set": name, "share": share, "draw": draw, "p1": [each[0] for each in shares],
                "p10": [float(each.mean()) for each in (ours, alone, cosine)],
            }  # fmt: skip


def unknown(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name in ("clinc150-even", "clinc150-tail"):
        if args.sets and name not in args.sets.split(","):
            continue
        for draw in range(args.draws):
            data, strangers = (
                collection(name, draw, args.queries),
                SOURCES["clinc150"](draw, args.queries).unknown,
            )
            with TemporaryDirectory() as folder, Database.create(f"{folder}/db", data.X, data.y) as database:
                told = [
                    np.mean([answer.remark is not None for answer in database.search(queries, k=1)])
                    for queries in (data.queries, strangers)
                ]
            print(f"{name}: of no class {told[1]:.3f} noticed, false alarms {told[0]:.3f}", flush=True)
            yield {"set": name, "draw": draw, "noticed": told[1], "false_alarms": told[0]}


PARTS = {"first": first, "estimate": estimate, "joined": joined, "hidden": hidden, "unknown": unknown}


if __name__ == "__main__":
    main()
