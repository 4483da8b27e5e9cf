"""The protocols by which methods of incremental hashing are compared, each by one command.

``python -m benchmarks.protocols split`` learns seven classes of CIFAR-10 and then three more: 1,000 queries,
100 a class, ask 59,000 items, which are also what is learned from, as in DIHN (Wu and others, CVPR 2019).
``classes`` lets 20 classes of Tiny-ImageNet-200 come ten times and tells what the first ones lose.
``stream`` adds and deletes images and classes over 100 steps, beside passive and from scratch.
``--features onnx:FILE`` takes a network in the place of GIST. Records, tables and plots go to ``--out``; what
is recorded there is not run again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.data import N_BITS, load
from benchmarks.timing import processor_time

from sihash import SIH
from sihash._typing import Array
from sihash.codes import pack
from sihash.evaluation import against_database
from sihash.research.changes import LiveCollection, change_kinds
from sihash.research.records import Record, Records
from sihash.research.runner import timed
from sihash.research.task import Rows, load_task

N_OLD, QUERIES_A_CLASS = 7, 100
SCRATCH_EVERY = 10  # steps of the stream between two fits from scratch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["split", "classes", "stream"])
    parser.add_argument("--data", default="cifar10", help="a name or a path; classes has its own")
    parser.add_argument("--features", help="of images: gist, pixels or onnx:FILE; default: the usual ones")
    parser.add_argument("--bits", type=int, nargs="*", default=[32])
    parser.add_argument("--seeds", type=int, default=3, help="of split: other queries, other classes")
    parser.add_argument("--steps", type=int, default=100, help="of stream")
    parser.add_argument("--out", type=Path, default=Path("sihash-protocols"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.what == "classes":
        growing_classes(GrowingClasses("tiny-imagenet", 0), 10, args.out / "classes.png")
    elif args.what == "split":
        split(args)
    else:
        stream(args)


def recorded(args: argparse.Namespace, work: Callable[[], dict[str, Any]], **name: Any) -> Record:
    """The record of that name, made now if there is none."""
    records = Records(args.out / "records.jsonl")
    features = Path(args.features).name if args.features else None
    key = {"kind": args.what, "data": args.data, "features": features, **name}
    if key not in records:
        result, seconds = timed(work)
        records.add(key, result, seconds["wall"])
    return records[key]


def titled(args: argparse.Namespace, n_bits: int) -> str:
    features = Path(args.features).name if args.features else "usual features"
    return f"{Path(args.data).stem}, {features}, {n_bits} bits"


# Ten times 20 classes.


class GrowingClasses:
    """Classes of a data set that come one after the other, and its test queries."""

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


def growing_classes(bench: GrowingClasses, n_steps: int, out: Path) -> None:
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


# Seven classes, then three.


def split(args: argparse.Namespace) -> None:
    for n_bits in args.bits:
        found = [
            recorded(args, partial(seven_then_three, args, n_bits, seed), n_bits=n_bits, seed=seed)["result"]
            for seed in range(args.seeds)
        ]
        print(f"{titled(args, n_bits)}, {len(found)} seeds")
        for name in found[0]:
            values = [each[name] for each in found]
            print(f"  {name:45} {np.mean(values):.3f} ± {np.std(values):.3f}", flush=True)


def seven_then_three(args: argparse.Namespace, n_bits: int, seed: int) -> dict[str, float]:
    """mAP of the 1,000 queries by every way to code the items, and the seconds of the processor."""
    items, queries, old = dihn_rows(args, seed)
    first, later = items[old], items[~old]
    hasher, passive, scratch = (SIH(n_bits, random_state=seed) for _ in range(3))
    SIH(8, 20, random_state=0).fit(
        first.X[::50], first.y[::50]
    )  # compiled loops are loaded outside the timer
    _, fit_seconds = timed(lambda: hasher.fit(first.X, first.y))
    passive.fit(first.X, first.y)
    before = hasher.transform(first.X)
    _, update_seconds = timed(lambda: hasher.add(later.X, later.y))
    _, scratch_seconds = timed(lambda: scratch.fit(items.X, items.y))
    y = np.concatenate([first.y, later.y])
    again, new = hasher.transform(first.X), hasher.transform(later.X)

    def mAP(functions: SIH, stored: Array, labels: Array) -> float:
        return against_database(functions.transform(queries.X), queries.y, stored, labels).mAP

    return {
        "hashed / hashed": mAP(hasher, np.concatenate([again, new]), y),
        "new query / old code": mAP(hasher, np.concatenate([before, new]), y),
        "label-coded": mAP(hasher, pack(hasher.codes_), y),
        "passive, hashed / hashed": mAP(passive, np.concatenate([before, passive.transform(later.X)]), y),
        "from scratch, hashed / hashed": mAP(scratch, scratch.transform(items.X), items.y),
        "from scratch, label-coded": mAP(scratch, pack(scratch.codes_), items.y),
        "share of old codes that would change": float(np.any(before != again, axis=1).mean()),
        "fit of seven, s": fit_seconds["cpu"],
        "update, s": update_seconds["cpu"],
        "from scratch, s": scratch_seconds["cpu"],
    }


def dihn_rows(args: argparse.Namespace, seed: int) -> tuple[Rows, Rows, Array]:
    """Items, queries, and which items are of the first classes: all drawn from all images at random."""
    task = load_task(args.data, None, None, features=args.features)
    X, y = np.concatenate([task.train.X, task.test.X]), np.concatenate([task.train.y, task.test.y])
    rng = np.random.RandomState(seed)
    asked = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:QUERIES_A_CLASS] for c in task.classes])
    rest = np.setdiff1d(np.arange(len(y)), asked)
    everything = Rows(X, y)
    return everything[rest], everything[asked], np.isin(y[rest], rng.permutation(task.classes)[:N_OLD])


# A stream of additions and deletions.


def stream(args: argparse.Namespace) -> None:
    lines = {}
    for n_bits in args.bits:
        name = {"n_bits": n_bits, "n_steps": args.steps, "seed": 0}
        steps = recorded(args, partial(live, args, n_bits), **name)["result"]["steps"]
        title = titled(args, n_bits)
        lines[title] = steps
        print(title)
        print("step   items classes  passive  codes kept  encoded again  scratch  update s  scratch s")
        for number, step in enumerate(steps, start=1):
            if "scratch" in step:
                print(
                    f"{number:4} {step['n_items']:7,} {step['n_classes']:7}  {step['passive']:.3f}    "
                    f"{step['kept']:.3f}       {step['again']:.3f}         {step['scratch']:.3f}    "
                    f"{step['seconds']:.2f}      {step['scratch_seconds']:.2f}"
                )
        print_sums(steps)
    features = Path(args.features or "usual").stem.replace(":", "_")
    plot_stream(lines, args.out / f"stream_{Path(args.data).stem}_{features}.png")


def print_sums(steps: list[dict[str, Any]]) -> None:
    compared = [step for step in steps if "scratch" in step]
    difference = [step["kept"] - step["scratch"] for step in compared]
    print(
        f"all {len(steps)} updates: {sum(step['seconds'] for step in steps):.1f} s, 0 codes rewritten; a fit "
        f"from scratch each time: {len(steps) * np.mean([s['scratch_seconds'] for s in compared]):.1f} s, "
        f"{sum(step['n_items'] for step in steps):,} codes rewritten; kept codes less from scratch: mAP "
        f"{np.mean(difference):+.4f} ({min(difference):+.4f} to {max(difference):+.4f})"
    )


def live(args: argparse.Namespace, n_bits: int) -> dict[str, Any]:
    """1,000 test queries on the items that are there, after every step.

    ``kept``: items have the code that they came with. ``passive``: the first hash functions code items and
    queries. Every tenth step also: items coded again by the functions of the moment, and a fit from scratch.
    """
    task = load_task(args.data, None, 1000, features=args.features)
    X, y = task.train.X, task.train.y
    now = LiveCollection.start(task, 0)

    def fitted() -> SIH:
        rows = np.flatnonzero(now.inside)
        return SIH(n_bits, random_state=0).fit(X[rows], y[rows], ids=rows.tolist())

    def mAP(functions: SIH, stored: Array) -> float:
        asked = np.isin(task.test.y, now.classes)
        queries = functions.transform(task.test.X[asked])
        return against_database(queries, task.test.y[asked], stored[now.inside], y[now.inside]).mAP

    hasher, passive = fitted(), fitted()
    kept, passive_codes = hasher.transform(X), passive.transform(X)
    steps = []
    for number, wanted in enumerate(change_kinds(now.rng, args.steps), start=1):
        kind, rows, gone = now.next_change(wanted, task.classes.tolist())
        if kind.startswith("add"):
            change = partial(hasher.update, X=X[rows], y=y[rows], ids=rows.tolist())
        else:
            change = partial(
                hasher.update, **({"remove_classes": gone} if gone else {"remove": rows.tolist()})
            )
        seconds = timed(change)[1]["cpu"]
        if kind.startswith("add"):
            kept[rows] = hasher.transform(X[rows])
        step = {"kind": kind, "n_items": int(now.inside.sum()), "n_classes": len(now.classes)}
        step |= {"n_changed": len(rows), "seconds": seconds}
        step |= {"kept": mAP(hasher, kept), "passive": mAP(passive, passive_codes)}
        if number % SCRATCH_EVERY == 0:
            scratch, taken = timed(fitted)
            step |= {"again": mAP(hasher, hasher.transform(X)), "scratch": mAP(scratch, scratch.transform(X))}
            step |= {"scratch_seconds": taken["cpu"]}
        steps.append(step)
    return {"steps": steps}


def plot_stream(lines: dict[str, list[dict[str, Any]]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4 * len(lines)), layout="constrained")
    for ax, (title, steps) in zip(
        figure.subplots(len(lines), squeeze=False)[:, 0], lines.items(), strict=True
    ):
        numbers = np.arange(1, len(steps) + 1)
        for name, label, style in (
            ("kept", "updated, codes kept", "-"),
            ("passive", "passive", ":"),
            ("again", "updated, everything encoded again", "^"),
            ("scratch", "from scratch", "s"),
        ):
            there = [k for k, step in enumerate(steps) if name in step]
            ax.plot(numbers[there], [steps[k][name] for k in there], style, label=label, markersize=5)
        ax.set(xlabel="update", ylabel="mAP of test queries", ylim=(0, None), title=title)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, ncols=2)
    figure.savefig(path, dpi=110)
    print(f"plotted to {path}")


if __name__ == "__main__":
    main()
