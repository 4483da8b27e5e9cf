"""Every hasher, one list of promises (`hasher_checks`) and scikit-learn's own."""

from __future__ import annotations

from functools import partial

import pytest
from sklearn.utils.estimator_checks import check_estimator

from hasher_checks import CHECKS, N_BITS
from sihash import SIH
from sihash.research.baselines import BRE, CCAITQ, DBC, KSH, LSH, PCAITQ, SDH, FastHash

# Small enough that the whole list takes seconds.
HASHERS = {
    "SIH": partial(SIH, n_bits=N_BITS, n_anchors=30, random_state=0),
    "CCAITQ": partial(CCAITQ, n_bits=N_BITS, random_state=0),
    "SDH": partial(SDH, n_bits=N_BITS, n_anchors=30, random_state=0),
    "KSH": partial(KSH, n_bits=N_BITS, n_anchors=30, kernel_width=0.8, max_iter=30, random_state=0),
    "BRE": partial(BRE, n_bits=N_BITS, n_anchors=30, kernel_width=0.8, random_state=0),
    "DBC": partial(DBC, n_bits=N_BITS, n_anchors=30, kernel_width=0.8, random_state=0),
    "FastHash": partial(FastHash, n_bits=N_BITS, n_trees=5, feature_share=0.5, random_state=0),
    "PCAITQ": partial(PCAITQ, n_bits=N_BITS, random_state=0),
    "LSH": partial(LSH, n_bits=N_BITS, random_state=0),
}
# Checks of scikit-learn that a hasher fails for a reason, by hasher: {"check": "reason"}.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", HASHERS)
def test_promise(name, check, tmp_path):
    check(HASHERS[name], tmp_path)


@pytest.mark.parametrize("name", HASHERS)
def test_scikit_learn_contract(name):
    check_estimator(HASHERS[name](), expected_failed_checks=EXPECTED_FAILURES.get(name, {}))
