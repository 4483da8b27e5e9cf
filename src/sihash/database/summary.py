"""A database in a few words, for the prompt and for a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sihash.database.inspection.inspecting import class_sizes
from sihash.database.snapshot import Snapshot
from sihash.database.updating import n_waiting
from sihash.pages import render

LARGEST = 8  # classes that are named


def in_one_line(root: Path, snapshot: Snapshot) -> str:
    facts = _facts(root, snapshot)
    return (
        f"<Database {str(root)!r}: {facts['n_items']:,} items in {len(facts['classes']):,} classes, "
        f"{facts['n_bits']} bits of {facts['features']}, version {snapshot.version}, "
        f"{facts['n_waiting'] or 'no'} changes to learn>"
    )


def as_html(root: Path, snapshot: Snapshot) -> str:
    facts = _facts(root, snapshot)
    largest = sorted(facts["classes"].items(), key=lambda each: -each[1])[:LARGEST]
    return render(
        "database.html",
        name=root.name,
        largest=largest,
        learned=_learned(snapshot),
        advice=_advice(facts["n_waiting"]),
        **facts,
    )


def _facts(root: Path, snapshot: Snapshot) -> dict[str, Any]:
    features = snapshot.meta["features"]["name"]
    return {
        "n_items": snapshot.n_items,
        "classes": class_sizes(snapshot, snapshot.places.live_classes()),
        "n_bits": snapshot.n_bits,
        "features": f"vectors of {snapshot.width:,} numbers" if features == "none" else features,
        "n_waiting": n_waiting(root, snapshot.catalogue, snapshot),
    }


def _learned(snapshot: Snapshot) -> str:
    by = snapshot.log.learned(snapshot.version)
    what = "made" if by.kind == "create" else "last update"
    n = by.details["n_training"]
    when = by.at[:16].replace("T", " ")  # of UTC
    return f"Version {snapshot.version}, {what} {when} UTC, learned from {n:,} items."


def _advice(n_waiting: int) -> str:
    if n_waiting:
        return f"{n_waiting:,} items came, went or were relabelled since: db.update() learns from them."
    return "Up to date. db.evaluate() measures searches, db.doctor() looks for wrong labels, db.map() draws."
