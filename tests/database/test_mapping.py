"""The map: deterministic, classes apart, an item placed by what it looks like and not by its label."""

from __future__ import annotations

import numpy as np
import pytest
import small
from sklearn.datasets import load_digits

from sihash.database import Database, DatabaseError


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    X, y = load_digits(return_X_y=True)
    y = y.astype(object)
    y[0] = None
    y[1] = 8  # it is a 1
    with Database.create(tmp_path_factory.mktemp("map") / "db", X, y, n_bits=16, n_anchors=100) as db:
        yield db


def test_neighbours_on_the_map_share_a_class(digits):
    drawn = digits.map()
    assert drawn.ids == list(range(1797))
    assert drawn.n_items == 1797
    assert np.abs(drawn.coordinates).max() == pytest.approx(1)
    y = load_digits().target
    D = np.linalg.norm(drawn.coordinates[:, None] - drawn.coordinates, axis=2)
    np.fill_diagonal(D, np.inf)
    assert np.mean(y[D.argmin(axis=1)] == y) > 0.95
    # Item 0 has no label and item 1 a wrong one: both lie in the class that they look like.
    nearest = np.argsort(D[:2], axis=1)[:, :10]
    assert (np.median(y[nearest[0]]), np.median(y[nearest[1]])) == (0, 1)


def test_the_map_is_always_the_same_and_a_part_of_it_has_places_of_the_whole(digits):
    whole, part = digits.map(), digits.map(n=300)
    np.testing.assert_array_equal(whole.coordinates, digits.map().coordinates)
    assert len(part.ids) == 300
    assert part.n_items == 1797
    of = dict(zip(whole.ids, whole.coordinates, strict=True))
    np.testing.assert_allclose(part.coordinates, [of[own] for own in part.ids], atol=1e-6)


def test_items_keep_their_places_until_an_update(folder):
    db = Database.create(folder / "db", *small.rows(60, seed=1), **small.PARAMS)
    before = db.map()
    db.relabel(before.ids[:9], 77)
    db.remove(before.ids[-3:])
    after = db.map()
    assert after.labels[0] == (77,)
    assert after.ids == before.ids[:-3]
    np.testing.assert_array_equal(after.coordinates, before.coordinates[:-3])
    db.update()
    assert db.map().version == 2


@pytest.mark.parametrize(("n", "classes"), [(1, 1), (2, 2), (4, 1), (40, 1), (40, 2), (40, 20)])
def test_a_map_of_few(folder, n, classes):
    db = Database.create(folder / "db", *small.rows(60, seed=1), **small.PARAMS)
    X, y = small.rows(n, seed=2, classes=classes)
    db.add(X, y + 10)
    db.remove_classes([0, 1, 2])
    drawn = db.map()
    assert drawn.coordinates.shape == (n, 2)
    assert np.isfinite(drawn.coordinates).all()
    db.remove([item.id for item in db.items(limit=100)])
    with pytest.raises(DatabaseError, match="no items"):
        db.map()
