"""``sihash doctor``: labels that are wrong or in conflict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sihash.cli.options import DatabasePath, Json, open_database
from sihash.cli.output import emit, one_line, print_message, write_page

if TYPE_CHECKING:
    from sihash.database.inspection.findings import Diagnosis, Finding


def doctor(
    database: DatabasePath,
    limit: Annotated[int, typer.Option(min=1, help="List at most this many findings of each kind.")] = 20,
    html: Annotated[Path | None, typer.Option(help="Also write a page with pictures.")] = None,
    as_json: Json = False,
) -> None:
    """List labels that look wrong, with commands that fix them.

    Also lists duplicates, and classes that are confused or too small. Most certain first. Changes nothing.
    Takes seconds to minutes; large collections are sampled.

    Example: sihash doctor DB --html findings.html
    """
    with open_database(database) as opened:
        diagnosis = opened.doctor(limit)
        if html:
            n_bits = opened.info()["n_bits"]
            values = {"database": opened, "n_bits": n_bits, "diagnosis": diagnosis}
            print_message(f"page: {write_page(html, 'doctor.html', **values)}")
    emit(_data(diagnosis, str(database)), _text(diagnosis, str(database)), as_json)


def _data(diagnosis: Diagnosis, database: str) -> dict[str, Any]:
    return {
        "version": diagnosis.version,
        "found": diagnosis.found,
        "note": diagnosis.note,
        "findings": [_finding(each, database) for each in diagnosis.findings],
    }


def _finding(finding: Finding, database: str) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "certainty": finding.certainty,
        "reason": finding.reason,
        "items": [
            {"id": item.id, "label": item.label, "labels": item.labels, "name": item.name}
            for item in finding.items
        ],
        "label": finding.label,
        "labels": finding.labels,
        "command": finding.command(database),
    }


def _text(diagnosis: Diagnosis, database: str) -> str:
    from sihash.database.inspection.findings import KIND_TITLES

    lines = []
    for kind, n in diagnosis.found.items():
        if not n:
            continue
        listed = [finding for finding in diagnosis.findings if finding.kind == kind]
        more = f", the first {len(listed):,} of {n:,}" if len(listed) < n else f", {n:,}"
        lines += [f"{KIND_TITLES[kind]}{more}:"]
        for finding in listed:
            lines += [f"  {_where(finding)}{one_line(finding.reason)}"]
            lines += [f"      {one_line(finding.command(database))}"]
        lines += [""]
    return "\n".join([*(lines or ["No problems found.", ""]), diagnosis.note])


def _where(finding: Finding) -> str:
    """Which item it is, where the reason does not say."""
    item = finding.items[0]
    return f"item {item.id} ({one_line(item.name)}): " if finding.kind == "wrong label" else ""
