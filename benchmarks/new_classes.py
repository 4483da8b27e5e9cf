"""Classes that come later: new queries on old codes, and forgetting, on data with many classes.

``python -m benchmarks.new_classes`` learns 150 classes of Tiny-ImageNet-200 and adds 50, then 100 and 100.
Test queries search training rows by Hamming distance. It prints the processor time of the update as a share
of a fit from scratch; mAP of all, and of queries and items of the new classes, beside from scratch; and mAP
of old queries on the codes of old items: those made before, and made again by the updated functions.
``--steps 10`` adds 20 classes ten times instead and plots mAP and forgetting to ``--out``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from benchmarks.data import N_BITS, NAMES, load
from benchmarks.timing import processor_time

from sihash import SIH
from sihash._typing import Array
from sihash.evaluation import against_database


class Bench:
    def __init__(self, name: str, seed: int) -> None:
        data = load(name)
        self.X, self.y = np.ascontiguousarray(data.X_train), np.asarray(data.y_train)
        self.Q, self.q = data.X_test, np.asarray(data.y_test)
        self.classes = np.random.RandomState(seed).permutation(np.unique(self.y))
        self.params = {"n_bits": N_BITS.get(name, 32), "random_state": seed}

    def hasher(self) -> SIH:
        return SIH(**self.params)  # type: ignore[arg-type]

    def rows(self, classes: Array) -> tuple[Array, Array]:
        own = np.isin(self.y, classes)
        return self.X[own], self.y[own]

    def mAP(self, hasher: SIH, classes: Array, codes: Array, y: Array) -> float:
        """Test queries of some classes on stored codes."""
        asked = np.isin(self.q, classes)
        return against_database(hasher.transform(self.Q[asked]), self.q[asked], codes, y).mAP


def join(bench: Bench, n_new: int) -> dict[str, float]:
    old, new = bench.classes[:-n_new], bench.classes[-n_new:]
    X_old, y_old = bench.rows(old)
    X_new, y_new = bench.rows(new)
    X, y = np.concatenate([X_old, X_new]), np.concatenate([y_old, y_new])
    hasher, scratch = bench.hasher().fit(X_old, y_old), bench.hasher()
    before = hasher.transform(X_old)
    share = processor_time(lambda: hasher.add(X_new, y_new)) / processor_time(lambda: scratch.fit(X, y))
    again = hasher.transform(X_old)
    mixed = np.concatenate([before, hasher.transform(X_new)])
    ours, theirs = hasher.transform(X), scratch.transform(X)
    return {
        "time": share,
        "all": bench.mAP(hasher, bench.classes, ours, y),
        "all, scratch": bench.mAP(scratch, bench.classes, theirs, y),
        "all, old items as they were": bench.mAP(hasher, bench.classes, mixed, y),
        "new": bench.mAP(hasher, new, ours[len(y_old) :], y_new),
        "new, scratch": bench.mAP(scratch, new, theirs[len(y_old) :], y_new),
        "old codes": bench.mAP(hasher, old, before, y_old),
        "encoded again": bench.mAP(hasher, old, again, y_old),
    }


def steps(bench: Bench, n_steps: int, out: Path) -> None:
    """Classes come in equal parts; nothing is ever encoded again."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    parts = np.array_split(bench.classes, n_steps)
    hasher, codes, labels = bench.hasher(), [], []
    lines: dict[str, list[float]] = {
        "all classes so far": [],
        "from scratch": [],
        "the first classes alone": [],
    }
    shares = []
    for k, part in enumerate(parts):
        X, y = bench.rows(part)
        update = processor_time(lambda X=X, y=y: hasher.partial_fit(X, y))  # type: ignore[misc]
        codes.append(hasher.transform(X))
        labels.append(y)
        stored, known = np.concatenate(codes), np.concatenate(labels)
        so_far = np.concatenate(parts[: k + 1])
        scratch = bench.hasher()
        rows = bench.rows(so_far)
        shares.append(update / processor_time(lambda scratch=scratch, rows=rows: scratch.fit(*rows)))  # type: ignore[misc]
        lines["all classes so far"].append(bench.mAP(hasher, so_far, stored, known))
        lines["from scratch"].append(bench.mAP(scratch, so_far, scratch.transform(rows[0]), rows[1]))
        lines["the first classes alone"].append(bench.mAP(hasher, parts[0], codes[0], labels[0]))
        told = "  ".join(f"{name} {values[-1]:.4f}" for name, values in lines.items())
        print(f"{len(so_far):4} classes: {told}  time {shares[-1]:.2f}", flush=True)
    figure, axes = plt.subplots(figsize=(6, 3.6))
    counts = np.cumsum([len(part) for part in parts])
    for (name, values), style in zip(lines.items(), ("o-", "s--", "^:"), strict=True):
        axes.plot(counts, values, style, label=name, markersize=4)
    axes.set(xlabel="classes", ylabel="mAP of test queries", ylim=(0, None))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(out, dpi=150)
    print(f"plotted to {out}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", default="tiny-imagenet", choices=NAMES)
    parser.add_argument("--new", type=int, nargs="*", default=[50, 100])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("new-classes.png"))
    args = parser.parse_args()
    if args.steps:
        steps(Bench(args.data, 0), args.steps, args.out)
        return
    Bench(args.data, 0).hasher().fit(*Bench(args.data, 0).rows(np.unique(Bench(args.data, 0).y)[:5]))
    for n_new in args.new:
        found = [join(Bench(args.data, seed), n_new) for seed in range(args.repeats)]
        print(f"{n_new} classes join, {args.repeats} seeds")
        for name in found[0]:
            values = [each[name] for each in found]
            print(
                f"  {name:30} {np.median(values):.4f}  ({min(values):.4f} to {max(values):.4f})", flush=True
            )


if __name__ == "__main__":
    main()
