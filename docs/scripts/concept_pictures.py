"""Draw the pictures of docs/concepts/, from real fits: `python docs/scripts/concept_pictures.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from sklearn.datasets import load_digits, make_blobs

from sihash import SIH
from sihash.codes import unpack

FOLDER = Path(__file__).parents[1] / "images" / "concepts"
COLOURS = ["#3366aa", "#dd8844", "#449966", "#aa4477"]
plt.rcParams.update({"font.size": 10, "svg.hashsalt": "sihash", "svg.fonttype": "path"})


def save(figure, name):
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight", facecolor="white")
    plt.close(figure)


def boxes(axes, texts, y, width, x0=0.0, gap=0.35, colour="#eef2f8"):
    """A row of boxes with arrows between them."""
    for k, text in enumerate(texts):
        x = x0 + k * (width + gap)
        axes.add_patch(FancyBboxPatch((x, y), width, 0.8, boxstyle="round,pad=0.03", fc=colour, ec="#667788"))
        axes.text(x + width / 2, y + 0.4, text, ha="center", va="center")
        if k:
            arrow = FancyArrowPatch(
                (x - gap + 0.04, y + 0.4), (x - 0.04, y + 0.4), arrowstyle="-|>", mutation_scale=12
            )
            axes.add_patch(arrow)
    axes.set_axis_off()
    axes.autoscale_view()


def stages():
    figure, axes = plt.subplots(figsize=(9, 2.8))
    boxes(
        axes, ["query\nvector", "features\nof anchors", "32 signs:\nthe code", "scan of all\ncodes"], 1.3, 1.5
    )
    boxes(
        axes,
        ["about 500\ncandidates", "their labels,\ntheir vectors", "order by\nprobability", "answers"],
        0,
        1.5,
        colour="#f8f1e8",
    )
    axes.text(-0.2, 1.7, "stage 1\nfind", ha="right", va="center", weight="bold")
    axes.text(-0.2, 0.4, "stage 2\norder", ha="right", va="center", weight="bold")
    axes.set(xlim=(-1.2, 7.4), ylim=(-0.2, 2.3))
    save(figure, "stages")


def words():
    X, y = make_blobs([120] * 3, centers=[[0, 4], [-4, -2], [4, -2]], cluster_std=1.1, random_state=0)
    hasher = SIH(n_bits=12, n_anchors=12, random_state=0).fit(X, y)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), width_ratios=[1, 1.3], layout="constrained")
    unit = X - hasher.kernel_.mean
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    for k in range(3):
        left.scatter(*unit[y == k].T, s=8, alpha=0.3, color=COLOURS[k])
        own = hasher.kernel_.anchors[hasher.kernel_.anchor_classes == k]
        left.scatter(
            *own.T, s=70, marker="*", color=COLOURS[k], edgecolor="black", label=f"anchors of class {k}"
        )
    left.legend(fontsize=7, loc="center")
    left.set(title="anchors: centres inside each class", aspect="equal")
    codes = [unpack(hasher.transform(X[y == k][:6]), 12) for k in range(3)]
    right.imshow(np.concatenate(codes), cmap="Greys_r", aspect="auto")
    right.set(title="words: one code for each class, learned", xlabel="bit", yticks=[2.5, 8.5, 14.5])
    right.set_yticklabels([f"six items\nof class {k}" for k in range(3)])
    for line in (5.5, 11.5):
        right.axhline(line, color="#dd4444")
    save(figure, "words")


def updates():
    X, y = load_digits(return_X_y=True)
    known = y < 9
    hasher = SIH(n_bits=32, n_anchors=300, random_state=0).fit(X[known], y[known])
    shown = np.concatenate([np.flatnonzero(y == k)[:4] for k in range(10)])
    before = unpack(hasher.transform(X[shown]), 32)
    hasher.add(X[~known], y[~known])
    after = unpack(hasher.transform(X[shown]), 32)
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.6), sharey=True)
    pictures = [before, after, before != after]
    for ax, picture, title in zip(axes, pictures, ["before", "after", "bits that differ"], strict=True):
        ax.imshow(picture, cmap="Greys_r" if title != "bits that differ" else "Reds", aspect="auto")
        ax.set(
            title=title, xlabel="bit", yticks=np.arange(1.5, 40, 4), yticklabels=[str(k) for k in range(10)]
        )
        ax.axhline(35.5, color="#3366aa")
    axes[0].set_ylabel("digit; 9 is the class that came")
    save(figure, "updates")


def versions():
    figure, axes = plt.subplots(figsize=(9, 2.2))
    steps = ["create", "add", "add", "update", "remove", "update", "undo"]
    answers = [1, 1, 1, 2, 2, 3, 2]
    boxes(axes, [f"{step}\n→ version {v}" for step, v in zip(steps, answers, strict=True)], 0, 1.3, gap=0.25)
    axes.text(0, 1.15, "operations, in the order in which they were finished", ha="left")
    axes.text(
        0, -0.35, "Every search uses one version: the one that the last finished operation left.", ha="left"
    )
    axes.set(xlim=(-0.2, 11), ylim=(-0.6, 1.5))
    save(figure, "versions")


if __name__ == "__main__":
    for draw in (stages, words, updates, versions):
        draw()
