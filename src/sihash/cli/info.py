"""``sihash info``: what a database is and holds."""

from __future__ import annotations

from typing import Any

from sihash.cli.options import Database, Json, Where, open_database
from sihash.cli.output import emit, one_line


def info(database: Database, where: Where = None, as_json: Json = False) -> None:
    """Tell what a database holds.

    Also which version answers, how it was learned, and what waits for an update. Lists the twenty largest
    classes; --json has all. With --where, items and classes are counted among those that meet the conditions.

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
                "compared": version.details.get("compared", {}),
            }
            for version in opened.versions()
        ]
        facts = {**opened.info(where), "versions": versions}
    emit(facts, _text(facts), as_json)


LISTED_CLASSES = 20  # classes that are listed for people


def _classes(sizes: dict[Any, int]) -> str:
    """How many there are, and the largest."""
    largest = sorted(sizes.items(), key=lambda each: (-each[1], str(each[0])))[:LISTED_CLASSES]
    listed = ", ".join(f"{one_line(str(label))} {n:,}" for label, n in largest)
    more = len(sizes) - len(largest)
    return f"classes: {len(sizes):,}: {listed}" + (f", and {more:,} more with fewer items" if more else "")


def _text(facts: dict[str, Any]) -> str:
    features = "vectors" if facts["features"] == "none" else f"{facts['features']} features"
    index = facts["index"]
    recall = "" if index.get("recall") is None else f", recall {index['recall']:.4f}"
    codes = index.get("problem") or f"{index['size']:,} codes"
    lines = [
        f"{facts['path']} (format {facts['format']})",
        f"items: {facts['n_items']:,}, {facts['n_unlabelled']:,} of them without a label, "
        f"{facts['n_several']:,} with several",
        _classes(facts["classes"]),
        f"columns: {_columns(facts['columns'])}",
        f"codes: {facts['n_bits']} bits of {features} ({facts['n_features']:,} numbers), "
        f"version {facts['version']}",
        f"index: {index['kind']}, {codes}{recall}; ranking {facts['rank']}",
        f"waiting for the next update: {facts['n_waiting']:,} items that came, went or were relabelled",
        f"on disk: {facts['bytes']:,} bytes in {facts['n_segments']:,} segments",
        f"undo takes back: {facts['undoable'] or 'nothing'}",
        *(_version(version) for version in facts["versions"]),
    ]
    return "\n".join(lines)


def _columns(kinds: dict[str, str]) -> str:
    return ", ".join(f"{one_line(name)} ({kind})" for name, kind in kinds.items()) or "none"


def _version(version: dict[str, Any]) -> str:
    compared = "".join(f", mAP {name} {value:.3f}" for name, value in version["compared"].items())
    mark = " (answers)" if version["current"] else ""
    return (
        f"version {version['number']}{mark}: {version['strategy']}, {version['at']}, "
        f"from {version['n_training']:,} items{compared}"
    )
