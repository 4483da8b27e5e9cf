"""Words of the classes: far apart, balanced, and for new classes too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_data import blobs

from sihash import SIH
from sihash.hashing.settings import CODEBOOKS
from sihash.hashing.words import first_words, improve_words, joining_words, random_codebook, random_words


def distances(words):
    words = words.astype(int)
    return ((words.shape[1] - words @ words.T) // 2)[np.triu_indices(len(words), 1)]


@settings(max_examples=30)
@given(
    st.sampled_from(CODEBOOKS),
    st.integers(2, 20),
    st.integers(1, 40),
    st.sampled_from([0.0, 0.01, 1.0]),
    st.integers(0, 9),
)
def test_any_codebook_has_the_right_form(kind, n_classes, n_bits, balance, seed):
    words = first_words(kind, n_bits, np.full(n_classes, 5), balance, np.random.RandomState(seed))
    assert words.dtype == np.int8
    assert words.shape == (n_classes, n_bits)
    assert set(np.unique(words)) <= {-1, 1}


def test_separated_words_come_close_to_the_plotkin_bound():
    words = first_words("separated", 32, np.full(10, 5000), True, np.random.RandomState(0))
    assert (
        distances(words).min() >= 16
    )  # with balanced columns the mean is 160/9 = 17.8, so no code has 18 throughout
    assert not words.sum(axis=0).any()


@pytest.mark.parametrize("seed", range(5))
def test_settled_words_stay(seed):
    """Words that were left because nothing was gained for a while are not improved by going on."""
    words = first_words("separated", 32, np.full(10, 50), True, np.random.RandomState(seed))
    again = words.copy()
    improve_words(again, np.full(10, 50), np.arange(10), 1.0, seed + 100)
    np.testing.assert_array_equal(again, words)


def test_separated_beats_random():
    rng = np.random.RandomState(0)
    separated = first_words("separated", 24, np.full(30, 9), True, rng)
    random = first_words("random", 24, np.full(30, 9), True, rng)
    assert distances(separated).min() > distances(random).min()


def test_balance_counts_rows_not_classes():
    sizes = np.array([900, 100, 100, 100, 100, 100, 100, 100, 100, 100])
    by_rows = first_words("separated", 32, sizes, True, np.random.RandomState(0))
    by_classes = first_words("separated", 32, np.full(10, 180), True, np.random.RandomState(0))
    assert np.abs(sizes @ by_rows).mean() < 0.6 * np.abs(sizes @ by_classes).mean()


@pytest.mark.parametrize("n_classes", range(2, 12))
def test_random_words_of_even_classes_are_as_even_as_can_be(n_classes):
    for seed in range(20):
        words = random_words(64, np.full(n_classes, 50), True, np.random.RandomState(seed))
        assert (np.abs(words.sum(axis=0)) == n_classes % 2).all()


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=12), st.integers(0, 9))
def test_random_words_are_even_to_within_one_class(sizes, seed):
    words = random_words(64, np.array(sizes), True, np.random.RandomState(seed))
    assert np.abs(np.array(sizes) @ words).max() <= max(sizes)


@pytest.mark.parametrize(("balanced", "expected"), [(True, 32 * 10 / 18), (False, 16)])
def test_distances_of_random_words_are_right_on_the_average(balanced, expected):
    """Of any two of ten classes: an even column parts them with probability 5/9, a free one with 1/2."""
    sizes = np.full(10, 50)
    found = [
        distances(random_words(32, sizes, balanced, np.random.RandomState(seed))) for seed in range(2000)
    ]
    assert np.mean(found, axis=0) == pytest.approx(np.full(45, expected), abs=0.35)  # σ of a mean is 0.06


def test_free_random_words_are_fair_signs():
    rng = np.random.RandomState(0)
    free = [np.abs(random_words(64, np.full(10, 50), False, rng).sum(axis=0)).mean() for _ in range(20)]
    assert np.mean(free) == pytest.approx(2.46, abs=0.2)  # mean |sum of ten fair signs|


def test_random_words_of_classes_that_join_even_out_the_others():
    rng = np.random.RandomState(0)
    known = np.where(rng.uniform(size=(4, 64)) < 0.5, 1, -1).astype(np.int8)
    added = random_codebook(64, np.full(4, 20), True, rng, known, np.full(4, 20))
    assert not (known.sum(axis=0) + added.sum(axis=0)).any()
    lopsided = np.ones((2, 64), np.int8)
    assert (random_words(64, np.array([30, 10]), True, rng, np.array([50, 50]) @ lopsided) == -1).all()


def test_no_two_classes_get_one_random_word():
    """A small second class evens out the first; a third one that evened it out too would be its double."""
    rng = np.random.RandomState(0)
    known = random_words(32, np.array([50, 50]), True, rng)
    (added,) = random_codebook(32, np.array([20]), True, rng, known, np.array([50, 10]))
    assert not (added == known).all(axis=1).any()


def test_classes_that_join_the_preset_even_out_its_columns():
    X, y = blobs(240, 6)
    hasher = SIH.paper(16, 30, random_state=0).fit(X[y < 4], y[y < 4])
    assert not hasher.codes_.sum(axis=0).any()
    hasher.add(X[y >= 4], y[y >= 4])
    assert not hasher.codes_.sum(axis=0).any()


def test_a_new_word_is_far_from_the_others_and_restores_balance():
    rng = np.random.RandomState(0)
    words = first_words("separated", 32, np.full(9, 100), True, rng)
    before = np.abs(words.sum(axis=0)).mean()
    word = joining_words(words, np.full(9, 100), np.array([100]), True, rng)
    together = np.concatenate([words, word])
    assert distances(together).min() >= 14
    assert np.abs(together.sum(axis=0)).mean() < before


def test_words_can_be_given():
    given_words = np.array([[1, -1, 1], [-1, -1, 1]])
    words = first_words(given_words, 3, np.array([4, 4]), True, np.random.RandomState(0))
    np.testing.assert_array_equal(words, given_words)


@pytest.mark.parametrize("bad", [np.ones((2, 4)), np.zeros((2, 3))])
def test_a_codebook_that_does_not_fit_is_refused(bad):
    with pytest.raises(ValueError, match="codebook must"):
        first_words(bad, 3, np.array([4, 4]), True, np.random.RandomState(0))


@pytest.mark.parametrize("n_bits", [32, 64, 128])
def test_separated_columns_are_distinct_where_they_can_be(n_bits):
    words = first_words("separated", n_bits, np.full(10, 50), True, np.random.RandomState(0))
    distinct = np.unique(words * words[0], axis=1)
    assert distinct.shape[1] == n_bits


def test_few_classes_get_every_split():
    words = first_words("separated", 14, np.full(4, 50), True, np.random.RandomState(0))
    assert len(np.unique(words * words[0], axis=1).T) == 7
    assert set(distances(words)) == {8}  # 4 of 7 splits part any two classes, twice
    assert not words[:, :3].sum(axis=0).any()  # even ones first
