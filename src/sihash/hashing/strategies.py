"""Three ways to live with a change of the collection, as plain functions: passive, from scratch, incremental.

Each takes a fitted `SIH` and a `Change` and returns a hasher for the changed collection; the one given
stays as it is, so that the three can be held side by side.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import clone

from sihash.hashing.row_changes import new_ids
from sihash.hashing.sih import SIH
from sihash.hashing.training import Change


def passive(hasher: SIH, change: Change) -> SIH:
    """Go on with the hash functions of before."""
    return copy.deepcopy(hasher)


def incremental(hasher: SIH, change: Change) -> SIH:
    """Update the hash functions, starting from those of before."""
    return change.update(copy.deepcopy(hasher))


def from_scratch(hasher: SIH, change: Change) -> SIH:
    """Learn hash functions from scratch on the changed collection, with the parameters of ``hasher``."""
    gone, gone_classes = set(change.remove_ids), set(change.remove_classes)
    X, _, ids = hasher.training_set()
    training = hasher._training()
    left = [tuple(k for k in own if k not in gone_classes) for own in training.row_labels()]
    stays = [k for k, own in enumerate(left) if own and ids[k] not in gone]
    X, ids = X[stays], [ids[k] for k in stays]
    y: Any = list(training.form.give([left[k] for k in stays]))
    if change.X is not None:
        new = new_ids(change.ids, len(change.X), training.next_key, dict.fromkeys(ids, 0))
        X, y, ids = np.concatenate([X, np.asarray(change.X)]), y + list(change.y), ids + new
    if training.form.kind == "indicators":
        y = np.array(y)
    return clone(hasher).fit(X, y, ids=ids)
