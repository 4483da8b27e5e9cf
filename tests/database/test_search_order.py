"""What comes first, and why: labels, vectors, items without labels, queries of no class."""

from __future__ import annotations

import numpy as np
import pytest
import small

from sihash.database import Database, DatabaseError
from sihash.ranking import RANKS

MANY = {**small.PARAMS, "n_bits": 16, "n_anchors": 30}


def sets(n, seed, d=24, classes=6, spread=1.6):
    """Classes that overlap, so that first hits are not all right."""
    rng = np.random.RandomState(seed)
    centres = np.random.RandomState(5).normal(size=(classes, d))
    y = np.arange(n) % classes
    return (centres[y] + spread * rng.normal(size=(n, d))).astype(np.float32), y


@pytest.fixture(scope="module")
def overlapping():
    """1,200 items, stored class by class as folders come."""
    with small.fast_folder() as path:
        X, y = sets(1200, seed=0)
        order = np.argsort(y, kind="stable")
        labels = [f"class {number}" for number in y[order]]
        with Database.create(path / "db", X[order], labels, **MANY) as database:
            yield database


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def cosine_precision(X, y, queries, labels, k):
    first = np.argsort(-(unit(queries) @ unit(X).T), axis=1)[:, :k]
    return (y[first] == labels[:, None]).mean()


def precision(database, queries, labels, k, **how):
    answers = database.search(queries, k=k, **how)
    return np.mean([[hit.label == label for hit in a.hits] for a, label in zip(answers, labels, strict=True)])


def test_first_hits_are_better_than_those_of_cosine(overlapping):
    X, y = sets(1200, seed=0)
    queries, asked = sets(600, seed=1)
    labels = [f"class {number}" for number in asked]
    for k in (1, 10):
        ours = precision(overlapping, queries, labels, k)
        assert ours > cosine_precision(X, y, queries, asked, k) + 0.05
        assert ours >= max(precision(overlapping, queries, labels, k, rank=rank) for rank in RANKS) - 0.02


def test_a_new_class_is_found_before_it_is_learned(folder):
    """Its labels and vectors are known; only margins have to wait for the update."""
    (X, y), (queries, asked) = sets(1200, seed=0, spread=1.2), sets(600, seed=1, spread=1.2)
    old = y < 4
    with Database.create(folder / "db", X[old], y[old], **MANY) as db:
        before = precision(db, queries[asked < 4], asked[asked < 4], 10)
        db.add(X[~old], y[~old])
        for k in (1, 10):
            new = asked >= 4
            by_cosine = cosine_precision(X, y, queries[new], asked[new], k)
            assert precision(db, queries[new], asked[new], k) >= by_cosine
        assert precision(db, queries[asked < 4], asked[asked < 4], 10) >= before - 0.1
        found = db.evaluate(queries, asked)
        assert found.p_at_10 == pytest.approx(precision(db, queries, asked, 10))


def test_answers_do_not_depend_on_the_order_of_addition(folder):
    """Three databases with the same hash functions, filled in three orders."""
    X, y = sets(900, seed=2)
    queries, _ = sets(40, seed=3)
    found = []
    for number, seed in enumerate((None, 1, 2)):
        db = Database.create(folder / f"{number}", *sets(300, seed=0), **MANY)
        order = np.arange(900) if seed is None else np.random.RandomState(seed).permutation(900)
        for part in np.array_split(order, 3):
            db.add(X[part], y[part].tolist())
        found.append(
            {
                rank: [
                    [(h.label, h.distance, round(h.score, 4)) for h in a.hits]
                    for a in db.search(queries, rank=rank)
                ]
                for rank in RANKS
            }
        )
    assert found[0] == found[1] == found[2]


def test_an_item_finds_itself_first(overlapping):
    items = overlapping.items(limit=2000)
    X = overlapping._read(lambda s: s.vectors(np.array([item.id for item in items])))
    for item, answer in zip(items, overlapping.search(X, k=1), strict=True):
        assert (answer.hits[0].id, answer.hits[0].score) == (item.id, 1.0)
    for answer, number in zip(overlapping.search_ids([0, 700], k=1200), (0, 700), strict=True):
        assert number not in {hit.id for hit in answer.hits}
        assert len(answer.hits) == 1199


def test_items_without_labels_are_found_among_the_others(folder):
    X, y = sets(1200, seed=0)
    hidden = np.random.RandomState(0).rand(1200) < 0.5
    labels = [None if gone else int(label) for gone, label in zip(hidden, y, strict=True)]
    db = Database.create(folder / "db", X, labels, **MANY)
    queries, asked = sets(400, seed=1)
    answers = db.search(queries)
    right = [[y[hit.id] == label for hit in a.hits] for a, label in zip(answers, asked, strict=True)]
    assert np.mean([row[0] for row in right]) >= cosine_precision(X, y, queries, asked, 1)
    assert np.mean(right) >= cosine_precision(X, y, queries, asked, 10) + 0.03
    assert any(hit.label is None for a in answers for hit in a.hits)


def test_items_of_a_class_that_is_not_learned_yet_are_found(folder):
    db = Database.create(folder / "db", *sets(300, seed=0), **MANY)
    centre = 4 * np.ones(24, np.float32)
    X = (centre + np.random.RandomState(0).normal(size=(30, 24))).astype(np.float32)
    db.add(X[:20], ["new"] * 20)
    found = db.search(X[20:], k=5)
    assert np.mean([[hit.label == "new" for hit in answer.hits] for answer in found]) > 0.8
    db.update()
    found = db.search(X[20:], k=5)
    assert np.mean([[hit.label == "new" for hit in answer.hits] for answer in found]) > 0.95


def test_a_query_of_no_class_is_told(folder):
    db = Database.create(folder / "db", *sets(600, seed=0, spread=0.6), **MANY)
    X, _ = sets(300, seed=1, spread=0.6)
    assert np.mean([answer.remark is not None for answer in db.search(X)]) < 0.12  # 5 % of the items
    others = np.random.RandomState(6).normal(size=(50, 24)).astype(np.float32)  # centres of other classes
    remarks = [answer.remark for answer in db.search(others)]
    assert np.mean([remark is not None for remark in remarks]) > 0.7
    assert "looks like none of the classes (as do 5 % of" in next(filter(None, remarks))
    assert all(answer.remark is None for answer in db.search_ids([0, 1, 2]))
    assert all(answer.remark is None for answer in db.search(others, classes=[1]))


def test_a_class_of_one_item(folder):
    X, y = sets(301, seed=0)
    labels = [*y[:300].tolist(), "alone"]
    db = Database.create(folder / "db", X, labels, **MANY)
    assert db.search(X[300:], k=1)[0].hits[0].label == "alone"
    assert db.evaluate().n_queries > 50


def test_scores_fall_and_begin_alike(overlapping):
    queries, _ = sets(5, seed=4)
    for few, many in zip(overlapping.search(queries, k=5), overlapping.search(queries, k=200), strict=True):
        assert few.hits == many.hits[:5]
        scores = [hit.score for hit in many.hits]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] <= 1


def test_a_radius_and_k_together(overlapping):
    queries, _ = sets(5, seed=4)
    for both, ball in zip(
        overlapping.search(queries, k=4, radius=3), overlapping.search(queries, radius=3), strict=True
    ):
        assert both.hits == ball.hits[:4]
        assert all(hit.distance <= 3 for hit in ball.hits)


def test_evaluation_is_that_of_searches(overlapping):
    queries, asked = sets(200, seed=1)
    labels = [f"class {number}" for number in asked]
    for rank in RANKS:
        found = overlapping.evaluate(queries, labels, rank=rank)
        assert found.p_at_1 == pytest.approx(precision(overlapping, queries, labels, 1, rank=rank))
        assert found.p_at_10 == pytest.approx(precision(overlapping, queries, labels, 10, rank=rank))
        everything = overlapping.search(queries[:20], k=1200, rank=rank)
        own = overlapping.evaluate(queries[:20], labels[:20], rank=rank)
        assert own.mAP == pytest.approx(mean_average_precision(everything, labels), abs=0.02)
    assert [each.label for each in found.classes] == [f"class {number}" for number in range(6)]
    assert found.worst(2)[0].p_at_10 == min(each.p_at_10 for each in found.classes)


def mean_average_precision(answers, labels):
    scores = []
    for answer, label in zip(answers, labels, strict=False):
        right = np.array([hit.label == label for hit in answer.hits])
        scores.append((np.cumsum(right)[right] / (np.flatnonzero(right) + 1)).mean())
    return np.mean(scores)


def test_an_evaluation_without_queries_does_not_flatter(overlapping):
    """Items that were learned from ask as if they had not been: close to what new queries get."""
    queries, asked = sets(600, seed=1)
    honest = overlapping.evaluate(queries, [f"class {number}" for number in asked])
    alone = overlapping.evaluate()
    assert "made again from the others" in alone.note
    assert alone.p_at_10 == pytest.approx(honest.p_at_10, abs=0.07)
    assert honest.note == ""


def test_weights_belong_to_the_version(folder):
    db = Database.create(folder / "db", *sets(300, seed=0), **MANY)
    first = db._read(lambda s: s.weights)
    db.add(*sets(300, seed=1))
    db.update()
    second = db._read(lambda s: s.weights)
    assert second.n_rows > first.n_rows
    db.undo()
    assert db._read(lambda s: s.weights) == first


def test_an_unknown_ranking_is_refused(overlapping):
    with pytest.raises(DatabaseError, match="got 'semantic'"):
        overlapping.search(sets(1, seed=0)[0], rank="semantic")
