"""A row that only changes labels leaves and comes back: the anchors that it is part of stay."""

from __future__ import annotations

import numpy as np
import pytest

from sihash import SIH

PARAMS = {"n_bits": 12, "n_anchors": 40, "kernel_width": 0.7, "random_state": 0}


@pytest.fixture
def rows():
    rng = np.random.RandomState(0)
    y = np.arange(200) % 4
    X = (3 * rng.normal(size=(4, 6))[y] + rng.normal(size=(200, 6))).astype(np.float32)
    return X, [[int(k), 4] if i % 5 == 0 else [int(k)] for i, k in enumerate(y)]


def anchors_with(hasher, ids):
    """Anchors that are means of some of these rows."""
    keys = [key for name, key in hasher.training_.key_of.items() if name in ids]
    made_rows, anchors = hasher.kernel_.made_of
    return set(anchors[np.isin(made_rows, keys)].tolist())


def test_other_labels_leave_the_anchors(rows):
    X, y = rows
    hasher = SIH(**PARAMS).fit(X, y)
    before = hasher.kernel_.anchors.copy()
    made_rows, anchors = hasher.kernel_.made_of
    chosen = [int(key) for key in made_rows[anchors == 0]]  # all rows that one anchor is the mean of
    labels = [[(own[0] + 1) % 4] for own in (y[k] for k in chosen)]
    hasher.update(X[chosen], labels, chosen, remove=chosen)
    np.testing.assert_array_equal(hasher.kernel_.anchors, before)
    assert 0 in anchors_with(hasher, chosen)


def test_another_vector_is_another_row(rows):
    X, y = rows
    hasher = SIH(**PARAMS).fit(X, y)
    assert anchors_with(hasher, [7])
    hasher.update(X[7:8] + 1, [y[7]], [7], remove=[7])
    assert anchors_with(hasher, [7]) == set()


def test_a_class_that_goes_leaves_the_anchors_of_rows_with_other_labels(rows):
    X, y = rows
    y = [[own[0], 4] if k % 3 == 0 else [own[0]] for k, own in enumerate(y)] + [[4]] * 40
    X = np.concatenate([X, X[:40] + 5])
    hasher = SIH(**PARAMS).fit(X, y)
    before = hasher.kernel_.anchors[hasher.kernel_.anchor_classes != 4]
    hasher.remove_classes([4])
    there = {anchor.tobytes() for anchor in hasher.kernel_.anchors}
    assert set(hasher.ids_[-67:]) == set(range(0, 200, 3))  # they left and came again
    assert all(anchor.tobytes() in there for anchor in before)
