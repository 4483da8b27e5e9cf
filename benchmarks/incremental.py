"""Updates beside learning from scratch, on any of four data sets: share of the time, and mAP of both.

``python -m benchmarks.incremental`` prints a row for every kind of change, with all defaults; ``--life`` a
life of 100 mixed updates instead, ``--growth`` also the same change on half and on all of the rows. Times
are processor time, as shares of a fit from scratch on the final rows, taken right after the update in the
same run; only these ratios mean anything. Each repeat has a seed of its own, and other classes that come or
go: medians of the times, means of mAP, and the standard error of the difference. The points of the paper's
figures, with its parameters, are those of ``python -m sihash.research reproduce incremental``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.data import N_BITS, NAMES, load
from benchmarks.timing import processor_time

from sihash import SIH
from sihash._typing import Array
from sihash.evaluation import against_database, leave_one_out

Change = Callable[[SIH], object]
Case = tuple[Array, Change, Array]
"""Rows to learn from first, what to do then, and the rows that are there afterwards."""


class Bench:
    """Shuffled training rows, test rows, and hashers with one set of parameters."""

    def __init__(self, args: argparse.Namespace) -> None:
        data = load(args.data)
        order = np.random.RandomState(0).permutation(len(data.X_train))[: args.rows]
        self.X, self.y = np.ascontiguousarray(data.X_train[order]), np.asarray(data.y_train)[order]
        self.X_test, self.y_test = data.X_test, np.asarray(data.y_test)
        self.classes = np.unique(self.y)
        width = args.width if args.width == "auto" else float(args.width)
        self.params: dict[str, Any] = {"kernel_width": width, "anchors": args.how, "solver": args.solver}
        self.params |= {"n_bits": N_BITS.get(args.data, 32), "n_anchors": args.anchors, "random_state": 0}
        self.fit(np.arange(0, len(self.X), 20))  # compiled kernels are loaded outside the timer

    def table(self, rows: Array) -> tuple[Array, Array, list[int]]:
        """Vectors, labels and ids of rows, to be at hand before a clock starts."""
        return self.X[rows], self.y[rows], rows.tolist()

    def adding(self, rows: Array) -> Change:
        table = self.table(rows)
        return lambda hasher: hasher.add(*table)

    def fit(self, rows: Array) -> SIH:
        return SIH(**self.params).fit(*self.table(rows))

    def mAP(self, hasher: SIH, classes: Array) -> float:
        asked = np.isin(self.y_test, classes)
        return leave_one_out(hasher.transform(self.X_test[asked]), self.y_test[asked]).mAP

    def row(self, name: str, case: Callable[[int], Case], repeats: int) -> None:
        """Print one kind of change: the update and the fit from scratch, one after the other."""
        shares, results = [], []
        for seed in range(repeats):
            self.params["random_state"] = seed
            before, change, after = case(seed)
            classes = np.unique(self.y[after])
            hasher = self.fit(before)
            passive = self.mAP(hasher, classes)
            update = processor_time(lambda hasher=hasher, change=change: change(hasher))
            scratch, table = SIH(**self.params), self.table(after)
            shares.append(update / processor_time(lambda scratch=scratch, table=table: scratch.fit(*table)))
            results.append((passive, self.mAP(hasher, classes), self.mAP(scratch, classes)))
        self.params["random_state"] = 0
        passive, incremental, fresh = np.mean(results, axis=0)
        error = np.std([r[1] - r[2] for r in results]) / np.sqrt(repeats)
        steps = f"{hasher.report_.n_steps:5.1f} of {scratch.report_.n_steps:4.1f}"
        print(
            f"{name:24} {np.median(shares):6.2f}   {steps}   {passive:.4f}  {incremental:.4f}  {fresh:.4f}  "
            f"{incremental - fresh:+.4f} ± {error:.4f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="cifar10", choices=NAMES)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--anchors", type=int, default=1000)
    parser.add_argument("--how", default="classes", help="how anchors are chosen: classes or random")
    parser.add_argument("--width", default="auto", help="of the kernel; auto: each fit chooses it")
    parser.add_argument("--solver", default="smooth", choices=["smooth", "ocas"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--brief", action="store_true", help="small changes and one class only")
    parser.add_argument("--life", type=int, nargs="?", const=100, metavar="UPDATES")
    parser.add_argument("--plot", help="file for a picture of --life")
    parser.add_argument("--growth", action="store_true")
    args = parser.parse_args()
    bench = Bench(args)
    if args.life:
        life(bench, args.life, max(1, args.life // 20), args.plot)
        return
    changes(bench, args.repeats, args.brief)
    if args.growth:
        growth(bench, args.repeats)


def changes(bench: Bench, repeats: int, brief: bool) -> None:
    rows, y = np.arange(len(bench.X)), bench.y
    some = 1 if len(bench.classes) < 50 else len(bench.classes) // 20  # classes that come or go
    print("change                   time/scratch   steps       passive  incremental  scratch  difference")

    def removed(n: int) -> Case:
        return rows, lambda h: h.remove(range(n)), rows[n:]

    def without_class(seed: int) -> Case:
        gone = np.roll(bench.classes, seed)[-some:]
        return rows, lambda h: h.remove_classes(gone.tolist()), rows[~np.isin(y, gone)]

    def with_classes(seed: int, n: int) -> Case:
        new = np.isin(y, np.roll(bench.classes, seed)[-n:])
        return rows[~new], bench.adding(rows[new]), rows

    for share in (0.01, 0.1):
        n = round(len(rows) / (1 + share))
        bench.row(f"+ {share:.0%} images", lambda _, n=n: (rows[:n], bench.adding(rows[n:]), rows), repeats)  # type: ignore[misc]
    bench.row("- 1% images", lambda _: removed(len(rows) // 100), repeats)
    bench.row(f"{some} of {len(bench.classes)} classes deleted", without_class, repeats)
    bench.row(f"{some} classes added", lambda seed: with_classes(seed, some), repeats)
    if brief:
        return
    bench.row(f"{3 * some} classes added", lambda seed: with_classes(seed, 3 * some), repeats)
    n = len(rows) // 2
    bench.row("+ 100% images", lambda _: (rows[:n], bench.adding(rows[n:]), rows), repeats)
    ten_percent_first(bench, repeats)


def ten_percent_first(bench: Bench, repeats: int) -> None:
    """The paper's claim: a fit on 10 % and an update to all is cheaper than a fit on all."""
    rows, n = np.arange(len(bench.X)), len(bench.X) // 10
    totals = []
    first, everything, add_rest = bench.table(rows[:n]), bench.table(rows), bench.adding(rows[n:])
    for _ in range(repeats):
        hasher, scratch = SIH(**bench.params), SIH(**bench.params)
        both = processor_time(lambda h=hasher: add_rest(h.fit(*first)))
        totals.append(both / processor_time(lambda h=scratch: h.fit(*everything)))
    score = bench.mAP(hasher, bench.classes)
    print(f"10 % first, then the rest: {np.median(totals):.2f} of a fit on all, mAP {score:.4f}", flush=True)


def growth(bench: Bench, repeats: int) -> None:
    """The same change of fixed size on half of the rows and on all of them."""
    size, costs = len(bench.X) // 100, []
    for n in (len(bench.X) // 2, len(bench.X)):
        rows = np.arange(n)
        seconds = []
        for _ in range(repeats):
            hasher, add = bench.fit(rows[:-size]), bench.adding(rows[-size:])
            seconds.append(processor_time(lambda h=hasher, add=add: add(h)))
        costs.append(float(np.median(seconds)))
    print(
        f"+ {size} images: {costs[1] / costs[0]:.2f} times the cost when the collection is twice as large",
        flush=True,
    )


def life(bench: Bench, n_updates: int, every: int, plot: str | None) -> None:
    """Classes come until all are there, and go again; in between rows come and go, a twentieth at a time.

    Codes are kept as an item got them when it came. Every so often all is learned from scratch: mAP of test
    queries on the kept codes, on codes made again, and from scratch; P@1 likewise.
    """
    rng, y, few = np.random.RandomState(0), bench.y, max(2, len(bench.classes) // 10)
    order = rng.permutation(bench.classes)
    there = np.isin(y, order[:few]) & (rng.uniform(size=len(y)) < 0.9)
    hasher = bench.fit(np.flatnonzero(there))
    kept = hasher.transform(bench.X)
    table: list[tuple[float, ...]] = []
    print("update  classes    rows  changed  time/scratch   mAP: kept  again  scratch   P@1: the same three")
    for k in range(1, n_updates + 1):
        share = 1 - abs(2 * k / n_updates - 1)
        n = few + round((len(bench.classes) - few) * share)
        gone = [label for label in order[n:].tolist() if there[y == label].any()]
        leaves = there & ~np.isin(y, gone) & (rng.uniform(size=len(y)) < 0.05)
        comes = ~there & np.isin(y, order[:n]) & (rng.uniform(size=len(y)) < 0.5)
        rows, leaving = bench.table(np.flatnonzero(comes)), np.flatnonzero(leaves).tolist()
        after = (there & ~leaves & ~np.isin(y, gone)) | comes
        changed = float(np.mean((after != there)[there | after]))
        seconds = processor_time(
            lambda h=hasher, rows=rows, out=leaving, gone=gone: h.update(
                *rows, remove=out, remove_classes=gone
            )
        )
        there = after
        kept[comes] = hasher.transform(bench.X[comes])
        if k % every and k < n_updates:
            continue
        scratch, own = SIH(**bench.params), bench.table(np.flatnonzero(there))
        fresh = processor_time(lambda h=scratch, own=own: h.fit(*own))
        asked = np.isin(bench.y_test, order[:n])
        X, labels = bench.X_test[asked], bench.y_test[asked]
        found = [
            against_database(h.transform(X), labels, codes, y[there], k=(1,))
            for h, codes in (
                (hasher, kept[there]),
                (hasher, hasher.transform(bench.X[there])),
                (scratch, scratch.transform(bench.X[there])),
            )
        ]
        mAP, first = [each.mAP for each in found], [each.precision_at[1] for each in found]
        table.append((k, n, changed, seconds / fresh, *mAP, *first))
        print(
            f"{k:6}  {n:7}  {there.sum():6}  {changed:7.2f}  {seconds / fresh:12.2f}   "
            + "   ".join("      ".join(f"{value:.4f}" for value in values) for values in (mAP, first)),
            flush=True,
        )
    if plot:
        _plot_life(np.array(table), plot)


def _plot_life(table: Array, path: str) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    for axis, start, title in ((axes[0], 4, "mAP"), (axes[1], 7, "P@1")):
        for column, name in enumerate(("codes as they were made", "codes made again", "from scratch")):
            axis.plot(table[:, 0], table[:, start + column], label=name)
        axis.set(title=title, xlabel="update")
    axes[0].legend()
    axes[2].scatter(table[:, 2], table[:, 3])
    axes[2].set(title="time / from scratch", xlabel="share of the rows that changed", xlim=0, ylim=0)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
