"""Figures from raw records: one style, PNG and SVG, legible without colour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.research import changes
from sihash.research.methods import METHODS
from sihash.research.paper_tables import change_records, data_sets, fit_records
from sihash.research.records import Record, Records
from sihash.research.report import numbers, title_of
from sihash.research.scales import Scale

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError:
    raise ImportError("The figures need matplotlib: pip install 'sihash[plots]'.") from None

FIGURE_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "legend.frameon": False,
    "svg.hashsalt": "sihash",  # the same figure is the same file
}
# Every line has a marker or a dash of its own, so that a grey print tells them apart.
LINES: dict[str, dict[str, Any]] = {
    "sih_constants": {"color": "black", "marker": "o", "linewidth": 2},
    "sih_gamma0": {"color": "black", "linestyle": "--"},
    "sih_paper": {"color": "0.45", "linestyle": ":", "linewidth": 2},
    "sih": {"color": "#0b4f9c", "marker": "s", "linewidth": 2},
    "sdh": {"color": "#c44e00", "marker": "^"},
    "fasthash": {"color": "#2a8a5f", "marker": "D", "markerfacecolor": "white"},
    "ksh": {"color": "#7a5195", "marker": "v", "linestyle": "-."},
    "cca_itq": {"color": "0.5", "marker": "x"},
}
STRATEGY_LINES: dict[str, dict[str, Any]] = {
    "passive": {"color": "0.5", "marker": "^", "linestyle": ":", "label": "passive"},
    "scratch": {"color": "#c44e00", "marker": "s", "linestyle": "--", "label": "from scratch"},
    "incremental": {"color": "black", "marker": "o", "label": "incremental"},
}
_CLASS_MARKERS = "o^sDvP"


@matplotlib.rc_context(FIGURE_STYLE)
def write_figures(records: Records, scale: Scale, folder: Path) -> list[Path]:
    """Every figure for which there are records, as PNG and SVG; returns the paths of the SVG files."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, Figure | None] = {
        "svm": planes_figure(records, scale),
        "map": _panels(records, scale, _map_panel),
        "pr": _panels(records, scale, _pr_panel),
        "stream": _panels(records, scale, _stream_panel),
    }
    for data in data_sets(records, scale):
        for method in scale.repeats:
            drawn[f"incremental_{data}_{method}"] = change_figure(records, scale, data, method)
    paths = []
    for name, figure in drawn.items():
        if figure is not None:
            figure.savefig(folder / f"{name}.png", dpi=110)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            paths.append(folder / f"{name}.svg")
    return paths


def _new_figure(n_rows: int, n_columns: int, width: float, height: float) -> tuple[Figure, Array]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False)


def _panels(
    records: Records, scale: Scale, panel: Callable[[Axes, Records, Scale, str], bool]
) -> Figure | None:
    """A panel for every data set of the paper, empty where it was not measured; one legend."""
    names = data_sets(records, scale)
    figure, axes = _new_figure(1, len(names), 3.6 * len(names), 3.6)
    measured = [panel(ax, records, scale, name) for ax, name in zip(axes[0], names, strict=True)]
    for ax, name, there in zip(axes[0], names, measured, strict=True):
        ax.set_title(title_of(name))
        if not there:
            ax.text(0.5, 0.5, "not measured", ha="center", va="center", transform=ax.transAxes, color="0.4")
            ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    if not any(measured):
        return None
    _legend(figure, axes[0][int(np.argmax(measured))])
    return figure


def _legend(figure: Figure, ax: Axes) -> None:
    handles, names = ax.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 8), frameon=False)


def _map_panel(ax: Axes, records: Records, scale: Scale, data: str) -> bool:
    lengths = np.array(scale.code_lengths)
    for method, line in LINES.items():
        found = [fit_records(records, scale, data, method, n_bits=int(n)) for n in lengths]
        there = np.array([bool(f) for f in found])
        if there.any():
            scores = [numbers(f, "mAP") for f in found if f]
            ax.plot(lengths[there], [np.mean(s) for s in scores], label=METHODS[method].label, **_line(line))
    ax.set_xscale("log", base=2)
    ax.set_xticks(lengths, [str(n) for n in lengths], fontsize=8)
    ax.minorticks_off()
    ax.set(xlabel="bits", ylabel="mAP")
    return bool(ax.lines)


def _line(line: dict[str, Any]) -> dict[str, Any]:
    return {"markersize": 4.5, "linewidth": 1.3, **line}


def _pr_panel(ax: Axes, records: Records, scale: Scale, data: str) -> bool:
    for method, line in LINES.items():
        found = fit_records(records, scale, data, method)
        if found:
            precision = np.mean([r["result"]["precision"] for r in found], axis=0)
            recall = np.mean([r["result"]["recall"] for r in found], axis=0)
            ax.plot(recall, precision, label=METHODS[method].label, markevery=3, **_line(line))
    ax.set(xlabel=f"recall, {scale.bits} bits", ylabel="precision", xlim=(0, 1))
    ax.set_ylim(bottom=0)
    return bool(ax.lines)


def _stream_panel(ax: Axes, records: Records, scale: Scale, data: str) -> bool:
    for record in records.where(kind="stream", scale=scale.name, data=data):
        steps = record["result"]["steps"]
        for strategy, line in STRATEGY_LINES.items():
            points = [(k, s[strategy]) for k, s in enumerate(steps, start=1) if strategy in s]
            style = _line(line) | {"markersize": 3}
            if strategy == "scratch":
                style |= {"linestyle": "", "markersize": 6, "markerfacecolor": "none"}
            ax.plot(*zip(*points, strict=True), **style)
    ax.set(xlabel="updates", ylabel="mAP on the classes there are")
    return bool(ax.lines)


def change_figure(records: Records, scale: Scale, data: str, method: str) -> Figure | None:
    """The paper's Figures 4 to 6, with deleting images as a fourth column: mAP above, seconds below."""
    figure, axes = _new_figure(2, len(changes.KINDS), 13, 5.2)
    for column, (kind, label) in zip(axes.T, changes.KINDS.items(), strict=True):
        by_point = {
            p: change_records(records, scale, data, method, kind, p) for p in changes.points(kind, scale)
        }
        points = [p for p, some in by_point.items() if some]
        found = [by_point[p] for p in points]
        if not points:
            return None
        unit = "classes" if kind.endswith("classes") else "share of images"
        when = "before" if kind.startswith("add") else "left after"
        for ax, what in zip(column, ("mAP", "seconds"), strict=True):
            _strategies(ax, points, found, what)
            ax.set(xlabel=f"{unit} {when}", ylabel="mAP" if what == "mAP" else "training, processor s")
        column[1].set_ylim(bottom=0)
        column[0].set_title(label)
    figure.suptitle(f"{title_of(data)}, {scale.bits} bits, {METHODS[method].label}")
    _legend(figure, axes[0][0])
    return figure


def _strategies(ax: Axes, points: list[float], found: list[list[Record]], what: str) -> None:
    """Mean and standard deviation of mAP; median and quartiles of seconds."""
    for strategy, line in STRATEGY_LINES.items():
        path = (strategy, "mAP") if what == "mAP" else (strategy, "seconds", "cpu")
        values = [np.array(numbers(f, *path)) for f in found]
        if what == "mAP":
            middle = np.array([v.mean() for v in values])
            low, high = (np.array([v.std() for v in values]),) * 2
        else:
            middle = np.array([np.median(v) for v in values])
            quartiles = np.array([np.quantile(v, (0.25, 0.75)) for v in values]).T
            low, high = middle - quartiles[0], quartiles[1] - middle
        ax.errorbar(points, middle, yerr=[low, high], capsize=2, elinewidth=0.8, **_line(line))


def planes_figure(records: Records, scale: Scale) -> Figure | None:
    """The paper's Figure 1: the points, then the planes of OCAS in three stages, later ones darker."""
    found = records.where(kind="svm", scale=scale.name)
    if not found:
        return None
    result = found[-1]["result"]
    X, y, signs = (np.array(result[name]) for name in ("X", "y", "signs"))
    figure, axes = _new_figure(1, 4, 13, 3.6)
    stages = result["stages"]
    _points(axes[0][0], X, y, signs, np.array(stages[0]["rows"]))
    axes[0][0].set_title("(a) the data: filled +1, empty −1", fontsize=9)
    for ax, letter, stage in zip(axes[0][1:], "bcd", stages, strict=True):
        _points(ax, X, y, signs, np.array(stage["rows"]), faint=True)
        for number, w in enumerate(stage["path"], start=1):
            _plane(ax, w, color="#c01818", alpha=0.15 + 0.85 * number / len(stage["path"]), linewidth=1.4)
        if any(stage["start"]):
            _plane(ax, stage["start"], color="black", linestyle="--", linewidth=1.8)
        steps = f"{stage['n_steps']} steps, {stage['n_steps_from_zero']} from zero"
        ax.set_title(f"({letter}) {stage['name']}: {steps}", fontsize=9)
    for ax in axes[0]:
        ax.set(xlim=(-5, 5), ylim=(-5, 5), xticks=[], yticks=[], aspect="equal")
    return figure


def _points(ax: Axes, X: Array, y: Array, signs: Array, rows: Array, faint: bool = False) -> None:
    colours = matplotlib.colormaps["cividis"](np.linspace(0, 0.9, len(signs)))
    for k, marker in enumerate(_CLASS_MARKERS[: len(signs)]):
        own = rows[y[rows] == k]
        face = colours[k] if signs[k] > 0 else "none"
        ax.scatter(
            X[own, 0], X[own, 1], s=14, marker=marker, facecolor=face, edgecolor=colours[k], linewidth=0.7
        )
    for points in ax.collections:
        points.set_alpha(0.45 if faint else 0.9)


def _plane(ax: Axes, w: list[float], **line: Any) -> None:
    """The line ``w·(x, 1) = 0``."""
    normal = np.array(w[:2])
    length = float(normal @ normal)
    if length > 0:
        foot = -w[2] * normal / length
        along = np.array([-normal[1], normal[0]]) / np.sqrt(length)
        ends = foot + 20 * np.array([-along, along])
        ax.plot(*ends.T, **line)
