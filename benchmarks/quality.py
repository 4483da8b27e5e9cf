"""mAP, precision at radius 2, and accuracy of `predict` of SIH over seeds, on the data of docs/hasher.md.

``python -m benchmarks.quality tiny-imagenet:64:1000 clinc150:32:1000:linear`` takes
data:bits:anchors[:kernel].
"""

from __future__ import annotations

import argparse

import numpy as np
from benchmarks.data import load
from benchmarks.timing import timed

from sihash import SIH
from sihash._typing import Array
from sihash.evaluation import leave_one_out

ALL = [
    "cifar10:32:1000",
    "cifar10:32:3000",
    "mnist:32:1000",
    "tiny-imagenet:32:1000",
    "tiny-imagenet:64:1000",
]
ALL += ["tiny-imagenet:64:3000", "clinc150:32:1000", "clinc150:64:1000"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", default=ALL, help="data:bits:anchors[:kernel]; default: the table")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    print("data:bits:anchors[:kernel]  mAP, precision at 2, accuracy, mean confidence (± over seeds); fit s")
    for run in args.runs:
        name, bits, anchors, *kernel = run.split(":")
        data = load(name)
        X, T = (np.asarray(part, dtype=np.float32) for part in (data.X_train, data.X_test))
        y, t = np.asarray(data.y_train), np.asarray(data.y_test)
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
