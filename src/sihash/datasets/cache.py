"""Extracted features on disk, keyed by what they were made from and how."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from sihash.datasets.dataset import Dataset, Reject
from sihash.wholefile import whole_file

_VERSION = 1  # raise it when the same settings give other features


def folder() -> Path:
    return platformdirs.user_cache_path("sihash") / "features"


def key(content: str, settings: dict[str, Any]) -> str:
    """Name of the entry for a collection's fingerprint and an extractor's settings."""
    text = json.dumps({"version": _VERSION, "content": content, **settings}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read(entry: str) -> dict[str, Any] | None:
    """The fields of a `Dataset` that were stored, or None. A damaged entry is as good as none."""
    try:
        with np.load(folder() / f"{entry}.npz", allow_pickle=False) as stored:
            fields: dict[str, Any] = {name: stored[name] for name in stored.files}
        plain = json.loads(fields.pop("plain").tobytes())
        rejects = [Reject(**r) for r in plain["rejects"]]
        labels = {name: fields.get(name) for name in ("y_train", "y_test")}
        return {**fields, **labels, "class_names": plain["class_names"], "rejects": rejects}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return None


def write(entry: str, data: Dataset) -> None:
    """Store a data set of vectors: into a file of its own, then under its name in one step."""
    plain = {"class_names": data.class_names, "rejects": [asdict(r) for r in data.rejects]}
    arrays = {"X_train": data.X_train, "X_test": data.X_test}
    if data.y_train is not None and data.y_test is not None:
        arrays |= {"y_train": data.y_train, "y_test": data.y_test}
    folder().mkdir(parents=True, exist_ok=True)
    with whole_file(folder() / f"{entry}.npz") as file:
        np.savez(file, plain=np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8), **arrays)
