"""Which rows are learned from: within the budget, and every class has its share."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sihash.hashing.training_sample import class_rates, in_sample


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60), st.integers(1, 400), st.integers(0, 10**6))
def test_a_class_of_few_rows_is_never_left_out(sizes, budget, first):
    classes = np.repeat(np.arange(len(sizes)), sizes)
    numbers = np.arange(first, first + len(classes))
    chosen = in_sample(numbers, classes, class_rates(np.array(sizes), budget))
    assert set(classes[chosen]) == set(classes)


def test_a_class_that_has_rows_already_needs_no_other():
    classes, rates = np.array([0, 1]), np.zeros(2)
    assert in_sample(np.arange(2), classes, rates).tolist() == [True, True]
    assert in_sample(np.arange(2), classes, rates, np.array([True, False])).tolist() == [False, True]
