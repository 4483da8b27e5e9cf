"""Extracted features on disk, keyed by what they were made from and how."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from sihash.datasets.dataset import Dataset, Reject
from sihash.store.atomic_file import whole_file

LIMIT_GB = 8.0  # of all entries together
_VERSION = 1  # raise it when the same settings give other features


def folder() -> Path:
    return platformdirs.user_cache_path("sihash") / "features"


def limit() -> int:
    """Bytes that the cache may take: ``SIHASH_CACHE_GB``, or 8 GB."""
    given = os.environ.get("SIHASH_CACHE_GB", LIMIT_GB)
    try:
        gigabytes = float(given)
    except ValueError:
        raise ValueError(f"SIHASH_CACHE_GB must be a number of gigabytes, got {given!r}.") from None
    return int(gigabytes * 1e9)


def _entries() -> list[tuple[float, int, Path]]:
    """When each entry was last used, its bytes and its place; the one used longest ago first."""
    found = []
    for path in folder().glob("*.npz"):
        with suppress(FileNotFoundError):  # another process clears
            about = path.stat()
            found.append((about.st_mtime, about.st_size, path))
    return sorted(found)


def size() -> tuple[int, int]:
    """Number of entries, and their bytes."""
    entries = _entries()
    return len(entries), sum(n_bytes for _, n_bytes, _ in entries)


def clear(keep: int = 0) -> int:
    """Delete entries, those used longest ago first, until at most ``keep`` bytes are left; bytes freed."""
    left = before = size()[1]
    for _, n_bytes, path in _entries():
        if left <= keep:
            break
        path.unlink(missing_ok=True)
        left -= n_bytes
    return before - left


def key(content: str, settings: dict[str, Any]) -> str:
    """Name of the entry for a collection's fingerprint and an extractor's settings."""
    text = json.dumps({"version": _VERSION, "content": content, **settings}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read(entry: str) -> dict[str, Any] | None:
    """The fields of a `Dataset` that were stored, or None. A damaged entry is as good as none."""
    try:
        path = folder() / f"{entry}.npz"
        with np.load(path, allow_pickle=False) as stored:
            fields: dict[str, Any] = {name: stored[name] for name in stored.files}
        plain = json.loads(fields.pop("plain").tobytes())
        rejects = [Reject(**r) for r in plain["rejects"]]
        labels = {name: fields.get(name) for name in ("y_train", "y_test")}
        with suppress(OSError):  # a cache that is only read
            os.utime(path)  # used now
        return {**fields, **labels, "class_names": plain["class_names"], "rejects": rejects}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return None


def write(entry: str, data: Dataset) -> None:
    """Store a data set of vectors, whole or not at all; what was used longest ago makes room for it."""
    plain = {"class_names": data.class_names, "rejects": [asdict(r) for r in data.rejects]}
    arrays = {"X_train": data.X_train, "X_test": data.X_test}
    if data.y_train is not None and data.y_test is not None:
        arrays |= {"y_train": data.y_train, "y_test": data.y_test}
    folder().mkdir(parents=True, exist_ok=True)
    with whole_file(folder() / f"{entry}.npz") as file:
        np.savez(file, plain=np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8), **arrays)
    clear(limit())
