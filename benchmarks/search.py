"""Search over a million codes: beside bare FAISS, by ranking, and what changes cost.

``python -m benchmarks.search speed`` sets our indexes beside bare FAISS calls, on random codes and on codes
of a hasher; ``changes`` measures removal and replacement; ``ranks`` sets semantic search beside Hamming's;
``quality`` prints mAP and precision of the rankings on test images. The best of several runs in turns is
taken; only ratios within one run mean anything.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import faiss
import numpy as np
from benchmarks.data import FEATURES, load
from benchmarks.timing import timed
from threadpoolctl import threadpool_limits

from sihash import SIH, datasets
from sihash._typing import Array
from sihash.codes import n_bytes, pack, sign
from sihash.database import ranking
from sihash.evaluation.ranked import mean_average_precision, mean_precision_at
from sihash.index import ScanIndex
from sihash.index.faiss_index import FaissIndex

N_QUERIES = 100
K = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["speed", "changes", "ranks", "quality"])
    parser.add_argument("--data", default="cifar10", choices=sorted(FEATURES))
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    {"speed": speed, "changes": changes, "ranks": ranks, "quality": quality}[args.what](args)


def best_of(repeats: int, *works: Callable[[], object]) -> list[float]:
    """Least seconds of each, run in turns."""
    for work in works:
        work()
    return [min(times) for times in zip(*[[timed(w) for w in works] for _ in range(repeats)], strict=True)]


# Codes.


def random_codes(n: int, n_bits: int) -> Array:
    return np.random.default_rng(0).integers(0, 256, (n, n_bytes(n_bits)), dtype=np.uint8)


def fitted(args: argparse.Namespace) -> tuple[SIH, datasets.Dataset]:
    data = load(args.data)
    return SIH(n_bits=args.bits, random_state=0).fit(data.X_train, data.y_train), data


def many_codes(hasher: SIH, data: datasets.Dataset, n: int) -> Array:
    """Codes of ``n`` vectors, each between two training vectors of one class, nearer to the first."""
    rng = np.random.default_rng(0)
    X, y = np.asarray(data.X_train, dtype=np.float32), np.unique(data.y_train, return_inverse=True)[1]
    by_class, counts = np.argsort(y, kind="stable"), np.bincount(y)
    first_of = np.cumsum(counts) - counts
    portions = []
    for size in np.diff(np.append(np.arange(0, n, 50_000), n)):
        one = rng.integers(0, len(X), size)
        other = by_class[first_of[y[one]] + rng.integers(0, counts[y[one]])]
        share = 0.3 * rng.random((size, 1), dtype=np.float32)
        portions.append(hasher.transform(X[one] + share * (X[other] - X[one])))
    return np.concatenate(portions)


# What is measured.


def speed(args: argparse.Namespace) -> None:
    hasher, data = fitted(args)
    learned = many_codes(hasher, data, args.items)
    random = random_codes(args.items, args.bits)
    # One thread each: several that wait for each other measure what else the machine does.
    faiss.omp_set_num_threads(1)
    threadpool_limits(1, user_api="blas")
    print(f"{args.items} codes of {args.bits} bits, one thread, top {K}; ours / bare FAISS")
    for name, codes, queries in (
        ("random", random, random_codes(2 * args.items, args.bits)[-N_QUERIES:]),
        ("learned", learned, hasher.transform(data.X_test[:N_QUERIES])),
    ):
        flat = faiss.IndexBinaryFlat(8 * n_bytes(args.bits))
        flat.add(codes)
        beside(f"{name}, flat", filled(ScanIndex(args.bits), codes), flat, queries, args.repeats)
        lists = filled(FaissIndex(args.bits, exact_up_to=args.items // 2), codes)
        about = lists.describe()
        if about["kind"] == "exact":
            print(f"{name}, lists: none, they would miss too much")
        else:
            beside(f"{name}, lists {about}", lists, lists._lists, queries, args.repeats)
    small = filled(ScanIndex(args.bits), learned[:100])
    (overhead,) = best_of(50, partial(small.search, learned[:1], K))
    print(f"a single query over 100 codes: {1e6 * overhead:.0f} µs")


def filled(index: ScanIndex, codes: Array) -> ScanIndex:
    index.add(np.arange(len(codes)), codes)
    return index


def beside(name: str, ours: ScanIndex, bare: faiss.IndexBinary, queries: Array, repeats: int) -> None:
    def one_by_one(search: Callable[[Array, int], object]) -> None:
        for q in range(20):
            search(queries[q : q + 1], K)

    batch = best_of(repeats, partial(ours.search, queries, K), partial(bare.search, queries, K))
    single = best_of(repeats, partial(one_by_one, ours.search), partial(one_by_one, bare.search))
    for what, (own, other) in (
        (f"batch of {len(queries)}", 1e3 * np.array(batch)),
        ("single query", 50 * np.array(single)),
    ):
        print(f"{name}, {what}: {own:.3f} / {other:.3f} ms = {own / other:.2f}", flush=True)


def changes(args: argparse.Namespace) -> None:
    """A thousand ids removed and replaced, in collections of different sizes."""
    rng = np.random.default_rng(1)
    for n in (args.items // 10, args.items):
        codes = random_codes(n, args.bits)
        index, flat = filled(ScanIndex(args.bits), codes), faiss.IndexBinaryFlat(8 * n_bytes(args.bits))
        flat.add(codes)
        removed, replaced, bare = [], [], []
        for start in range(0, 10_000, 1000):
            ids = np.sort(rng.permutation(n - 20_000)[:1000]) + 10_000
            removed.append(timed(partial(index.remove, np.arange(start, start + 1000))))
            replaced.append(timed(partial(index.replace, ids, codes[ids])))
            bare.append(timed(partial(flat.remove_ids, ids)))
        print(
            f"{n} codes: 1,000 ids removed in {1e3 * min(removed):.2f} ms, replaced in "
            f"{1e3 * min(replaced):.2f} ms; removed from FAISS' flat index in {1e3 * min(bare):.2f} ms",
            flush=True,
        )


def ranks(args: argparse.Namespace) -> None:
    """Semantic search over all items beside Hamming's."""
    hasher, data = fitted(args)
    codes = many_codes(hasher, data, args.items)
    ids = np.arange(len(codes))
    index, semantic = filled(ScanIndex(args.bits), codes), ranking.semantic_index(hasher)
    made = timed(partial(semantic.add, ids, codes))
    n_distinct = sum(part.words.shape[1] for part in semantic._parts)
    print(f"{len(codes)} items of {args.data} at {args.bits} bits, {n_distinct} distinct; table {made:.1f} s")
    ranker = ranking.Ranker(hasher, index, codes.__getitem__, semantic)
    margins = hasher.decision_function(data.X_test[:N_QUERIES])

    def one_by_one(rank: ranking.Rank) -> None:
        for q in range(20):
            ranker.nearest(rank, margins[q : q + 1], K)

    batches = best_of(args.repeats, *[partial(ranker.nearest, rank, margins, K) for rank in ranking.RANKS])
    singles = best_of(args.repeats, *[partial(one_by_one, rank) for rank in ranking.RANKS])
    for rank, batch, single in zip(ranking.RANKS, batches, singles, strict=True):
        print(
            f"{rank}: batch of {N_QUERIES} {1e3 * batch:.1f} ms, {batch / batches[0]:.2f} of Hamming's; "
            f"single query {1e3 * single / 20:.3f} ms, {single / singles[0]:.2f}"
        )


def quality(args: argparse.Namespace) -> None:
    """mAP and precision on the test images, each the query once against all others."""
    hasher, data = fitted(args)
    margins, y = hasher.decision_function(data.X_test), np.asarray(data.y_test)
    codes = pack(sign(margins))
    print(f"{args.data}, {args.bits} bits: mAP, precision at 10, at 100")
    for rank in (*ranking.RANKS, "agreement alone"):
        found = []
        for start in range(0, len(y), 500):
            rows = np.arange(start, min(start + 500, len(y)))
            if rank in ranking.RANKS:
                scores = ranking.scores(rank, hasher, margins[rows], codes)
            else:
                asked = hasher.code_proba(ranking.soft_codes(margins[rows]))
                scores = asked @ hasher.code_proba(sign(margins)).T
            others = np.arange(len(y)) != rows[:, None]
            scores = scores[others].reshape(len(rows), -1)
            relevant = (y[rows][:, None] == y)[others].reshape(len(rows), -1)
            precision = [mean_precision_at(k, scores, relevant) for k in (10, 100)]
            found.append([mean_average_precision(scores, relevant), *precision])
        print(f"{rank:16} " + "  ".join(f"{value:.4f}" for value in np.mean(found, axis=0)), flush=True)


if __name__ == "__main__":
    main()
