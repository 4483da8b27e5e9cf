import numpy as np
import pytest

from sihash import SIH
from sihash.hashing.class_probability import LeftOut, _without_own_anchor, class_margins, margin_proba

NAMELESS = np.zeros(1, int), np.zeros(1, int)  # keys and pairs, which have no say here


def scattered(n, words, noise, rng):
    y = rng.randint(len(words), size=n)
    return words[y] + noise * rng.randn(n, words.shape[1]), y


def test_rows_left_out_move_against_their_bit_and_only_within_the_margin():
    sample = LeftOut(
        np.array([[0.5, 2.0, -0.5]]),
        np.array([[1, 1, -1]]),
        np.zeros(1, int),
        np.array([0.2]),
        np.zeros((1, 3)),
        *NAMELESS,
    )
    np.testing.assert_allclose(sample.without_themselves(), [[0.3, 2.0, -0.3]])


def test_probabilities_of_normal_margins_are_honest():
    rng = np.random.RandomState(0)
    words = np.where(rng.rand(30, 16) < 0.5, -1, 1)
    scores, y = scattered(3000, words, 1.5, rng)
    sample = LeftOut(scores, words[y], y, np.zeros(len(y)), np.zeros(scores.shape), *NAMELESS)
    head = class_margins(scores, y, words, sample)
    assert head.shape == (30, 17)
    assert head.dtype == np.float32
    scores, y = scattered(3000, words, 1.5, rng)
    P = margin_proba(scores, head)
    assert abs(P.max(axis=1).mean() - (P.argmax(axis=1) == y).mean()) < 0.03


def test_classes_that_are_never_confused_have_probabilities_all_the_same():
    words = np.array([[1, 1, 1, 1], [-1, -1, -1, -1]])
    y = np.repeat([0, 1], 50)
    sample = LeftOut(2.0 * words[y], words[y], y, np.zeros(100), np.zeros((100, words.shape[1])), *NAMELESS)
    P = margin_proba(2.0 * words, class_margins(2.0 * words[y], y, words, sample))
    assert 0.9 < P[0, 0] < 1


@pytest.mark.parametrize("solver", ["smooth", "ocas"])
def test_honest_on_rows_that_the_svms_never_saw(solver):
    rng = np.random.RandomState(1)
    centres = rng.randn(12, 20)
    y = rng.randint(12, size=3000)
    X = (centres[y] + 1.3 * rng.randn(3000, 20)).astype(np.float32)
    hasher = SIH(16, n_anchors=150, solver=solver, random_state=0).fit(X[:1000], y[:1000])
    P = hasher.predict_proba(X[1000:])
    assert abs(P.max(axis=1).mean() - (P.argmax(axis=1) == y[1000:]).mean()) < 0.06


def test_the_head_follows_classes_that_come_and_go(tmp_path):
    rng = np.random.RandomState(2)
    centres = 2 * rng.randn(8, 10)
    y = rng.randint(8, size=800)
    X = (centres[y] + rng.randn(800, 10)).astype(np.float32)
    hasher = SIH(16, n_anchors=80, random_state=0).fit(X[y < 7], y[y < 7])
    assert hasher.predict_proba(X).shape == (800, 7)
    hasher.add(X[y == 7], y[y == 7])
    assert (hasher.predict(X) == y).mean() > 0.9
    hasher.remove_classes([0])
    assert (hasher.predict(X[y > 0]) == y[y > 0]).mean() > 0.9
    hasher.save(tmp_path / "m", updatable=False)
    np.testing.assert_array_equal(SIH.load(tmp_path / "m").predict_proba(X), hasher.predict_proba(X))


def test_a_row_left_out_takes_no_part_in_its_anchor():
    """Without a row, the mean of n rows lies n/(n − 1) times as far from it; an only row has no anchor."""
    rng = np.random.default_rng(0)
    Z, width = 0.3 * rng.standard_normal((4, 5)), 0.8
    y, anchors = np.array([0, 0, 0, 1]), np.array([Z[:3].mean(axis=0), Z[3]])

    def kernel(centres):
        return np.exp(-((Z[:, None] - centres) ** 2).sum(axis=-1) / (2 * width**2))

    Phi, V = np.column_stack([kernel(anchors), np.ones(4)]), rng.standard_normal((3, 6))
    moved = _without_own_anchor(Phi, y, V, np.array([3, 1]), np.array([0, 1]))
    for i in range(3):
        others = Z[[k for k in range(3) if k != i]].mean(axis=0)
        expected = (kernel(others[None])[i, 0] - Phi[i, 0]) * V[0]
        np.testing.assert_allclose(moved[i], expected, rtol=1e-5)
    np.testing.assert_allclose(moved[3], -V[1], rtol=1e-5)
    new_class = _without_own_anchor(Phi, np.full(4, 2), V, np.array([3, 1, 4]), np.array([0, 1]))
    np.testing.assert_array_equal(new_class, 0)  # of a class that came later nothing is an anchor
