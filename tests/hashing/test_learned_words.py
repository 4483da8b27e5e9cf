import numpy as np
import pytest

from sihash import SIH
from sihash.hashing import words as words_module
from sihash.hashing.words import (
    climb,
    crowding,
    explained,
    learn_many_words,
    learn_words,
    word_of_set,
)


def made(n_classes=40, per_class=30, spread=0.6, seed=0):
    rng = np.random.RandomState(seed)
    centres = rng.randn(8, 16)[rng.randint(8, size=n_classes)] + 0.6 * rng.randn(n_classes, 16)
    y = np.repeat(np.arange(n_classes), per_class)
    return (centres[y] + spread * rng.randn(len(y), 16)).astype(np.float32), y


def random_words(n_classes, n_bits, seed=0):
    return np.where(np.random.RandomState(seed).rand(n_classes, n_bits) < 0.5, -1, 1).astype(np.int8)


def made_M(X, y):
    Phi = np.column_stack([X, np.ones(len(X), np.float32)])
    return explained(Phi.T @ Phi, np.eye(y.max() + 1)[y].T @ Phi)


def objective(words, M, mu):
    B = words.astype(float)
    P = B @ B.T
    np.fill_diagonal(P, 0)
    return np.trace(B.T @ M @ B) - mu * (P**4).sum() / B.shape[1] ** 3


def test_explained_is_what_ridge_regression_explains():
    X, y = made()
    Phi = np.column_stack([X, np.ones(len(X), np.float32)])
    M = made_M(X, y)
    b = random_words(40, 1)[:, 0].astype(float)
    fitted = Phi @ np.linalg.lstsq(Phi.astype(float), b[y], rcond=None)[0]
    assert b @ M @ b == pytest.approx(fitted @ fitted - len(y) * fitted.mean() ** 2, rel=0.01)


def test_a_climb_raises_the_objective_to_where_no_flip_helps():
    X, y = made()
    M, words = made_M(X, y), random_words(40, 12)
    higher = words
    for _ in range(5):
        higher = climb(higher, M, 20.0, np.arange(40), np.random.RandomState(0))
    reached = objective(higher, M, 20.0)
    assert reached > objective(words, M, 20.0)
    for k, j in ((0, 0), (7, 3), (39, 11), (20, 5)):
        flipped = higher.copy()
        flipped[k, j] *= -1
        assert objective(flipped, M, 20.0) <= reached + 1e-3 * abs(reached)


def test_words_that_may_not_move_stay_and_words_are_not_crowded():
    X, y = made()
    M = made_M(X, y)
    words = random_words(40, 32)
    learned = learn_words(words, M, np.arange(30, 40), np.random.RandomState(0))
    np.testing.assert_array_equal(learned[:30], words[:30])
    assert (learned[30:] != words[30:]).any()
    everything = learn_words(words, M, np.arange(40), np.random.RandomState(0))
    assert crowding(everything, np.arange(40)) < max(2.0, crowding(words, np.arange(40))) + 1e-6
    B = everything.astype(float)
    assert np.trace(B.T @ M @ B) > np.trace(words.astype(float).T @ M @ words)


def test_words_of_more_classes_than_are_compared_are_predicted(monkeypatch):
    """They are easier than random words, near those that were learned, and different from each other."""
    X, y = made(n_classes=120, spread=0.3)
    Phi = np.column_stack([X, np.ones(len(X), np.float32)])
    sums = Phi.T @ Phi, np.eye(120)[y].T @ Phi
    words = random_words(120, 48)
    monkeypatch.setattr(words_module, "MOST_CLASSES", 60)
    learned = learn_many_words(words, *sums, np.arange(120), np.random.RandomState(0))
    M, before, after = explained(*sums), words.astype(float), learned.astype(float)
    assert np.trace(after.T @ M @ after) > 1.5 * np.trace(before.T @ M @ before)
    assert len(np.unique(learned, axis=0)) > 110
    some = np.arange(100, 120)
    changed = learn_many_words(learned, *sums, some, np.random.RandomState(1))
    np.testing.assert_array_equal(changed[:100], learned[:100])


def test_a_label_per_row_is_told_before_it_is_learned():
    X = np.random.RandomState(0).randn(80, 8).astype(np.float32)
    with pytest.warns(UserWarning, match=r"label of its own \(80 labels\): is that column ids"):
        hasher = SIH(16, n_anchors=20, random_state=0).fit(X, np.arange(80))
    assert len(hasher.kernel_.anchors) == 40  # not one a row


def test_learned_words_predict_better_than_separated_ones_and_new_classes_join_them():
    X, y = made(n_classes=120, per_class=12, spread=0.8)
    test = np.arange(len(y)) % 4 == 0
    fits = {}
    for codebook in ("learned", "separated"):
        hasher = SIH(24, n_anchors=120, codebook=codebook, random_state=0).fit(X[~test], y[~test])
        fits[codebook] = (hasher.predict(X[test]) == y[test]).mean()
    assert fits["learned"] > fits["separated"] - 0.02
    old = y < 115
    hasher = SIH(24, n_anchors=120, random_state=0).fit(X[~test & old], y[~test & old])
    before = hasher.training_.table.main_words(hasher.training_.live)
    hasher.add(X[~test & ~old], y[~test & ~old])
    after = hasher.training_.table.main_words(hasher.training_.live)
    assert (after[:115] == before).mean() > 0.99
    new = test & ~old
    assert (hasher.predict(X[new]) == y[new]).mean() > 0.5


def test_classes_of_one_to_three_rows():
    X, y = made(n_classes=60, per_class=3)
    keep = np.concatenate([np.flatnonzero(y == k)[: 1 + k % 3] for k in range(60)])
    hasher = SIH(32, n_anchors=30, random_state=0).fit(X[keep], y[keep])
    assert len(hasher.kernel_.anchors) == 60
    assert "60 anchors, one per class, not 30" in str(hasher.report_)
    np.testing.assert_array_equal(np.unique(hasher.kernel_.anchor_classes), np.arange(60))
    assert (hasher.predict(X) == y).mean() > 0.3


@pytest.mark.parametrize("solver", ["smooth", "ocas"])
@pytest.mark.parametrize("anchors", ["classes", "given"])
def test_rows_of_new_classes_have_the_words_that_were_learned_for_them(anchors, solver):
    """With anchors of no class the sums over rows are kept, and rows that change their word count again."""
    X, y = made()
    labels = [[int(k)] if i % 3 else [int(k), int(k + 1) % 40] for i, k in enumerate(y)]
    first = y < 30
    anchors = X[::20] if anchors == "given" else anchors
    hasher = SIH(16, n_anchors=60, anchors=anchors, solver=solver, tol=0.05, random_state=0)
    hasher.fit(X[first], [own for own, there in zip(labels, first, strict=True) if there])
    before = hasher.training_.class_words(hasher.training_.live)
    hasher.add(X[~first], [own for own, there in zip(labels, first, strict=True) if not there])
    training = hasher.training_
    rows, table = training.svms.rows, training.table
    np.testing.assert_array_equal(training.class_words(training.live)[: len(before)], before)
    np.testing.assert_array_equal(rows.column("Y"), table.words[rows.column("pair")])
    np.testing.assert_array_equal(np.bincount(rows.column("pair"), minlength=len(table.counts)), table.counts)
    for pair in table.live():
        own = np.array(training.sets.members[table.sets[pair]])
        np.testing.assert_array_equal(table.words[pair], word_of_set(training.class_words(own)))
        assert table.find(table.words[pair], int(table.sets[pair])) == pair
    risk = np.maximum(0, 1 - rows.column("Y") * (rows.column("Phi") @ training.svms.W.T)).sum(axis=0)
    np.testing.assert_allclose(training.svms.risk, risk, rtol=1e-3, atol=1e-2)
