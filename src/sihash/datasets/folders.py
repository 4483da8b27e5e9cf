"""Images in class folders, in any tree: ``train/<class>/…`` and ``test/<class>/…``, or ``<class>/…``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

import numpy as np

from sihash.datasets.dataset import Collection, Reject
from sihash.datasets.files import FileTree

Parts = tuple[str, ...]
_LEFT_BEHIND = ("__MACOSX", "Thumbs.db", "desktop.ini")
_TEST_NAMES = ("test", "val", "validation")  # the first that is there


def read(tree: FileTree) -> Collection:
    """Every file of the tree as a picture-to-be; what cannot be decoded is found out on reading.

    The class is the first folder, below ``train`` or ``test`` if there are such. Pictures that all lie in one
    folder have no labels; a picture beside class folders has none either, and is rejected. Hidden files are
    left out.
    """
    rejects = list(tree.odd)
    paths: dict[str, Parts] = {}
    for name, parts in _below_wrapper({name: PurePosixPath(name).parts for name in tree.names}).items():
        if not _is_hidden(name):
            paths[name] = parts
    test = _test_folder(paths.values())
    n_above = 1 if test else 0  # folders above the class
    labelled = any(len(parts) > n_above + 1 for parts in paths.values())
    for name, parts in list(paths.items()):
        if test and (len(parts) == 1 or parts[0].lower() not in ("train", test)):
            rejects.append(Reject(name, f"neither in train nor in {test}"))
        elif labelled and len(parts) == n_above + 1:
            rejects.append(Reject(name, "in no class folder"))
        else:
            continue
        del paths[name]
    return Collection(
        kind=f"images in a {type(tree).__name__.lower()}",
        X=tree.stream(list(paths)),
        y=np.array([parts[n_above] for parts in paths.values()], dtype=str) if labelled else None,
        is_test=np.array([bool(test) and parts[0].lower() == test for parts in paths.values()], dtype=bool),
        fingerprint=tree.fingerprint,
        names=list(paths),
        rejects=rejects,
        ids=list(paths),
    )


def _is_hidden(name: str) -> bool:
    """What file managers leave behind, and what is hidden: nobody meant it as a picture."""
    return any(part.startswith(".") or part in _LEFT_BEHIND for part in PurePosixPath(name).parts)


def _below_wrapper(paths: dict[str, Parts]) -> dict[str, Parts]:
    """The paths without the folders that hold everything: ``photos/cat/1.jpg`` becomes ``cat/1.jpg``.

    A folder is a wrapper if there are folders in it and none beside it; files beside it, such as a README, do
    not count.
    """
    while True:
        tops = {parts[0] for name, parts in paths.items() if len(parts) > 1 and not _is_hidden(name)}
        deep = any(len(parts) > 2 for parts in paths.values())
        if len(tops) != 1 or not deep:
            return paths
        paths = {name: parts[1:] if len(parts) > 1 else parts for name, parts in paths.items()}


def _test_folder(paths: Iterable[Parts]) -> str | None:
    """The name of the test part, if the top folders are parts rather than classes."""
    tops = {parts[0].lower() for parts in paths if len(parts) > 1}
    if "train" not in tops:
        return None
    return next((name for name in _TEST_NAMES if name in tops), None)
