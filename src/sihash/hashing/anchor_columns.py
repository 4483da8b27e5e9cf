"""Anchors come and go with their classes, and with them the columns of Φ.

An anchor is the mean of some rows of one class. When the class goes, or more than a quarter of these rows,
the anchor goes. A new class brings its own, as many as its share of ``n_anchors``. A class whose share has
grown or shrunk by more than a fifth gets more, or gives some up. So the anchors are those of the classes that
there are, about ``n_anchors`` of them, and a long life ends with anchors as a fit from scratch would choose.

Everything else follows: Φ of the rows that stay loses and gains columns, and the binary SVMs keep the weights
of the columns that stay. What the others did is taken over by these, as well as can be (`Gram.folded`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sihash._typing import Array
from sihash.anchors import MEAN_ROWS, class_anchors, n_rows_wanted, shares_of_classes
from sihash.hashing.class_sample import joined
from sihash.kernel import KernelMap
from sihash.splitmix import mixed
from sihash.svm.blocks import Block, Store

if TYPE_CHECKING:
    from sihash.hashing.training import NewRows, Training

SLACK = 1.2  # anchors of a class for each of its share, or the other way round, before they are changed
LOST_SHARE = 0.25  # of the rows that an anchor is the mean of: with more of them gone, it goes


def follow_classes(training: Training, new: NewRows | None) -> None:
    """Bring anchors, Φ and weights to the classes that there will be.

    ``training`` has lost the rows that go, and not yet taken those that come.
    """
    kernel, n_anchors = training.kernel, training.settings.n_anchors
    if kernel.anchor_classes is None or kernel.made_of is None:
        return  # anchors that belong to no class stay as they are
    sizes = _sizes_to_be(training, new)
    have = np.bincount(kernel.anchor_classes[_alive(training)], minlength=len(sizes))
    shares = np.zeros_like(sizes)
    there = np.flatnonzero(sizes)
    shares[there] = shares_of_classes(sizes[there], min(n_anchors, int(sizes.sum())), there)
    too_many, too_few = have > SLACK * shares, SLACK * have < shares
    wanted = np.where(too_many | too_few, shares, have)
    stays = _kept(training, wanted)
    missing = np.where(too_few, shares - have, 0)
    if not stays.all() or missing.any():
        _change(training, np.flatnonzero(stays), _chosen(training, new, missing))


def _known(kernel: KernelMap) -> tuple[Array, Array]:
    """The class of each anchor, and what each is made of."""
    assert kernel.anchor_classes is not None
    assert kernel.made_of is not None
    return kernel.anchor_classes, kernel.made_of


def _sizes_to_be(training: Training, new: NewRows | None) -> Array:
    sizes = training.primary_sizes()
    if new is not None:
        sizes += np.bincount(new.y, minlength=len(sizes))
    return sizes


def _alive(training: Training) -> Array:
    """Anchors of which most rows are still there."""
    _, (rows, anchors) = _known(training.kernel)
    n = len(training.kernel.anchors)
    gone = np.bincount(anchors[~training.has_keys(rows)], minlength=n)
    return gone <= LOST_SHARE * np.bincount(anchors, minlength=n)


def _kept(training: Training, wanted: Array) -> Array:
    """Of the anchors that are alive, so many of each class: those that are the mean of most rows.

    On held-out rows of Tiny-ImageNet-200, 100 classes and 100 more, that gave mAP 0.315; those with the
    largest weights gave 0.300, and a fit from scratch 0.313.
    """
    classes, (_, anchors) = _known(training.kernel)
    n_rows = np.bincount(anchors, minlength=len(classes))
    n_rows[~_alive(training)] = 0
    order = np.lexsort((-n_rows, classes))
    rank = np.arange(len(order)) - np.searchsorted(classes[order], classes[order])
    kept = np.zeros(len(classes), dtype=bool)
    kept[order] = (rank < wanted[classes[order]]) & (n_rows[order] > 0)
    return kept


def _chosen(training: Training, new: NewRows | None, missing: Array) -> KernelMap:
    """More anchors for each class, chosen from its rows, those there and those to come."""
    kernel, how = training.kernel, training.settings.anchors_by_class
    if not missing.any():
        none = np.empty(0, dtype=np.intp)
        nothing = np.stack([none, none])
        return replace(kernel, anchors=kernel.anchors[:0], anchor_classes=none, made_of=nothing)
    X, y, keys = _rows_of(training, new, missing, how)
    points, classes, made_of = class_anchors(X, kernel.mean, y, missing, how, training.rng, keys)
    return replace(kernel, anchors=points, anchor_classes=classes, made_of=made_of)


def _rows_of(training: Training, new: NewRows | None, missing: Array, how: str) -> tuple[Array, ...]:
    """Vectors, class numbers and keys of enough rows of each class that lacks anchors, in the order of keys.

    Which rows depends on their keys, not on where they lie.
    """
    sizes = _sizes_to_be(training, new)
    wanted = n_rows_wanted(missing, how)
    share = 2 * wanted / np.maximum(sizes, 1)
    share = np.where(missing > 0, np.maximum(share, MEAN_ROWS / np.maximum(sizes, 1)), 0)
    parts = []
    if missing[training.live].any():
        parts += training.svms.rows.map(_some_vectors, share)
    if new is not None:
        own = _at_random(new.keys, share[new.y])
        parts.append((new.X[own], new.y[own], new.keys[own]))
    X, y, keys = joined(parts)
    order = np.argsort(keys)
    return X[order], y[order], keys[order]


def _some_vectors(block: Block, share: Array) -> tuple[Array, ...]:
    own = _at_random(block["key"], share[block["y"]])
    return block["X"][own], block["y"][own], block["key"][own]


def _at_random(keys: Array, share: Array) -> Array:
    """Places of this share of the rows."""
    return np.flatnonzero(mixed(keys) / 2.0**64 < share)


def _change(training: Training, kept: Array, more: KernelMap) -> None:
    """Let the columns of Φ that are not ``kept`` go, and those of ``more`` anchors come."""
    kernel = training.kernel
    classes, (rows, anchors) = _known(kernel)
    more_classes, (more_rows, more_anchors) = _known(more)
    place = np.full(len(kernel.anchors), -1)
    place[kept] = np.arange(len(kept))
    stay = place[anchors] >= 0
    rows = np.concatenate([rows[stay], more_rows])
    anchors = np.concatenate([place[anchors[stay]], more_anchors + len(kept)])
    training.kernel = replace(
        kernel,
        anchors=np.concatenate([kernel.anchors[kept], more.anchors]),
        anchor_classes=np.concatenate([classes[kept], more_classes]),
        made_of=np.stack([rows, anchors]),
    )
    r, n_new = len(kernel.anchors), len(more.anchors)
    derived = training.svms.rows.derive(_with_columns, kept, replace(more, kind="rbf"), r, training.kernel)
    others = np.arange(r, training.svms.W.shape[1])  # the vector itself, if it is a feature, and the constant
    training.svms = training.svms.with_columns(derived, np.concatenate([kept, others]), len(kept), n_new)


def _with_columns(
    block: Block, store: Store, kept: Array, more: KernelMap, r: int, kernel: KernelMap
) -> Block:
    """A block with Φ by ``kernel``: the ``kept`` of its ``r`` anchors, then ``more``, then what followed."""
    changed = block.copy()
    changed.n_shared = block.n_shared  # behind its rows may lie those that an earlier view still has
    changed.feature_map = kernel
    if not block.has_features:
        return changed
    old, n = block.arrays["Phi"], block.n
    k, n_new = len(kept), len(more.anchors)
    Phi = store.empty((len(old), k + n_new + old.shape[1] - r), np.float32)
    np.take(old[:n], kept, axis=1, out=Phi[:n, :k], mode="clip")
    if n_new:
        Phi[:n, k : k + n_new] = more(block["X"])[:, :-1]
    Phi[:n, k + n_new :] = old[:n, r:]
    store.release(Phi)
    changed.arrays["Phi"] = Phi
    return changed
