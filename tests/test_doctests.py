"""The examples in docstrings do what they say."""

import doctest
import importlib
import pkgutil

import pytest

import sihash

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(sihash.__path__, "sihash.")
    if not module.name.endswith("__main__")
)
WITH_EXAMPLES = {"sihash.codes", "sihash.svm.binary", "sihash.hashing.sih", "sihash.evaluation.retrieval"}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    tests = doctest.DocTestFinder().find(importlib.import_module(name))
    examples = [test for test in tests if test.examples]
    assert examples or name not in WITH_EXAMPLES, "public modules show how they are used"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in examples:
        assert runner.run(test).failed == 0, test.name
