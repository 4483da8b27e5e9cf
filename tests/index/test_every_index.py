"""Every index in this process, one list of promises (`index_checks`) and laws over random changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_checks import CHECKS, random_codes, same_answers
from numpy_index import NumpyIndex

from sihash.index import ScanIndex

INDEXES = {"numpy": NumpyIndex, "exact": ScanIndex}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", INDEXES)
def test_promise(name, check):
    check(INDEXES[name])


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "replace"]),
        st.sets(st.integers(0, 30), max_size=12),
        st.integers(0, 2**32 - 1),
    ),
    max_size=12,
)


@pytest.mark.parametrize("name", [name for name in INDEXES if name != "numpy"])
@settings(max_examples=60)
@given(n_bits=st.integers(1, 70), n_words=st.integers(1, 8), steps=steps)
def test_any_changes_leave_the_same_as_the_oracle(name, n_bits, n_words, steps):
    index, oracle = INDEXES[name](n_bits), NumpyIndex(n_bits)
    present: set[int] = set()
    for verb, wanted, seed in steps:
        rng = np.random.default_rng(seed)
        chosen = wanted - present if verb == "add" else wanted & present
        ids = rng.permutation(np.array(sorted(chosen), dtype=np.int64))
        codes = random_codes(rng, len(ids), n_bits, n_words)
        for each in (index, oracle):
            getattr(each, verb)(ids, *([] if verb == "remove" else [codes]))
        present = {"add": present | chosen, "remove": present - chosen, "replace": present}[verb]
        same_answers(index, oracle, rng, n_words)
