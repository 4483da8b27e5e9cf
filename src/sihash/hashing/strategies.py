"""Three ways to live with a change of the collection, as plain functions: passive, from scratch, incremental.

Each takes a fitted `SIH` and a `Change` and returns a hasher for the changed collection; the one given
stays as it is, so that the three can be held side by side.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from sihash.hashing import row_ids
from sihash.hashing.sih import SIH


@dataclass(frozen=True)
class Change:
    """What happens to a collection: rows that go, classes that go, then rows that come."""

    X: Any = None
    y: Any = None
    ids: Iterable[Hashable] | None = None
    remove_ids: Iterable[Hashable] = ()
    remove_classes: Iterable[Hashable] = ()

    def __post_init__(self) -> None:
        for name in ("ids", "remove_ids", "remove_classes"):  # read more than once
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))

    def update(self, hasher: SIH) -> SIH:
        """Update a hasher, which is changed by this."""
        return hasher.update(
            self.X, self.y, self.ids, remove=self.remove_ids, remove_classes=self.remove_classes
        )


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
    training = hasher._training_to_update()
    left = [tuple(k for k in own if k not in gone_classes) for own in training.row_labels()]
    stays = [k for k, own in enumerate(left) if own and ids[k] not in gone]
    X, ids = X[stays], [ids[k] for k in stays]
    y: Any = list(training.form.give([left[k] for k in stays]))
    if change.X is not None:
        new = row_ids.new_ids(change.ids, len(change.X), training.next_key, dict.fromkeys(ids, 0))
        X, y, ids = np.concatenate([X, np.asarray(change.X)]), y + list(change.y), ids + new
    if training.form.kind == "indicators":
        y = np.array(y)
    return clone(hasher).fit(X, y, ids=ids)
