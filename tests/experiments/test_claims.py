"""Verdicts: what was not measured is never confirmed."""

from __future__ import annotations

import pytest

from sihash.experiments.claims import Finding


@pytest.mark.parametrize(
    ("held", "n_open", "verdict"),
    [
        ([], 0, "not measured"),
        ([True, True], 0, "confirmed"),
        ([True, True], 1, "confirmed in part"),
        ([True, False], 0, "confirmed in part"),
        ([False, False], 3, "not confirmed"),
    ],
)
def test_verdicts(held, n_open, verdict):
    assert Finding(held, "", [], n_open).verdict == verdict
