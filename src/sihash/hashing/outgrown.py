"""When anchors and words were chosen for another collection than the present one.

Then they cost accuracy, and a start from the old weights takes more steps than one from nothing: an update
had better choose them, and learn everything, anew. On CIFAR-10 two fifths of new rows in new classes cost
0.009 mAP, two classes of ten more or less about as much, one nothing that could be measured.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import takewhile

from sihash.engines import LocalEngine
from sihash.hashing.learner import Learner

MOST_NEW_ROWS = 0.25  # of all rows: those that came since
MOST_NEW_CLASSES = 0.15  # of all classes, then or now: those that came or went since


def has_outgrown(learner: Learner, more: list[Hashable]) -> bool:
    """Whether a learner, once rows with the labels ``more`` have joined it, should learn everything anew.

    Rows on a cluster are not fetched for that.
    """
    if not isinstance(learner.engine, LocalEngine):
        return False
    then, now = set(learner.first_classes), {learner.labels[int(k)] for k in learner.live} | set(more)
    changed = len(now ^ then) / max(len(now), len(then))
    return len(now) > 1 and (changed > MOST_NEW_CLASSES or _share_of_new(learner, more) > MOST_NEW_ROWS)


def _share_of_new(learner: Learner, more: list[Hashable]) -> float:
    newest_first = reversed(learner.key_of.values())  # keys rise in the order in which rows came
    n_new = sum(1 for _ in takewhile(lambda key: key >= learner.first_new_key, newest_first))
    return (n_new + len(more)) / (len(learner.key_of) + len(more))
