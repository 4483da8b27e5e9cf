"""The planted bugs still apply to the source, and name tests that there are; `run` plants them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from run import PATCHES, REPOSITORY, apply, tests_of


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_planted_bug_applies_and_names_its_tests(patch):
    applied = apply(patch, REPOSITORY, "--check")
    assert applied.returncode == 0, applied.stderr
    tests = tests_of(patch)
    assert tests
    for test in tests:
        path, _, name = test.partition("::")
        text = (REPOSITORY / path).read_text()
        assert re.search(rf"^def {name.partition('[')[0]}\(", text, re.MULTILINE), test


def test_there_are_enough():
    assert len(PATCHES) >= 16
