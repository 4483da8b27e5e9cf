"""From what a user writes to an engine."""

from __future__ import annotations

import os
from typing import Any

from sihash.engines.disk import Scratch
from sihash.engines.local import LocalEngine


def open_engine(name: Any) -> LocalEngine:
    """The engine of a name: None or "local", "disk" or "disk:/directory"."""
    if name is None or name == "local":
        return LocalEngine()
    if isinstance(name, str) and (name == "disk" or name.startswith("disk:")):
        directory = name.removeprefix("disk").removeprefix(":") or None
        if directory is not None and not os.path.isdir(directory):
            raise ValueError(f"engine={name!r}: there is no directory {directory}; make it first.")
        return LocalEngine(Scratch(directory))
    raise ValueError(f'engine must be None, "local", "disk" or "disk:/directory", got {name!r}.')
