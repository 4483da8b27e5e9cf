"""``sihash info``: what a database holds."""

from __future__ import annotations

from typing import Any

from sihash.cli.options import DatabasePath, Json, Where, class_lines, open_database
from sihash.cli.output import emit, one_line


def info(database: DatabasePath, where: Where = None, as_json: Json = False) -> None:
    """Show what a database holds.

    Also its versions, and how many items wait for an update. Lists the twenty largest classes; --json lists
    all. With --where, only matching items are counted.

    Example: sihash info DB
    """
    with open_database(database) as opened:
        versions = [
            {
                "number": version.number,
                "strategy": version.strategy,
                "at": version.at,
                "n_training": version.n_training,
                "current": version.current,
                "compared": version.compared,
            }
            for version in opened.versions()
        ]
        facts = {**opened.info(where), "versions": versions}
    emit(facts, _text(facts), as_json)


def _text(facts: dict[str, Any]) -> str:
    from sihash.features.extract import about

    name = facts["features"]
    features = "vectors" if name == "none" else f"{name} features"
    index, unlabelled, several = facts["index"], facts["n_unlabelled"], facts["n_several"]
    recall = "" if index.get("recall") is None else f", recall {index['recall']:.4f}"
    codes = index.get("problem") or f"{index['size']:,} codes"
    lines = [
        f"{facts['path']} (format {facts['format']})",
        f"items: {facts['n_items']:,}"
        + (f", {unlabelled:,} without a label" if unlabelled else "")
        + (f", {several:,} with several labels" if several else ""),
        *class_lines(facts["classes"]),
        f"columns: {_columns(facts['columns'])}",
        f"codes: {facts['n_bits']} bits of {features} ({facts['n_features']:,} numbers), "
        f"version {facts['version']}",
        f"sketches: {facts['sketch']} bits a number; searches read {facts['bytes_per_item']:,} bytes an item",
        *([] if name == "none" else [f"features: {about(name)}"]),
        f"index: {index['kind']}, {codes}{recall}; ranking {facts['rank']}",
        f"waiting for the next update: {facts['n_waiting']:,} items added, removed or relabelled",
        f"on disk: {facts['bytes']:,} bytes, segments: {facts['n_segments']:,}",
        f"undo would revert: {facts['undoable'] or 'nothing'}",
        *(_version(version) for version in facts["versions"]),
    ]
    return "\n".join(lines)


def _columns(kinds: dict[str, str]) -> str:
    return ", ".join(f"{one_line(name)} ({kind})" for name, kind in kinds.items()) or "none"


def _version(version: dict[str, Any]) -> str:
    from sihash.database.answers import UPDATE_WAYS

    compared = "".join(
        f", mAP {UPDATE_WAYS[name]} {value:.3f}" for name, value in version["compared"].items()
    )
    mark = " (in use)" if version["current"] else ""
    return (
        f"version {version['number']}{mark}: {version['strategy']}, {version['at']}, "
        f"from {version['n_training']:,} items{compared}"
    )
