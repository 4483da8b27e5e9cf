"""What a search or a classification is asked about: files named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sihash._typing import Array
    from sihash.database import ImageDatabase


def read_queries(database: ImageDatabase, paths: list[Path]) -> tuple[Any, list[str]]:
    """What `ImageDatabase.search` takes, and a name for each query.

    Images where the database holds images; where it holds vectors, the rows of vector files.
    """
    if database.features.name != "none":
        return paths, [str(path) for path in paths]
    import numpy as np

    from sihash.datasets.loading import read

    matrices, names = [], []
    for path in paths:
        collection = read(path)
        if not collection.holds_vectors:
            raise ValueError(
                f"{database.path} holds vectors, and {path} does not; give an .npy, .npz or table."
            )
        matrices.append(np.asarray(collection.X, dtype=np.float32))
        _check(matrices[-1], matrices[0], path)
        names += [f"{path} row {row}" for row in range(len(matrices[-1]))]
    return np.concatenate(matrices), names


def _check(X: Array, first: Array, path: Path) -> None:
    if not len(X):
        raise ValueError(f"{path} holds no vector; give one with at least one row.")
    if X.shape[1] != first.shape[1]:
        raise ValueError(
            f"{path} holds vectors of {X.shape[1]} numbers, the first file those of {first.shape[1]}; "
            "give files of one width."
        )
