"""Model files whose digest is right and whose content is not: one kind of error, and NaN never loads."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from sihash import SIH, modelfile
from sihash.modelfile import ModelFileError
from test_every_hasher import HASHERS

X, Y = make_blobs(120, n_features=6, centers=4, random_state=0)
X = X.astype(np.float32)


def places(value, path=()):
    """All places in a header, outermost first."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, each in value.items():
            yield from places(each, (*path, name))


def with_value(header, path, value):
    out = inside = copy.deepcopy(header)
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = value
    return out


def saved(name, path, solver=None, **options):
    hasher = HASHERS[name](**({} if solver is None else {"solver": solver})).fit(X, Y)
    hasher.save(path, **options)
    return type(hasher), *modelfile.read(path)


CASES = [(name, {}) for name in HASHERS] + [("SIH", {"updatable": False}), ("SIH", {"solver": "ocas"})]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_tensors_that_are_not_what_was_saved(name, options, tmp_path):
    """NaN, another shape, another type: each is refused, and its tensor named."""
    cls, header, tensors = saved(name, tmp_path / "model", **options)
    for tensor, value in tensors.items():
        bad = []
        if value.dtype.kind == "f":
            bad.append(np.where(np.arange(value.size).reshape(value.shape) == 0, np.nan, value))
        if value.size:
            other = np.int64 if value.dtype.kind == "f" else np.float64
            bad += [value[:-1], value[None], value.astype(other)]
        for wrong in bad:
            modelfile.write(tmp_path / "bad", header, {**tensors, tensor: wrong})
            with pytest.raises(ModelFileError):
                cls.load(tmp_path / "bad")
            if wrong.dtype.kind == "f" and np.isnan(wrong).any():
                with pytest.raises(ModelFileError, match=repr(tensor)):
                    cls.load(tmp_path / "bad")


@pytest.mark.parametrize(("name", "options"), CASES)
def test_header_entries_that_are_not_what_was_saved(name, options, tmp_path):
    cls, header, tensors = saved(name, tmp_path / "model", **options)
    defaults = cls().get_params()
    for path in places(header):
        for wrong in (None, float("nan"), {"a": 1}):
            if path[0] == "params" and len(path) > 1 and defaults[path[1]] is None:
                continue  # takes None; what else it takes, a fit checks
            modelfile.write(tmp_path / "bad", with_value(header, path, wrong), tensors)
            with pytest.raises(ModelFileError):
                cls.load(tmp_path / "bad")


def test_weights_that_are_not_a_number_are_named(tmp_path):
    _, header, tensors = saved("SIH", tmp_path / "model", updatable=False)
    tensors["bit_coef"] = np.full_like(tensors["bit_coef"], np.nan)
    modelfile.write(tmp_path / "model", header, tensors)
    with pytest.raises(ModelFileError, match=r"model is not .* at 'bit_coef', numbers are NaN or infinite"):
        SIH.load(tmp_path / "model")


def test_a_parameter_without_a_value_is_named(tmp_path):
    cls, header, tensors = saved("SIH", tmp_path / "model")
    header["params"]["C_x"] = None
    modelfile.write(tmp_path / "model", header, tensors)
    with pytest.raises(ModelFileError, match=r"at 'params.C_x', a value was expected, got None"):
        cls.load(tmp_path / "model")
