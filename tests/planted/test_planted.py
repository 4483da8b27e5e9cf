"""The planted bugs apply to the source, name tests that there are, and are noticed by them; see `run`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from run import PATCHES, REPOSITORY, apply, planted, tests_of, without_bugs


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


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_planted_bug_is_noticed(patch, tmp_path):
    noticed, said = planted(patch, tmp_path)
    assert noticed, said


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_without_a_bug_the_same_tests_pass(tmp_path):
    passed, said = without_bugs(PATCHES, tmp_path)
    assert passed, said
