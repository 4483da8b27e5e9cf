"""Checks of parameters that several modules share."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_count(name: str, value: Any) -> None:
    """Refuse what is not a whole number ≥ 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}.")
