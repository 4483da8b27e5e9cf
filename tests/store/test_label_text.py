"""Labels written as text stand for the labels that are there."""

from __future__ import annotations

import pytest

from sihash.store.labels import written_labels


@pytest.mark.parametrize(
    ("labels", "written"),
    [
        ([7, -1, 9], {"7": 7, "-1": -1, "12": 12, "-2": -2, "cat": "cat", "١": "١", "9" * 30: "9" * 30}),
        (["a", "b", "9"], {"a": "a", "9": "9", "8": "8"}),
        ([1, "a", -5], {"1": 1, "-5": -5, "a": "a", "2": "2"}),
        ([1, "1", "a"], {"1": "1"}),
    ],
)
def test_text_stands_for_the_label_that_is_there(labels, written):
    assert written_labels(labels, written) == list(written.values())
    assert written_labels(labels, [None]) == [None]
