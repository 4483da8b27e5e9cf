"""A million codes on a Milvus server: recall, and search through our interface beside bare pymilvus.

``python -m benchmarks.milvus milvus+http://127.0.0.1:19530/name`` makes an index of that name from codes of a
hasher and drops it in the end. ``milvus-server --data FOLDER`` of the package ``milvus`` starts a server.
Only ratios within one run mean anything.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from benchmarks.data import FEATURES
from benchmarks.search import N_QUERIES, K, best_of, filled, fitted, many_codes
from benchmarks.timing import timed

from sihash._typing import Array
from sihash.index import ScanIndex
from sihash.index.milvus import CONSISTENCY, N_SEARCHED, MilvusIndex


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--data", default="cifar10", choices=sorted(FEATURES))
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    hasher, data = fitted(args)
    codes, queries = many_codes(hasher, data, args.items), hasher.transform(data.X_test[:1000])
    index = MilvusIndex(args.url, args.bits)
    try:
        compare(index, codes, queries, args.repeats)
    finally:
        index.drop()


def compare(index: MilvusIndex, codes: Array, queries: Array, repeats: int) -> None:
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
