"""NUS-WIDE in its official layout: 500-d bags of words, and a file of 0 and 1 for every concept."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import numpy as np

from sihash._typing import Array
from sihash.datasets.dataset import Collection, check_fits, two_parts
from sihash.datasets.files import FileTree

N_TAGS, N_WORDS = 10, 500
_LABELS = re.compile(r"(^|/)Labels_([^/]+)_(Train|Test)\.txt$")
_WORDS = re.compile(r"(^|/)BoW_(Train|Test)_int\.dat$")


def recognise(tree: FileTree) -> bool:
    return any(_WORDS.search(name) for name in tree.names)


def read(tree: FileTree, n_labels: str | None = None) -> Collection:
    """The images with exactly one of the ten most frequent tags, as in the paper; or all with all their tags.

    Frequencies are counted over both parts; ``y`` are positions in the tags in alphabetical order. With
    ``n_labels`` ("81", "21") it is the indicator matrix (n × n_labels) of the most frequent tags.
    """
    words = {m[2]: name for name in tree.names if (m := _WORDS.search(name))}
    labels = {(m[2], m[3]): name for name in tree.names if (m := _LABELS.search(name))}
    concepts = sorted({concept for concept, _ in labels})
    missing = [part for part in ("Train", "Test") if part not in words]
    missing += [f"{c} ({p})" for c in concepts for p in ("Train", "Test") if (c, p) not in labels]
    if missing or len(concepts) < N_TAGS:
        raise ValueError(
            f"{tree.path} is not the whole of NUS-WIDE: expected BoW_Train_int.dat, BoW_Test_int.dat and "
            f"Labels_<concept>_Train.txt and …_Test.txt for at least {N_TAGS} concepts, found "
            f"{len(concepts)} concepts"
            + (f" and no file for {', '.join(missing[:3])}" if missing else "")
            + "."
        )
    tagged = {p: np.stack([_flags(tree, labels[c, p]) for c in concepts]) for p in ("Train", "Test")}
    counts = tagged["Train"].sum(axis=1) + tagged["Test"].sum(axis=1)
    n_tags = N_TAGS if n_labels is None else _number(n_labels, len(concepts))
    top = np.sort(np.argsort(-counts, kind="stable")[:n_tags])
    train, test = (_part(tree, words[p], tagged[p][top], n_labels is None) for p in ("Train", "Test"))
    names = [concepts[k] for k in top]
    return two_parts("NUS-WIDE", train, test, class_names=names, fingerprint=tree.fingerprint)


def _number(n_labels: str, n_concepts: int) -> int:
    if not (n_labels.isdecimal() and 2 <= int(n_labels) <= n_concepts):
        raise ValueError(
            f"Expected how many labels of NUS-WIDE to load, from 2 to the {n_concepts} that there are, got "
            f"{n_labels!r}; leave it out for the images with exactly one of the {N_TAGS} most frequent."
        )
    return int(n_labels)


def _flags(tree: FileTree, name: str) -> Array:
    return np.array(tree.require(name).split(), dtype=np.int8) != 0


def _part(tree: FileTree, name: str, tagged: Array, one_each: bool) -> tuple[Array, Array]:
    kept = np.flatnonzero(tagged.sum(axis=0) == 1) if one_each else np.arange(tagged.shape[1])
    check_fits(4 * N_WORDS * len(kept), name)
    X = np.empty((len(kept), N_WORDS), dtype=np.float32)
    n_rows = n_kept = 0
    for row, line in enumerate(_lines(tree, name)):
        n_rows += 1
        if n_kept < len(kept) and row == kept[n_kept]:
            X[n_kept] = _words(line, name, row)
            n_kept += 1
    if n_rows != tagged.shape[1]:
        raise ValueError(f"{name} has {n_rows} rows, its label files have {tagged.shape[1]}.")
    return X, np.argmax(tagged[:, kept], axis=0).astype(np.int64) if one_each else tagged.T.astype(np.int8)


def _lines(tree: FileTree, name: str) -> Iterator[str]:
    with tree.open(name) as file:
        yield from (line for line in io.TextIOWrapper(file, encoding="ascii") if line.strip())


def _words(line: str, name: str, row: int) -> Array:
    values = np.array(line.split(), dtype=np.float32)
    if len(values) != N_WORDS:
        raise ValueError(f"Row {row} of {name} has {len(values)} numbers instead of {N_WORDS}.")
    return values
