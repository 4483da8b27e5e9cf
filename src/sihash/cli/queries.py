"""Queries of a search or a classification: files named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sihash._typing import Array
    from sihash.database import Database


def read_queries(database: Database, paths: list[Path]) -> tuple[Any, list[str]]:
    """The queries as `Database.search` takes them, and a name for each.

    Images if the database holds images, rows of vector files if it holds vectors.
    """
    if database.features.name != "none":
        for path in paths:
            if path.suffix in (".npy", ".npz", ".parquet"):
                raise ValueError(f"{database.path} holds images, and {path} holds vectors; give image files.")
        return paths, [str(path) for path in paths]
    import numpy as np

    from sihash.datasets.loading import read

    matrices, names = [], []
    for path in paths:
        collection = read(path)
        if not collection.holds_vectors:
            raise ValueError(
                f"{database.path} holds vectors, and {path} does not; give an .npy or .npz file, or a table."
            )
        matrices.append(np.asarray(collection.X, dtype=np.float32))
        _check(matrices[-1], matrices[0], path)
        names += [f"{path} row {row}" for row in range(len(matrices[-1]))]
    return np.concatenate(matrices), names


def _check(X: Array, first: Array, path: Path) -> None:
    if not len(X):
        raise ValueError(f"{path} is empty; give a file with at least one vector.")
    if X.shape[1] != first.shape[1]:
        raise ValueError(
            f"{path} holds vectors of {X.shape[1]} numbers, the first file of {first.shape[1]}; "
            "all must have the same length."
        )
