"""Raw results: one JSON line a run, appended as it ends, so that an interrupted reproduction goes on."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import sihash
from sihash.threads import n_threads

Key = dict[str, Any]
Record = dict[str, Any]

# What decides no result and may change without making records old: all around the methods, and what only
# plans, keeps or shows results.
_SHOWING = ("__main__", "claims", "figures", "field_report", "paper", "paper_tables", "records", "report")
_OTHERS = ("cli", "client", "database", "server", *(f"research/{name}.py" for name in _SHOWING))
_PACKAGES = ("sihash", "numpy", "scipy", "scikit-learn", "numba", "lightgbm")


def record_id(key: Key) -> str:
    """A short name of a run, the same in every session: what tables and reports refer to."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]


class Records:
    """The lines of ``path``, and those that are added to it.

    A record is ``{"id", "key", "made", "seconds", "machine", "versions", "result"}``: ``key`` says what was
    run, ``result`` what came out. A line that a killed process left unfinished is passed over, and its run
    is done again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._by_id: dict[str, Record] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                record = _parsed(line)
                if record:
                    self._by_id[record["id"]] = record

    def __contains__(self, key: Key) -> bool:
        return record_id(key) in self._by_id

    def __len__(self) -> int:
        return len(self._by_id)

    def __getitem__(self, key: Key) -> Record:
        return self._by_id[record_id(key)]

    def by_id(self, name: str) -> Record:
        return self._by_id[name]

    def where(self, **wanted: Any) -> list[Record]:
        """The records whose key has all these entries, in the order in which they were made."""
        return [r for r in self._by_id.values() if all(r["key"].get(k) == v for k, v in wanted.items())]

    def add(self, key: Key, result: dict[str, Any], seconds: float) -> Record:
        record: Record = {
            "id": record_id(key),
            "key": key,
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "seconds": round(seconds, 4),
            "machine": {**machine(), "load": os.getloadavg()[0]},
            "versions": versions(),
            "result": result,
        }
        line = json.dumps(record, ensure_ascii=False)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a+b") as file:
            if file.tell() and not _ends_line(file):
                file.write(b"\n")  # the torn end of a killed run
            file.write(line.encode() + b"\n")
        self._by_id[record["id"]] = record
        return record


def _ends_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _parsed(line: str) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and {"id", "key", "result"} <= set(record) else None


@functools.cache
def machine() -> dict[str, Any]:
    """The machine in a few words."""
    described = {"cores": os.cpu_count(), "threads": n_threads(), "processor": _processor()}
    return {**described, "system": platform.platform(terse=True)}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


@functools.cache
def versions() -> dict[str, str]:
    """Versions of what computes, and a digest of the part of this package's source that does."""
    found = {"python": platform.python_version(), "source": _source_digest(), "commit": commit()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found


@functools.cache
def commit() -> str:
    """The commit of this package's source, ``-dirty`` if files differ from it; "none" outside of a clone."""
    git = ["git", "-C", next(iter(sihash.__path__))]
    tracked = [*git, "ls-files", "--error-unmatch", "__init__.py"]  # not the repository around a .venv
    described = [*git, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        subprocess.run(tracked, capture_output=True, check=True)
        return subprocess.run(described, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "none"


def made_by(records: list[Record]) -> str:
    """The machines and states of the source that made records, in words."""
    machines = {f"{r['machine']['processor']}, {r['machine']['cores']} cores": None for r in records}
    sources = {r["versions"]["source"]: None for r in records}
    commits = {r["versions"].get("commit", "none"): None for r in records}
    times = sorted(r["made"] for r in records) or ["never"]
    hours = sum(r["seconds"] for r in records) / 3600
    return (
        f"{len(records)} runs on {' and '.join(machines) or 'no machine'}, by {len(sources)} state(s) of the "
        f"source ({', '.join(sources)}; commit {', '.join(commits)}), the first ended {times[0]}, the last "
        f"{times[-1]}, {hours:.1f} hours of runs"
    )


def _source_digest() -> str:
    digest = hashlib.sha256()
    root = Path(next(iter(sihash.__path__)))
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(_OTHERS):
            digest.update(name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]
