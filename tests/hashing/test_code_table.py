"""The table of words and classes against plain dictionaries."""

import numpy as np
import pytest

from sihash import codes
from sihash.hashing.code_table import CodeTable


@pytest.mark.parametrize("n_bits", [1, 8, 13, 128])
@pytest.mark.parametrize("n", [1, 500])
def test_pairs_of_many_rows_are_those_found_one_by_one(n_bits, n):
    rng = np.random.RandomState(n_bits)
    words = np.where(rng.uniform(size=(6, n_bits)) < 0.5, 1, -1).astype(np.int8)
    own, classes = words[rng.randint(6, size=n)], rng.randint(3, size=n)
    table = CodeTable(n_bits)
    known = table.find(words[0], 1)  # one that is there already keeps its number
    pairs = table.find_all(codes.pack(own), classes)
    assert known == 0
    assert pairs.tolist() == [table.find(word, c) for word, c in zip(own, classes, strict=True)]
    np.testing.assert_array_equal(table.words[pairs], own)
    np.testing.assert_array_equal(table.sets[pairs], classes)
    assert len(table.counts) == len(
        {(w.tobytes(), c) for w, c in zip(own, classes, strict=True)} | {(words[0].tobytes(), 1)}
    )
