"""The page that ``sihash doctor --html`` writes."""

from __future__ import annotations

from html import escape

from sihash.cli.page import answer, document, figure
from sihash.database import Database
from sihash.database.answers import label_words
from sihash.database.findings import KIND_TITLES, Diagnosis, Finding


def doctor_page(database: Database, diagnosis: Diagnosis) -> str:
    """Every finding with the pictures of its items, the reason and the command."""
    n_bits = int(database.info()["n_bits"])
    body = [f'<p class="quiet">{escape(diagnosis.note)}</p>']
    for kind, n in diagnosis.found.items():
        own = [finding for finding in diagnosis.findings if finding.kind == kind]
        if own:
            shown = f"the first {len(own):,} of {n:,}" if len(own) < n else f"{n:,}"
            body += [f"<h2>{escape(KIND_TITLES[kind])}</h2>", f'<p class="quiet">{shown}</p>']
            body += [_finding(database, finding, n_bits) for finding in own]
    if not diagnosis.findings:
        body.append("<p>No problems found.</p>")
    return document("Labels that look wrong", body)


def _finding(database: Database, finding: Finding, n_bits: int) -> str:
    first = finding.items[0]
    pictures = "".join(
        figure(
            database.thumbnail(item.id),
            item.name,
            f"{label_words(item.labels)}, id {item.id}",
            item.code,
            first.code,
            n_bits,
            wrong=item is first and finding.kind in ("wrong label", "conflict"),
        )
        for item in finding.items
    )
    command = escape(finding.command(str(database.path)))
    return answer(pictures, [f"<div><p>{escape(finding.reason)}</p><p><code>{command}</code></p></div>"])
