"""Search: first hits beside cosine, and time over a million codes beside bare FAISS.

``python -m benchmarks.search speed`` sets our indexes beside bare FAISS calls, on random codes and on codes
of a hasher; ``changes`` measures removal and replacement. ``first`` prints P@1, P@10 and mAP of searches on
real data, beside cosine on the raw vectors (``--hidden 0.5`` hides half of the labels); ``time`` what a query
over many items takes by each ranking, beside the scan alone. ``milvus URL`` has a million codes on a server.
Only ratios within one run mean anything.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import faiss
import numpy as np
from benchmarks.data import N_BITS, NAMES, load
from benchmarks.timing import timed
from threadpoolctl import threadpool_limits

from sihash import SIH, Database
from sihash._typing import Array
from sihash.codes import n_bytes
from sihash.datasets import Dataset
from sihash.evaluation.alternatives import linear_discriminants
from sihash.index import ScanIndex
from sihash.ranking import RANKS

N_QUERIES = 100
K = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["first", "time", "speed", "changes", "milvus"])
    parser.add_argument("url", nargs="?", help="of milvus, like milvus+http://127.0.0.1:19530/name")
    parser.add_argument("--data", default="cifar10", help=f"one of {', '.join(NAMES)}; all, with first")
    parser.add_argument("--hidden", type=float, default=0.0, help="share of labels hidden, with first")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    {"first": first, "time": time, "speed": speed, "changes": changes, "milvus": milvus}[args.what](args)


def best_of(repeats: int, *works: Callable[[], object]) -> list[float]:
    """Least seconds of each, run in turns."""
    for work in works:
        work()
    return [min(times) for times in zip(*[[timed(w) for w in works] for _ in range(repeats)], strict=True)]


# Codes.


def random_codes(n: int, n_bits: int) -> Array:
    return np.random.default_rng(0).integers(0, 256, (n, n_bytes(n_bits)), dtype=np.uint8)


def fitted(args: argparse.Namespace) -> tuple[SIH, Dataset]:
    data = load(args.data)
    return SIH(n_bits=args.bits, random_state=0).fit(data.X_train, data.y_train), data


def many_codes(hasher: SIH, data: Dataset, n: int) -> Array:
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


def database_of(folder: Path, X: Array, y: Array, bits: int, hidden: float = 0.0) -> Database:
    """A database of all rows, stored class by class; a share of the labels hidden."""
    order = np.argsort(y, kind="stable")
    gone = np.random.default_rng(0).random(len(y)) < hidden
    labels = [None if gone[k] else int(y[k]) for k in order]
    return Database.create(folder / "db", X[order], labels, n_bits=bits)


def cosine_precision(X: Array, y: Array, queries: Array, labels: Array) -> list[float]:
    """P@1 and P@10 of cosine on the raw vectors."""
    Z, hits = _unit(X), []
    for rows in np.array_split(np.arange(len(queries)), max(1, len(queries) // 500)):
        scores = _unit(queries[rows]) @ Z.T
        near = np.argpartition(-scores, K, axis=1)[:, :K]
        order = np.argsort(-np.take_along_axis(scores, near, axis=1), axis=1)
        hits.append(y[np.take_along_axis(near, order, axis=1)] == labels[rows, None])
    found = np.concatenate(hits)
    return [float(found[:, 0].mean()), float(found.mean())]


def label_precision(X: Array, y: Array, queries: Array, labels: Array) -> float:
    """How often the label of a linear discriminant, learned from all rows, is that of the query."""
    classes, numbers = np.unique(y, return_inverse=True)
    log_proba = linear_discriminants(X, numbers, np.ones(len(y), dtype=bool))
    return float(np.mean(classes[log_proba(queries).argmax(axis=1)] == labels))


def _unit(X: Array) -> Array:
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def first(args: argparse.Namespace) -> None:
    """First hits of test queries on a database of all training rows, beside cosine."""
    for name in NAMES if args.data == "all" else [args.data]:
        data, bits = load(name), N_BITS.get(name, 32)
        X, queries = (np.asarray(part, dtype=np.float32) for part in (data.X_train, data.X_test))
        y, labels = np.asarray(data.y_train), np.asarray(data.y_test)
        with TemporaryDirectory() as folder, database_of(Path(folder), X, y, bits, args.hidden) as database:
            if args.hidden:  # an answer may have no label; what it would be is known here
                order = np.argsort(y, kind="stable")
                hits = [[y[order[h.id]] for h in a.hits] for a in database.search(queries)]
                right = np.array(hits) == labels[:, None]
                ours = [right[:, 0].mean(), right.mean(), np.nan]
            else:
                found = database.evaluate(queries, labels.tolist(), max_queries=len(queries))
                ours = [found.p_at_1, found.p_at_10, found.mAP]
            remarks = np.mean([a.remark is not None for a in database.search(queries)])
            cosine = cosine_precision(X, y, queries, labels)
            lda = label_precision(X, y, queries, labels)
            print(
                f"{name}, {bits} bits, {len(y):,} items, {len(labels):,} queries: "
                f"P@1 {ours[0]:.3f} P@10 {ours[1]:.3f} mAP {ours[2]:.3f}; "
                f"cosine P@1 {cosine[0]:.3f} P@10 {cosine[1]:.3f}; LDA's label P@1 {lda:.3f}; "
                f"{remarks:.3f} look like no class",
                flush=True,
            )
            if (unknown := getattr(data, "X_unknown", None)) is not None:
                told = [a.remark is not None for a in database.search(unknown)]
                print(f"  of {len(told):,} queries of no class {np.mean(told):.3f} look like none")


def time(args: argparse.Namespace) -> None:
    """One query over many made items, by the whole search of a database and by the scan alone."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((100, 256), dtype=np.float32)
    y = rng.integers(100, size=args.items)
    X = centres[y] + 1.2 * rng.standard_normal((args.items, 256), dtype=np.float32)
    with TemporaryDirectory() as folder:
        database = Database.create(Path(folder) / "db", X, y.tolist(), n_bits=args.bits, training_rows=3000)
        queries = centres[:N_QUERIES] + 1.2 * rng.standard_normal((N_QUERIES, 256), dtype=np.float32)
        index = filled(ScanIndex(args.bits), database._read(lambda s: s.codes(np.arange(args.items))))
        codes = database._read(lambda s: s.hasher.transform(queries))
        works = {
            "scan alone": lambda q: index.search(codes[q : q + 1], K),
            **{
                rank: lambda q, rank=rank: database.search(queries[q : q + 1], k=K, rank=rank)
                for rank in RANKS
            },
        }
        for work in works.values():
            work(0)
        taken = {
            name: np.median([timed(partial(work, q)) for q in range(N_QUERIES)])
            for name, work in works.items()
        }
        for name, seconds in taken.items():
            print(f"{name}: {1e3 * seconds:.2f} ms, {seconds / taken['scan alone']:.2f} of the scan alone")


# A Milvus server.


def milvus(args: argparse.Namespace) -> None:
    """An index of that name on a server, beside bare pymilvus; it is dropped in the end."""
    from sihash.index.milvus import MilvusIndex

    hasher, data = fitted(args)
    codes, queries = many_codes(hasher, data, args.items), hasher.transform(data.X_test[:1000])
    index = MilvusIndex(args.url, args.bits)
    try:
        compare_with_bare(index, codes, queries, args.repeats)
    finally:
        index.drop()


def compare_with_bare(index: Any, codes: Array, queries: Array, repeats: int) -> None:
    from sihash.index.milvus import CONSISTENCY, N_SEARCHED

    starts = range(0, len(codes), 50_000)
    batches = [(np.arange(len(codes))[s : s + 50_000], codes[s : s + 50_000]) for s in starts]
    seconds = timed(partial(index.prepare, index.version + 1, batches, len(codes)))
    index.publish(index.version + 1)
    print(f"{len(codes)} codes written and indexed in {seconds:.0f} s", flush=True)
    about = index.describe()
    truth, _ = filled(ScanIndex(index.n_bits), codes).search(queries, K)
    distances, _ = index.search(queries, K)
    recall = np.mean((distances >= 0) & (distances <= truth[:, -1:]))
    print(f"{about}; recall at {K} of {len(queries)} test images: {recall:.4f}", flush=True)

    def bare(some: Array) -> None:
        index._client.search(
            index._own,
            data=[code.tobytes() for code in some],
            limit=K,
            anns_field="code",
            search_params={"metric_type": "HAMMING", "params": {"nprobe": N_SEARCHED}},
            consistency_level=CONSISTENCY,
        )

    for some in (queries[:1], queries[:N_QUERIES], queries):
        own, other = best_of(repeats, partial(index.search, some, K), partial(bare, some))
        print(f"{len(some)} queries: {1e3 * own:.2f} / {1e3 * other:.2f} ms = {own / other:.2f}", flush=True)


if __name__ == "__main__":
    main()
