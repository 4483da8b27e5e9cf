"""Pictures by matplotlib of what the methods of a database return; each returns the axes that it drew on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sihash.database.answers import UPDATE_WAYS
from sihash.store.labels import label_words

if TYPE_CHECKING:
    from sihash.database.answers import Evaluation, UpdateReport
    from sihash.database.inspection.mapping import Map

NAMED = 30  # classes with their names on a map; pairs of classes in a list


def _axes(axes: Any) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Pictures need matplotlib: pip install 'sihash[plots]'.") from None
    return plt.subplots(layout="constrained")[1] if axes is None else axes


def draw_map(drawn: Map, axes: Any = None) -> Any:
    """Items in the plane, coloured by class; the largest classes have their names written at their median."""
    axes = _axes(axes)
    words = np.array([label_words(own) for own in drawn.labels])
    names, classes, sizes = np.unique(words, return_inverse=True, return_counts=True)
    few = len(names) <= 10
    axes.scatter(
        *drawn.coordinates.T,
        c=classes if few else classes * 0.618 % 1,  # neighbours in the alphabet in unlike colours
        cmap="tab10" if few else "gist_rainbow",
        vmin=0,
        vmax=9 if few else 1,
        s=np.clip(20_000 / len(words), 0.5, 12),
        linewidths=0,
    )
    for k in np.argsort(-sizes, kind="stable")[:NAMED]:
        middle = np.median(drawn.coordinates[classes == k], axis=0)
        box = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1}
        axes.text(*middle, names[k], size=8, ha="center", va="center", bbox=box)
    axes.set(xticks=[], yticks=[], aspect="equal")
    part = "" if len(words) == drawn.n_items else f" {len(words):,} of"
    axes.set_title(f"Map of{part} {drawn.n_items:,} items, version {drawn.version}")
    return axes


def draw_quality(evaluation: Evaluation, axes: Any = None) -> Any:
    """How often the first hit is right, for every class by its number of items, and for classes of like
    size.
    """
    axes = _axes(axes)
    sizes = np.array([each.n_items for each in evaluation.classes])
    quality = np.array([each.p_at_1 for each in evaluation.classes])
    axes.scatter(sizes, quality, s=18, alpha=0.6, linewidths=0)
    octaves = np.floor(np.log2(np.maximum(sizes, 1)))
    means = [(np.exp(np.log(sizes[own]).mean()), quality[own].mean()) for own in _groups(octaves)]
    if len(means) > 1:
        axes.plot(*zip(*means, strict=True), color="black", label="mean of classes of like size")
        axes.legend(loc="lower right")
    axes.set(xscale="log", ylim=(-0.03, 1.03), xlabel="items of the class", ylabel="P@1")
    axes.set_title(f"Quality by class size, version {evaluation.version}")
    return axes


def _groups(values: Any) -> list[Any]:
    return [values == value for value in np.unique(values)]


def draw_confused(evaluation: Evaluation, axes: Any = None) -> Any:
    """How many queries of one class found another class first: the most frequent pairs."""
    axes = _axes(axes)
    pairs = [(each.n, f"{own.label} → {each.label}") for own in evaluation.classes for each in own.confused]
    pairs = sorted(pairs, key=lambda pair: -pair[0])[:NAMED][::-1]
    axes.barh([name for _, name in pairs], [n for n, _ in pairs])
    axes.set(xlabel="queries", title=f"Wrong first hits of {evaluation.n_queries:,} queries")
    return axes


def draw_update(report: UpdateReport, axes: Any = None) -> Any:
    """mAP without the update, with it, and from scratch if that was measured."""
    axes = _axes(axes)
    found = {UPDATE_WAYS[way]: value for way, value in report.compared.items() if value is not None}
    bars = axes.bar(list(found), list(found.values()))
    axes.bar_label(bars, fmt="%.3f")
    axes.set(ylabel="mAP", ylim=(0, 1.05), title=f"What version {report.version} learned")
    return axes
