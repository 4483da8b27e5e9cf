"""A hasher as one model file (`sihash.modelfile`): its class, its parameters, its state. No scikit-learn."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from sihash import modelfile
from sihash._typing import Array
from sihash.modelfile import Entries, ModelFileError

PARAM = "param."  # before the names of parameters that are arrays


def write(
    path: str | os.PathLike[str],
    class_name: str,
    params: dict[str, Any],
    hasher: Any,
    header: dict[str, Any],
    tensors: dict[str, Array],
) -> None:
    """Write what `read` and `restore` make a ``class_name`` of; ``hasher`` knows the features of its rows."""
    plain, arrays = _split_params(params)
    header = {"class": class_name, "params": plain, "n_features_in": hasher.n_features_in_, **header}
    if hasattr(hasher, "feature_names_in_"):
        header["feature_names_in"] = hasher.feature_names_in_.tolist()
    modelfile.write(path, header, {**arrays, **tensors})


def read(path: str | os.PathLike[str], class_name: str) -> tuple[Entries, Entries, dict[str, Any]]:
    """Header, tensors and parameters of a file that holds a ``class_name``."""
    header, tensors = modelfile.read(path)
    if header.get("class") != class_name:
        raise ModelFileError(
            f"{path} holds a {header.get('class')} model; open it with {header.get('class')}.load."
        )
    params = header["params"]
    if not isinstance(params, Entries):
        raise header.wrong("params", f"parameters were expected, got {params!r}")
    modelfile.check_numbers(tensors)
    arrays = {k.removeprefix(PARAM): v for k, v in tensors.items() if k.startswith(PARAM)}
    return header, tensors, {**params, **arrays}


def restore(hasher: Any, path: str | os.PathLike[str], header: Entries, tensors: Entries) -> None:
    """Give a hasher what `write` kept of it."""
    hasher.n_features_in_ = int(header.number("n_features_in"))
    if "feature_names_in" in header:
        names = header.list("feature_names_in")
        hasher.feature_names_in_ = np.array(names, dtype=object)
        if len(names) != hasher.n_features_in_:
            raise header.wrong("feature_names_in", f"{hasher.n_features_in_} names were expected")
    modelfile.check_shapes(tensors, {"mean": (hasher.n_features_in_,)})
    try:
        hasher._set_state(header, tensors)
    except ModelFileError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path} is not a model file that save wrote: its entries do not fit each other ({error})."
        ) from error


def _split_params(params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Parameters for the JSON header, and those that are arrays. A generator's state is not kept."""
    plain, arrays = {}, {}
    for name, value in params.items():
        if isinstance(value, np.ndarray):
            arrays[PARAM + name] = value
        elif isinstance(value, np.generic):
            plain[name] = value.item()
        elif isinstance(value, np.random.RandomState):
            plain[name] = None
        else:
            plain[name] = value
    return plain, arrays
