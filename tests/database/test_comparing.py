"""A database beside what one would otherwise take: who asks, who answers, and what is said about it."""

from __future__ import annotations

import numpy as np
import pytest
import small

from sihash.database import Database, DatabaseError
from sihash.database.inspection import evaluating


@pytest.fixture(scope="module")
def large():
    """300 items in three classes, and ten without a label; learned from about 120."""
    with small.fast_folder() as path:
        X, y = small.rows(310, seed=0)
        labels = [*y[:300].tolist(), *[None] * 10]
        with Database.create(path / "db", X, labels, training_rows=120, **small.PARAMS) as database:
            yield database


def precision(database, answers, labels, k):
    known = [[hit.label for hit in answer.hits][:k] for answer in answers]
    return np.mean([np.mean([one == label for one in row]) for row, label in zip(known, labels, strict=True)])


def test_queries_of_ones_own_are_answered_as_search_answers_them(large):
    X, y = small.rows(50, seed=7)
    compared = large.compare(X, y)
    own = compared.rows[0]
    assert (own.name, own.bytes_per_item) == ("sihash", 1 + (8 + 4 + 8 // 2) + 4)  # code, sketch, label
    assert (compared.n_queries, compared.n_items, compared.note) == (50, 300, "")
    answers = large.search(X, classes=[0, 1, 2])  # unlabelled items do not count
    assert own.p_at_1 == pytest.approx(precision(large, answers, y, 1))
    assert own.p_at_10 == pytest.approx(precision(large, answers, y, 10))
    names = [row.name for row in compared.rows[1:]]
    assert names[:4] == ["cosine", "sign bits", "sign bits, rescored", "PQ, 1 byte"]
    assert names[4:] == ["nearest class mean", "LDA's label", "LDA's label and cosine"]
    assert compared.advice().count(".") >= 1


def test_without_queries_items_ask_that_were_not_learned_from(large):
    compared = large.compare(max_queries=40)
    assert compared.n_queries == 40
    assert "did not learn from" in compared.note
    asked = large._read(lambda s: evaluating.ask(large.path, s, None, 40, None))
    known = large._read(lambda s: evaluating.training_ids(large.path, s.catalogue, s.version))
    assert not np.isin(asked.ids[asked.own], known).any()
    assert np.array_equal(asked.X[asked.own], asked.queries)
    ids = asked.ids[asked.own].tolist()
    answers = large.search_ids(ids, classes=[0, 1, 2])  # each is left out of its own answer
    labels = [large.item(number).label for number in ids]
    assert compared.rows[0].p_at_10 == pytest.approx(precision(large, answers, labels, 10))


def test_queries_that_were_learned_from_are_told(db):
    compared = db.compare()
    assert compared.n_queries == 12  # a fifth of the items: the others are there to learn from
    assert "made again from the others" in compared.note


def test_samples_are_told(large):
    X, y = small.rows(50, seed=7)
    compared = large.compare(X, y, max_queries=20, max_items=100)
    assert (compared.n_queries, compared.n_items) == (20, 100)
    assert "20 of the 50 queries" in compared.note
    assert "100 of the 300 labelled items" in compared.note


def test_labels_may_be_written_and_unknown_classes_ask_for_nothing(large):
    X, y = small.rows(50, seed=7)
    written = [str(label) for label in y]
    assert large.compare(X, written).rows[1].map == large.compare(X, y).rows[1].map
    compared = large.compare(X, ["elephant", *written[1:]])
    assert (compared.n_queries, compared.n_left_out) == (49, 1)


def test_refusals(large, folder):
    X, _ = small.rows(5, seed=7)
    with pytest.raises(DatabaseError, match="None of the 5 queries"):
        large.compare(X, ["elephant"] * 5)
    with pytest.raises(DatabaseError, match="max_queries"):
        large.compare(max_queries=0)
    with pytest.raises(DatabaseError, match="8 numbers"):
        large.compare(X[:, :3], [0] * 5)
    with small.make(folder / "db") as database:
        database.remove_classes([0, 1, 2])
        with pytest.raises(DatabaseError, match="no item has a label"):
            database.compare()
