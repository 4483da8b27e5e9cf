"""`load`: from a name or a path to arrays."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sihash import labels as labels_module
from sihash._typing import Array, Progress
from sihash.datasets import arrow, digits, folders, tables, vectors
from sihash.datasets import cache as feature_cache
from sihash.datasets.dataset import Collection, Dataset, Reject, check_fits
from sihash.datasets.files import open_tree
from sihash.datasets.roles import NO_COLUMNS, ColumnChoice
from sihash.features import extractor
from sihash.features.extract import decode_all, extract_stream, process

logger = logging.getLogger("sihash")


def load(
    source: str | os.PathLike[str],
    features: str | None = None,
    *,
    labels: str | os.PathLike[str] | None = None,
    cache: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> Dataset:
    """Load a collection from a path, or scikit-learn's ``digits`` by this name.

    A path may be a folder, zip or tar of class folders; or an ``.npz``, ``.npy``, Parquet, Arrow, CSV, TSV or
    JSON-lines file. Files are recognised by their content. Load your own folder called ``digits`` as
    ``./digits``.

    Parameters
    ----------
    source : name or path
    features : ``gist``, ``pixels``, ``onnx:<file>``, or None
        None leaves vectors and images unchanged.
    labels : path or column name
        The labels of an ``.npy`` file, or the label column of a table.
    cache : bool
        Cache features on disk, keyed by content and settings.
    progress : callable
        Called with the phase and how much of it is done, 0…1.
    **options
        Options of the extractor, like ``size``.

    Examples
    --------
    >>> data = load("digits", "pixels")
    >>> data.X_train.shape, data.X_test.shape
    ((1438, 64), (359, 64))
    """
    collection = read(source, labels)
    return dataset_of(collection, source, features, cache=cache, progress=progress, **options)


def dataset_of(
    collection: Collection,
    source: str | os.PathLike[str],
    features: str | None,
    *,
    cache: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> Dataset:
    """The arrays of a collection, with features where it holds images; parameters as in `load`."""
    wanted = None if features in (None, "none") else features
    chosen = extractor(wanted, **options) if wanted else None
    if chosen is None and options:
        raise ValueError(f"Options {', '.join(options)} are for features, but features is None.")
    described = ", ".join([wanted or "none", *(f"{name}={value}" for name, value in options.items())])
    about: dict[str, Any] = {"source": str(source), "kind": collection.kind, "features": described}
    if chosen is None:
        return _finish(collection, *_unchanged(collection, progress), about)
    if collection.holds_vectors:
        raise ValueError(
            f"{source} holds vectors already; features={features!r} are made from images. Leave them out."
        )
    entry = feature_cache.key(collection.fingerprint(), chosen.settings) if cache else None
    stored = feature_cache.read(entry) if entry else None
    if stored:
        return Dataset(**stored, **about)
    data = _finish(
        collection, *extract_stream(collection.X, chosen, progress, len(collection.is_test)), about
    )
    if entry:
        _keep(entry, data)
    return data


def _keep(entry: str, data: Dataset) -> None:
    try:
        feature_cache.write(entry, data)
    except OSError as error:  # a full or read-only disk costs time at the next load, nothing else
        logger.warning("The features could not be kept in %s: %s.", feature_cache.folder(), error)


def read(
    source: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    *,
    mapped: bool = False,
    asked: ColumnChoice = NO_COLUMNS,
) -> Collection:
    """The collection as it is found, images not decoded yet; vectors in a file may stay on the disk."""
    if source == "digits":
        return digits.read()
    path = Path(source).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"There is nothing at {path}; give a path, or the name digits.")
    return _read_path(path, Path(labels) if labels else None, mapped, asked)


def _read_path(path: Path, labels: Path | None, mapped: bool, asked: ColumnChoice) -> Collection:
    """Recognise by content what is at ``path``, and read it."""
    head = b""
    if path.is_file():
        with open(path, "rb") as file:
            head = file.read(8)
    if head.startswith(vectors.NPY):
        return vectors.read_npy(path, labels, mapped)
    if head.startswith((arrow.PARQUET, arrow.ARROW)):
        return arrow.read_table(path, labels, mapped, asked)
    if path.is_file() and tables.is_table(path):
        return tables.read(path, str(labels) if labels else None, asked)
    if asked.id is not None and not (head.startswith(b"PK") and vectors.is_npz(path)):
        raise ValueError(f"A column of ids ({asked.id!r}) is for tables and .npz files; {path} is neither.")
    tree = open_tree(path)
    if labels:
        raise ValueError(f"labels= is for .npy files and tables; {path} has its labels within.")
    if tree is None:
        raise ValueError(
            f"{path} is none of the kinds that can be loaded: a folder, zip or tar of class folders, npz, "
            "npy, Parquet, Arrow, CSV, TSV, JSON lines."
        )
    if head.startswith(b"PK") and vectors.is_npz(path):
        return vectors.read_npz(path, asked)
    return folders.read(tree)


def _unchanged(collection: Collection, progress: Progress | None) -> tuple[Any, dict[int, str]]:
    """Vectors and image arrays as they are; files decoded."""
    if isinstance(collection.X, np.ndarray):
        return collection.X, {}
    n_bytes = 0

    def prepare(image: Image.Image) -> Array:
        nonlocal n_bytes
        n_bytes += image.width * image.height * 3
        check_fits(n_bytes, "The decoded images")
        return np.asarray(image)

    images, problems = process(
        collection.X, lambda items: decode_all(items, prepare, None), 64, _counted(collection, progress)
    )
    one_size = len({image.shape for image in images}) == 1
    return np.stack(images) if one_size else images, problems


def _counted(collection: Collection, progress: Progress | None) -> Callable[[int], None] | None:
    n = len(collection.is_test)
    return (lambda done: progress("reading", done / n)) if progress else None


def _finish(collection: Collection, X: Any, problems: dict[int, str], about: dict[str, Any]) -> Dataset:
    """Leave out what could not be used, number the classes, and divide into the two parts."""
    n = len(collection.is_test)
    names = collection.names or [f"image {i}" for i in range(n)] if problems else []
    rejects = [*collection.rejects, *(Reject(names[i], reason) for i, reason in sorted(problems.items()))]
    kept = np.ones(n, dtype=bool)
    kept[list(problems)] = False
    if not kept.any():
        raise ValueError(_nothing_readable(about["source"], rejects))
    is_test = collection.is_test[kept]
    y, class_names = _numbered(collection, kept)
    train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    return Dataset(
        X_train=_take(X, train),
        y_train=None if y is None else y[train],
        X_test=_take(X, test),
        y_test=None if y is None else y[test],
        class_names=class_names,
        rejects=rejects,
        **about,
    )


def _nothing_readable(source: str, rejects: list[Reject]) -> str:
    why = f" ({len(rejects)} files were skipped; {rejects[0].name}: {rejects[0].reason})" if rejects else ""
    return f"Nothing readable in {source}{why}; looked for pictures in class folders and vector files."


def _numbered(collection: Collection, kept: Array) -> tuple[Array | None, list[str]]:
    """Labels and class names: names of folders become numbers, stored labels stay as they are."""
    if collection.y is None:
        return None, []
    y = collection.y[kept]
    if y.dtype == object and any(isinstance(label, list) for label in y):
        return _indicators(y)
    if y.dtype == object and any(label is None for label in y):
        raise ValueError("Some rows have no label; give every row one, or leave those without out.")
    if collection.class_names is not None:
        return y, [str(name) for name in collection.class_names]
    if y.ndim == 2:
        return y, [str(k) for k in range(y.shape[1])]
    classes, numbers = labels_module.encode(y)
    names = [str(c) for c in classes]
    stored = collection.names is None or collection.holds_vectors
    return (y if stored else numbers.astype(np.int64)), names


def _indicators(y: Array) -> tuple[Array, list[str]]:
    """Lists of labels as an indicator matrix, and the labels that its columns stand for."""
    lists = [[] if label is None else label for label in y]
    if not all(isinstance(own, list) for own in lists):
        odd = next(label for label in lists if not isinstance(label, list))
        raise ValueError(f"Some rows have lists of labels and others one, such as {odd!r}; give all lists.")
    flat = [label for own in lists for label in own]
    classes, numbers = labels_module.encode(labels_module.one_each(flat, len(flat)))
    Y = np.zeros((len(lists), len(classes)), dtype=np.int8)
    Y[np.repeat(np.arange(len(lists)), [len(own) for own in lists]), numbers] = 1
    return Y, [str(label) for label in classes]


def _take(X: Any, rows: Array) -> Any:
    """Rows of an array, as a view where they are adjacent, or of a list."""
    if not isinstance(X, np.ndarray):
        return [X[i] for i in rows]
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return X[rows[0] : rows[-1] + 1]
    return X[rows]
