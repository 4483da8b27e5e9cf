"""GIST beside a network of today: the same photos of CIFAR-10, P@1 and P@10.

python -m benchmarks.networks /path/to/efficientnet-lite0-features.onnx
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from sihash import Database
from sihash.research import data as research_data

OPTIONS = {"size": 112, "mean": (0.498,) * 3, "std": (0.502,) * 3, "output": "features"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network", help="an ONNX file that takes what EfficientNet-Lite0 takes")
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--queries", type=int, default=1000)
    args = parser.parse_args()
    data = research_data.load("cifar10")
    rng = np.random.default_rng(0)
    items = rng.choice(len(data.X_train), args.items, replace=False)
    queries = rng.choice(len(data.X_test), args.queries, replace=False)
    print("| features | numbers | seconds for all | P@1, P@10 | by the vectors alone |")
    print("| --- | --- | --- | --- | --- |")
    for features, options in (("gist", {}), (f"onnx:{args.network}", OPTIONS)):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            X = list(data.X_train[items])
            labels = data.y_train[items].tolist()
            db = Database.create(
                Path(folder) / "db", X, labels, features=features, feature_options=options, thumbnails=False
            )
            seconds = time.perf_counter() - start
            asked = list(data.X_test[queries]), data.y_test[queries].tolist()
            ours, nearest = db.evaluate(*asked), db.evaluate(*asked, rank="vector")
            width = db.info()["n_features"]
            db.close()
        print(
            f"| {features.partition(':')[0]} | {width} | {seconds:.0f} "
            f"| {ours.p_at_1:.3f}, {ours.p_at_10:.3f} | {nearest.p_at_1:.3f}, {nearest.p_at_10:.3f} |"
        )


if __name__ == "__main__":
    main()
