"""Several labels a row, and none: laws that tie them to plain labels, updates, files, bad input."""

import copy

import numpy as np
import pandas as pd
import pytest
from made_data import blobs
from scipy import sparse

from sihash import SIH
from sihash.evaluation import leave_one_out
from sihash.hashing import Change, from_scratch, incremental
from sihash.hashing.class_model import answered, best_threshold
from sihash.hashing.words import word_of_set
from sihash.labels import LabelSets

N_CLASSES = 5


def small(**params):
    return SIH(**{"n_bits": 16, "n_anchors": 60, "random_state": 0} | params)


def made(n=500, seed=0):
    """Rows half way between the centres of their labels, of which some have two; lists, and indicators."""
    X, y = blobs(n, N_CLASSES, seed=seed)
    partners, z = blobs(n, N_CLASSES, seed=seed + 1)
    both = (np.arange(n) % 3 == 0) & (y != z)
    X[both] = (X[both] + partners[both]) / 2
    Y = np.eye(N_CLASSES, dtype=int)[y]
    Y[np.flatnonzero(both), z[both]] = 1
    return X, Y, [set(np.flatnonzero(row).tolist()) for row in Y]


def state(hasher, X):
    """All that a hasher answers."""
    answers = hasher.transform(X), hasher.decision_function(X), hasher.predict_proba(X)
    return [*answers, hasher.codes_, hasher.class_coef_]


def assert_same(one, other, X):
    for a, b in zip(state(one, X), state(other, X), strict=True):
        np.testing.assert_array_equal(a, b)


FORMS = {
    "lists": lambda y: [[int(k)] for k in y],
    "sets": lambda y: [{int(k)} for k in y],
    "arrays": lambda y: pd.Series([np.array([k]) for k in y]),
    "indicators": lambda y: np.eye(8, dtype=bool)[y],
    "sparse": lambda y: sparse.csr_array(np.eye(8, dtype=int)[y]),
    "frame": lambda y: pd.DataFrame(np.eye(8)[y]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("params", [{}, {"codebook": "separated", "gamma": 1e5}, {"training_rows": 150}])
def test_lists_of_one_label_are_plain_labels_to_the_bit(form, params):
    X, y = blobs(400, 8)
    old = y < 6
    plain, other = small(**params).fit(X[old], y[old]), small(**params).fit(X[old], FORMS[form](y[old]))
    assert_same(plain, other, X)
    for hasher, labels in ((plain, y), (other, FORMS[form](y))):
        rows = np.flatnonzero(~old)
        taken = labels.iloc[rows] if hasattr(labels, "iloc") else None
        taken = [labels[k] for k in rows] if isinstance(labels, list) else taken
        hasher.add(X[rows], labels[rows] if taken is None else taken)
        hasher.remove_classes([2]).remove(hasher.ids_[:10])
    assert_same(plain, other, X)
    assert plain.classes_.tolist() == other.classes_.tolist()
    found = other.predict(X)
    if form in ("lists", "sets", "arrays"):
        assert [next(iter(each)) for each in found] == plain.predict(X).tolist()
    else:
        np.testing.assert_array_equal(np.argmax(found, axis=1), plain.predict(X))


def test_lists_and_indicators_say_the_same():
    X, Y, sets = made()
    by_lists, by_columns = small().fit(X, [sorted(own) for own in sets]), small().fit(X, Y)
    assert_same(by_lists, by_columns, X)
    P, found = by_lists.predict(X), by_columns.predict(X)
    assert all(isinstance(own, set) for own in P)
    assert [set(np.flatnonzero(row).tolist()) for row in found] == P
    assert found.shape == Y.shape


def test_rows_with_several_labels_are_found_and_recognised():
    X, Y, _ = made(1500)
    train, test = slice(0, 1000), slice(1000, 1500)
    hasher = small().fit(X[train], Y[train])
    found, true = hasher.predict(X[test]), Y[test]
    assert 2 * np.sum(found & true) / (found.sum() + true.sum()) > 0.8
    P = hasher.predict_proba(X[test])
    assert np.abs(P.mean(axis=0) - true.mean(axis=0)).max() < 0.06
    assert np.abs(P.sum(axis=1) - 1).max() > 0.3, "labels have probabilities of their own"
    assert (
        leave_one_out(hasher.transform(X[test]), true).mAP
        > leave_one_out(hasher.transform(X[test]), np.random.RandomState(0).permutation(true)).mAP
    )
    labels, hits = zip(*hasher.training_.rehearsed_hits(), strict=True)
    assert np.mean(hits) > 0.8
    assert set(labels) <= set(range(N_CLASSES))


@pytest.mark.parametrize(
    ("y", "form"),
    [
        ([0, 1, None, 1, 0, -1, 1, 0], "labels"),
        ([0.0, 1, np.nan, 1, 0, -1, 1, 0], "labels"),
        (["a", "b", None, "b", "a", np.nan, "b", "a"], "labels"),
        ([[0], [1], [], [1], {0}, None, [1], [0]], "lists"),
        ([[0], [1], -1, [1], {0}, np.nan, [1], [0]], "lists"),
        (np.eye(3)[[0, 1, 2, 1, 0, 2, 1, 0]][:, :2], "indicators"),
        (pd.Series([0, 1, pd.NA, 1, 0, -1, 1, 0], dtype="Int64"), "labels"),
    ],
)
def test_rows_without_a_label_are_known_and_not_learned_from(y, form, tmp_path):
    X = np.random.RandomState(0).normal(size=(8, 4)).astype(np.float32)
    given = np.array([0, 1, 3, 4, 6, 7])
    hasher = small(n_anchors=4).fit(X, y)
    plain = small(n_anchors=4).fit(X[given], [0, 1, 1, 0, 1, 0])
    np.testing.assert_array_equal(hasher.decision_function(X), plain.decision_function(X))
    assert hasher.training_.form.kind == form
    assert hasher.ids_ == given.tolist()
    with pytest.raises(ValueError, match="The id 2 is taken"):
        hasher.add(X[:1], y[:1], ids=[2])
    hasher.save(tmp_path / "m")
    for each in (hasher, SIH.load(tmp_path / "m")):
        each.remove([2]).add(X[2:3], y[:1], ids=[2])  # now it has a label
        assert 2 in each.ids_
        each.relearn().remove([5])
        with pytest.raises(KeyError, match="no row has the id 5"):
            each.remove([5])


def test_rows_that_come_without_a_label_change_nothing():
    X, _, sets = made(200)
    hasher = small().fit(X, sets)
    before = state(hasher, X)[:3]
    hasher.add(X[:3], [None, [], np.nan], ids=["a", "b", "c"])
    for a, b in zip(before, state(hasher, X), strict=False):
        np.testing.assert_array_equal(a, b)
    assert len(hasher.ids_) == 200
    assert hasher.report_.n_added == 3
    hasher.remove(["a", "c"])


def test_plus_and_minus_one_are_no_two_classes():
    X, y = blobs(60, 2)
    with pytest.raises(ValueError, match=r"got 1 class \(1\).*30 rows count as not labelled: .*−1"):
        small().fit(X, 2 * y - 1)
    assert small().fit(X, (2 * y - 1).astype(str)).classes_.tolist() == ["-1", "1"]
    with pytest.raises(ValueError, match="at least two classes, got none"):
        small().fit(X, [None] * 60)


@pytest.mark.parametrize("form", ["lists", "indicators"])
def test_updates_end_where_a_fit_does(form):
    X, Y, sets = made(900)
    test = slice(700, 900)
    given = sets if form == "lists" else Y
    hasher = small().fit(X[:500], given[:500])
    change = Change(X[500:700], given[500:700], range(500, 700), remove_ids=range(40))
    scores = [
        leave_one_out(strategy(hasher, change).transform(X[test]), Y[test]).mAP
        for strategy in (incremental, from_scratch)
    ]
    assert scores[0] > scores[1] - 0.03
    assert len(incremental(hasher, change).ids_) == 660


def test_one_label_of_a_row_changes():
    X, _, sets = made(300)
    hasher = small().fit(X, sets)
    hasher.update(X[[7]], [{0, 3, 4}], [7], remove=[7])
    _, labels, ids = hasher.training_set()
    now = dict(zip(ids, labels, strict=True))
    assert now.pop(7) == {0, 3, 4}
    assert now == {k: own for k, own in enumerate(sets) if k != 7}


def test_a_row_loses_the_label_of_a_class_that_goes():
    X, Y, sets = made(300)
    hasher = small().fit(X, Y)
    words = hasher.training_.class_words(np.array([0, 1, 3, 4]))
    hasher.remove_classes([2])
    _, labels, ids = hasher.training_set()
    assert labels.shape[1] == N_CLASSES
    now = {k: set(np.flatnonzero(row).tolist()) for k, row in zip(ids, labels, strict=True)}
    assert now == {k: own - {2} for k, own in enumerate(sets) if own != {2}}
    assert hasher.classes_.tolist() == [0, 1, 3, 4]
    assert hasher.report_.n_removed == sum(own == {2} for own in sets)
    assert hasher.predict(X)[:, 2].sum() == 0
    np.testing.assert_array_equal(hasher.training_.class_words(np.array([0, 1, 3, 4])), words)


def test_a_class_keeps_its_word_though_all_its_rows_lose_a_label():
    X, _, sets = made(300)
    sets = [own | {"also"} if 4 in own else own for own in sets]
    hasher = small().fit(X, [list(map(str, own)) for own in sets])
    place = hasher.classes_.tolist().index("4")
    word = hasher.training_.class_words(hasher.training_.live[[place]])
    hasher.remove_classes(["also"])
    place = hasher.classes_.tolist().index("4")
    np.testing.assert_array_equal(hasher.training_.class_words(hasher.training_.live[[place]]), word)
    assert from_scratch(hasher, Change(remove_classes=["4"])).classes_.tolist() == list("0123")


def test_a_new_label_beside_known_ones():
    X, _, sets = made(400)
    hasher = small().fit(X[:300], sets[:300])
    hasher.add(X[300:], [own | {"new"} for own in sets[300:]])
    assert hasher.classes_.tolist() == [*range(N_CLASSES), "new"]
    assert hasher.predict_proba(X).shape == (400, N_CLASSES + 1)


@pytest.mark.parametrize("params", [{}, {"codebook": "separated", "gamma": 1e5}, {"training_rows": 120}])
def test_files(tmp_path, params):
    X, _, sets = made(300)
    hasher = small(**params).fit(X, sets)
    hasher.save(tmp_path / "m")
    hasher.save(tmp_path / "f", updatable=False)
    loaded, functions = SIH.load(tmp_path / "m"), SIH.load(tmp_path / "f")
    assert_same(hasher, loaded, X)
    assert hasher.predict(X) == loaded.predict(X) == functions.predict(X)
    for each in (hasher, loaded):
        each.update(X[:20] + 0.1, [{1, 2, 3}] * 20, range(1000, 1020), remove_classes=[4])
    assert hasher.ids_ == loaded.ids_
    assert hasher.training_set()[1] == loaded.training_set()[1]
    assert np.mean(hasher.transform(X) == loaded.transform(X)) > 0.95


def test_relearn_keeps_labels():
    X, _, sets = made(300)
    hasher = small(training_rows=150).fit(X, sets)
    before = hasher.training_set()
    outside = dict(hasher.training_.outside)
    hasher.relearn()
    assert hasher.training_set()[1] == before[1]
    assert hasher.training_.outside.keys() == outside.keys()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([["a"], "b", ["a", "b"]], "Row 1 has the label 'b' where others have lists of labels"),
        ([["a"], ["b", None], ["a"]], "Row 1 has None among its labels; a row without a label is an empty"),
        ([["a"], ["b", ["c"]], ["a"]], r"Row 1 has \['c'\] among its labels; a label is no list"),
        ([["a"], ["b"]], "got 2 lists for 3 rows"),
        (np.array([[0, 1], [1, 2], [1, 0]]), "must be an indicator matrix"),
        (np.array([["a", "b"], ["a", "c"], ["b", "c"]]), "must be an indicator matrix"),
        (np.eye(4), "got 4 for 3 rows"),
        ([1.0, np.inf, 2.0], "contains infinity, in row 1"),
    ],
)
def test_bad_labels_are_refused_in_a_sentence(y, message):
    with pytest.raises(ValueError, match=message):
        small().fit(np.eye(3, dtype=np.float32), y)


def test_another_form_than_in_fit_is_refused_and_nothing_changes():
    X, Y, sets = made(200)
    by_columns, by_lists = small().fit(X, Y), small().fit(X, sets)
    before = copy.deepcopy(by_columns)
    with pytest.raises(ValueError, match="Expected an indicator matrix of 5 columns, as in fit, got 6"):
        by_columns.add(X[:4], np.eye(6)[:4])
    with pytest.raises(ValueError, match="Expected an indicator matrix, as in fit, got a list of labels for"):
        by_columns.add(X[:2], [["a"], ["b"]])
    with pytest.raises(ValueError, match="Expected a list of labels for each row, as in fit, got one label"):
        by_lists.partial_fit(X[:2], [1, 2])
    assert_same(before, by_columns, X)


def test_the_word_of_a_set_is_the_majority():
    words = np.array([[1, 1, -1, 1], [1, -1, -1, -1], [-1, 1, -1, -1]], dtype=np.int8)
    assert word_of_set(words).tolist() == [1, 1, -1, -1]
    assert word_of_set(words[:1]).tolist() == words[0].tolist()
    pair = word_of_set(np.array([[1, 1, 1, 1, 1], [1, -1, -1, -1, -1]], dtype=np.int8))
    assert pair.tolist() == [1, 1, -1, 1, -1], "ties go to the classes in turn"


def test_label_sets_by_hand():
    sets = LabelSets((k,) for k in range(3))
    numbers, counts = np.array([0, 2, 1, 1, 2]), np.array([2, 1, 0, 2])
    found = sets.of_rows(numbers, counts, np.array([9, 5, 1]))
    assert found.tolist() == [3, 1, -1, 4]
    assert sets.members[3:] == [(2, 0), (2, 1)], "the rarest first"
    assert sets.primary[found[[0, 1, 3]]].tolist() == [2, 1, 2]
    np.testing.assert_array_equal(sets.membership(np.array([3, 1]), np.array([0, 2])), [[1, 1], [0, 0]])
    np.testing.assert_array_equal(sets.shares(3).toarray().sum(axis=0), np.ones(5))


def test_the_threshold_has_the_highest_micro_f1():
    rng = np.random.RandomState(0)
    P = rng.rand(60, 4)
    Y = rng.rand(60, 4) < P**2

    def F1(threshold):
        found = answered(P, threshold)
        return 2 * np.sum(found & Y) / (found.sum() + Y.sum())

    assert F1(best_threshold(P, Y)) == max(F1(t) for t in [*P.ravel(), 1.0])
