"""From what a user writes to an engine."""

from __future__ import annotations

import os
from typing import Any

from sihash.engines.cluster import connect, current_client
from sihash.engines.disk import Scratch
from sihash.engines.local import Engine, LocalEngine


def is_dask_array(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "to_delayed")


def open_engine(name: Any, X: Any = None) -> Engine:
    """The engine of a name: None or "local", "disk", "disk:/directory", "dask", or a scheduler's address.

    An engine is itself.

    Without a name, rows ``X`` in a Dask array stay on the cluster of the current client, if there is one.
    """
    if name is None and is_dask_array(X) and current_client() is not None:
        name = "dask"
    if hasattr(name, "lay_out"):
        return name
    if name is None or name == "local":
        return LocalEngine()
    if isinstance(name, str) and (name == "disk" or name.startswith("disk:")):
        directory = name.removeprefix("disk").removeprefix(":") or None
        if directory is not None and not os.path.isdir(directory):
            raise ValueError(f"engine={name!r}: there is no directory {directory}; make it first.")
        return LocalEngine(Scratch(directory))
    if isinstance(name, str) and (name == "dask" or "://" in name):
        client = connect(name)
        from sihash.engines.dask import DaskEngine

        return DaskEngine(client)
    raise ValueError(
        'engine must be None, "local", "disk", "disk:/directory", "dask" or the address of a Dask scheduler '
        f"as in tcp://host:8786, got {name!r}."
    )
