"""What a reader puts together is of one moment, wherever in its reading somebody else commits."""

from __future__ import annotations

import numpy as np
import pytest
import small

from sihash import SIH
from sihash.database import Database
from sihash.store import catalogue
from sihash.store.catalogue import Catalogue

LARGEST = 400  # looks into the catalogue of one search


@pytest.fixture(scope="module")
def lived_in(template):
    """After a relearning: to undo it changes the model, the codes of all items and which items there are."""
    with small.fast_folder() as path:
        with Database(small.copy(template, path / "db")) as db:
            db.add(*small.rows(6, seed=3, classes=4))
            db.update("relearn")
        yield path / "db"


def searched(db):
    return [(a.version, a.query_code, a.hits) for a in db.search_ids([1, 2, 3, 4], k=5, rank="hamming")]


def classified(db):
    return [(c.version, c.probabilities) for c in db.classify(small.QUERIES)]


@pytest.mark.parametrize("asked", [searched, classified])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_commit_between_any_two_looks_gives_the_state_before_or_after(
    lived_in, monkeypatch, asked, is_open
):
    monkeypatch.setattr(catalogue, "CHECKPOINT_SECONDS", 0.0)
    execute = Catalogue.execute
    with Database(lived_in) as db:
        before = asked(db)
    after = None
    for place in range(LARGEST):
        n, done = 0, False
        with small.fast_folder() as path:
            root = small.copy(lived_in, path / "db")
            handle = Database(root)
            if is_open:
                asked(handle)

            def interrupted(self, sql, values=(), root=root, place=place):
                nonlocal n, done
                if not done and n == place:
                    done = True
                    with Database(root) as other:
                        other.undo()
                n += 1
                return execute(self, sql, values)

            with monkeypatch.context() as patch:
                patch.setattr(Catalogue, "execute", interrupted)
                found = asked(handle)
                handle.close()
            if after is None:
                with Database(root) as other:
                    other.undo() if not done else None
                    after = asked(other)
                assert after != before
        assert found in (before, after), place
        if not done:
            assert place > 0
            return
    raise AssertionError("It never ends.")


@pytest.mark.parametrize("background", [False, True])
def test_an_open_reader_classifies_as_a_fresh_one_after_every_change(db, background):
    with Database(db.path, background=background) as handle:
        handle.classify(small.QUERIES)
        changes = [
            lambda: db.add(*small.rows(8, seed=3, classes=5)),
            db.update,
            lambda: db.remove_classes([0]),
            db.update,
            db.undo,
            lambda: db.update("relearn"),
        ]
        for change in changes:
            change()
            with Database(db.path) as fresh:
                expected = fresh.classify(small.QUERIES)
            while background and handle.classify(small.QUERIES)[0].version != expected[0].version:
                pass  # the version is being loaded
            found = handle.classify(small.QUERIES)
            assert [c.version for c in found] == [c.version for c in expected]
            for one, other in zip(found, expected, strict=True):
                assert [label for label, _ in pairs(one)] == [label for label, _ in pairs(other)]
                np.testing.assert_allclose(
                    [p for _, p in pairs(one)], [p for _, p in pairs(other)], rtol=1e-5
                )


def pairs(classification):
    return sorted(classification.probabilities.items())


def test_probabilities_after_an_update_are_those_of_the_saved_model(folder):
    X, y = small.rows(90, seed=0)
    model = SIH(n_bits=8, n_anchors=10, kernel_width=1.0, random_state=0).fit(X, y)
    model.predict_proba(small.QUERIES)
    new_X, new_y = small.rows(40, seed=1, classes=5)
    for step, change in enumerate(
        [lambda: model.update(new_X, new_y, ids=range(1000, 1040)), lambda: model.update(remove_classes=[1])]
    ):
        change()
        model.save(folder / f"{step}.safetensors")
        fresh = SIH.load(folder / f"{step}.safetensors")
        assert list(fresh.classes_) == list(model.classes_)
        found, expected = model.predict_proba(small.QUERIES), fresh.predict_proba(small.QUERIES)
        assert found.shape == (4, len(model.classes_))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
