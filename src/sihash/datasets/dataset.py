"""What `load` hands back, and what the readers hand to it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sihash._typing import Array

_NAMED_REJECTS = 5  # in the summary; the list holds all


@dataclass(frozen=True)
class Reject:
    """A file that was skipped, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Dataset:
    """A collection in two parts; what has no test part of its own is all training part.

    ``X_train`` and ``X_test`` are vectors (n × d, float), or images where no features were asked for: uint8
    n × h × w (× 3), or a list of such arrays if they are not of one size. ``y_train`` and ``y_test`` are
    positions in ``class_names``; in NumPy files and tables labels as they were stored; None without labels.
    """

    X_train: Any
    y_train: Array | None
    X_test: Any
    y_test: Array | None
    class_names: list[str]
    source: str
    kind: str
    features: str
    rejects: list[Reject] = field(default_factory=list)

    @property
    def summary(self) -> dict[str, Any]:
        """The facts in plain types, ready for JSON."""
        return {
            "source": self.source,
            "kind": self.kind,
            "features": self.features,
            "n_train": len(self.X_train),
            "n_test": len(self.X_test),
            "shape": list(self.X_train.shape[1:]) if isinstance(self.X_train, np.ndarray) else "various",
            "labelled": self.y_train is not None,
            "classes": self._class_sizes(),
            "n_rejects": len(self.rejects),
            "rejects": [f"{r.name}: {r.reason}" for r in self.rejects[:_NAMED_REJECTS]],
        }

    def _class_sizes(self) -> dict[str, int]:
        if self.y_train is None or self.y_test is None:
            return {}
        if self.y_train.ndim == 2:  # several labels an image: indicators
            counts = (self.y_train != 0).sum(axis=0) + (self.y_test != 0).sum(axis=0)
            return dict(zip(self.class_names, counts.tolist(), strict=True))
        values, counts = np.unique(np.concatenate([self.y_train, self.y_test]), return_counts=True)
        numbered = values.dtype.kind in "iu" and self.class_names and values.max() < len(self.class_names)
        names = [self.class_names[v] for v in values] if numbered and values.min() >= 0 else map(str, values)
        return dict(zip(names, counts.tolist(), strict=True))

    def __str__(self) -> str:
        s = self.summary
        shape = s["shape"] if s["shape"] == "various" else " × ".join(map(str, s["shape"]))
        lines = [
            f"{s['source']} ({s['kind']})",
            f"{s['n_train']:,} training and {s['n_test']:,} test items of shape {shape}, "
            f"features {s['features']}",
            f"{len(s['classes'])} classes: {', '.join(f'{k} {n:,}' for k, n in s['classes'].items())}"
            if s["labelled"]
            else "no labels",
        ]
        if self.rejects:
            more = ", …" if len(self.rejects) > _NAMED_REJECTS else ""
            lines.append(f"{len(self.rejects):,} files skipped: {'; '.join(s['rejects'])}{more}")
        return "\n".join(lines)

    def write_rejects(self, path: str | os.PathLike[str]) -> None:
        """All rejects, one JSON object per line: ``{"name": …, "reason": …}``."""
        lines = [json.dumps({"name": r.name, "reason": r.reason}) for r in self.rejects]
        Path(path).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


@dataclass(frozen=True)
class Collection:
    """A collection as found, before features: the one thing every reader of this package returns.

    ``X`` is an array of vectors (n × d), an array of images (n × h × w (× 3), uint8), or an iterable of ``n``
    file contents in the order of ``y``, ``is_test`` and ``names``, with a `BadImage` for a file that cannot
    be read. ``y`` holds labels, or positions in ``class_names`` if those are given. ``fingerprint`` digests
    the content. ``ids`` are what the source calls its items, said in it (``ids_said``) or their paths;
    ``columns`` what else it says of them, as far as it was asked for. ``note`` says which columns of a table
    were taken for what.
    """

    kind: str
    X: Array | Iterable[Any]
    y: Array | None
    is_test: Array
    fingerprint: Callable[[], str]
    class_names: list[str] | None = None
    names: list[str] | None = None
    rejects: list[Reject] = field(default_factory=list)
    ids: Sequence[Any] | None = None
    ids_said: bool = False
    columns: dict[str, Sequence[Any]] = field(default_factory=dict)
    note: str = ""

    @property
    def holds_vectors(self) -> bool:
        return getattr(self.X, "ndim", 0) == 2


def two_parts(kind: str, train: tuple[Array, Any], test: tuple[Array, Any], **others: Any) -> Collection:
    """A `Collection` of (X, y) for training and (X, y) for testing."""
    (X, y), (X_test, y_test) = train, test
    labelled = y is not None and y_test is not None
    return Collection(
        kind,
        np.concatenate([X, X_test]),
        np.concatenate([y, y_test]) if labelled else None,
        np.arange(len(X) + len(X_test)) >= len(X),
        **others,
    )


def check_fits(n_bytes: int, what: str) -> None:
    """Refuse what would not fit in half of the machine's memory, before any of it is allocated."""
    try:
        limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):  # not every system says
        limit = 8 << 30
    if n_bytes > limit:
        raise ValueError(
            f"{what} would take {n_bytes / 2**30:.1f} GiB, more than half of this machine's memory "
            f"({limit / 2**30:.1f} GiB); load it in parts, or ask for features if it holds images."
        )
