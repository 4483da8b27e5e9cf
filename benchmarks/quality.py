"""mAP, precision at radius 2, and accuracy of `predict` of SIH over seeds, on the data of docs/hasher.md.

``python -m benchmarks.quality tiny:64:1000 clinc:32:1000:linear`` takes data:bits:anchors[:kernel]. CLINC150
and Tiny-ImageNet-200 are read from the folder that ``SIHASH_DATA`` names.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from benchmarks import data as named
from benchmarks.timing import timed

from sihash import SIH
from sihash._typing import Array
from sihash.evaluation import leave_one_out

FILES = {"tiny": "tiny-imagenet-200/efficientnet-lite0.npz", "clinc": "clinc150/minilm.npz"}
ALL = ["cifar10:32:1000", "cifar10:32:3000", "mnist:32:1000", "tiny:32:1000", "tiny:64:1000", "tiny:64:3000"]
ALL += ["clinc:32:1000", "clinc:64:1000"]


def load(name: str) -> tuple[Array, Array, Array, Array]:
    if name in FILES:
        with np.load(Path(os.environ["SIHASH_DATA"]) / FILES[name]) as stored:
            X, y, T, t = (stored[part] for part in ("X_train", "y_train", "X_test", "y_test"))
    else:
        found = named.load(name)
        assert found.y_train is not None
        assert found.y_test is not None
        X, y, T, t = found.X_train, found.y_train, found.X_test, found.y_test
    return X.astype(np.float32), y, T.astype(np.float32), t


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", default=ALL, help="data:bits:anchors[:kernel]; default: the table")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    print("data:bits:anchors[:kernel]  mAP, precision at 2, accuracy, mean confidence (± over seeds); fit s")
    for run in args.runs:
        name, bits, anchors, *kernel = run.split(":")
        X, y, T, t = load(name)
        params = {"n_bits": int(bits), "n_anchors": int(anchors), "kernel": kernel[0] if kernel else "rbf"}
        rows = np.array([measure(params, seed, X, y, T, t) for seed in range(args.seeds)])
        found = ", ".join(
            f"{m:.4f} ± {s:.4f}" for m, s in zip(rows.mean(0)[:4], rows.std(0)[:4], strict=True)
        )
        print(f"{run}  {found}; {np.median(rows[:, 4]):.1f} s", flush=True)


def measure(
    params: dict[str, int | str], seed: int, X: Array, y: Array, T: Array, t: Array
) -> tuple[float, float, float, float, float]:
    hasher = SIH(**params, random_state=seed)  # type: ignore[arg-type]
    seconds = timed(lambda: hasher.fit(X, y))
    scores, P = leave_one_out(hasher.transform(T), t), hasher.predict_proba(T)
    right = hasher.classes_[P.argmax(axis=1)] == t
    return scores.mAP, scores.precision[2], right.mean(), P.max(axis=1).mean(), seconds


if __name__ == "__main__":
    main()
