"""``sihash update``: learn from what has changed."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sihash.cli.output import ProgressKind, emit, phase_bars
from sihash.cli.shared import Database, Json, Progress, open_database

if TYPE_CHECKING:
    from sihash.database.answers import UpdateReport


class Strategy(StrEnum):
    incremental = "incremental"
    scratch = "scratch"


def update(
    database: Database,
    strategy: Annotated[
        Strategy, typer.Option(help="Go on from what was learned before, or learn from scratch.")
    ] = Strategy.incremental,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also learn from scratch, to tell the mAP of the three ways.")
    ] = False,
    progress: Progress = ProgressKind.auto,
    as_json: Json = False,
) -> None:
    """Learn from items that came and went. Searches go on meanwhile, then use the new version.

    Example: sihash update DB

    Example: sihash update DB --progress json
    """
    with phase_bars(progress) as tell, open_database(database) as opened:
        report = opened.update(strategy.value, compare=compare, progress=tell)
    emit(asdict(report), _text(report), as_json)


def _text(report: UpdateReport) -> str:
    if not report.changed:
        return f"Nothing has changed since version {report.version} was learned."
    lines = [
        f"version {report.version}: {report.n_learned:,} items learned, {report.n_forgotten:,} forgotten; "
        f"{100 * report.bits_changed:.1f} % of the bits changed",
        report.text,
        "seconds: " + ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in report.seconds.items()),
    ]
    lines += [f"mAP {name}: {value:.4f}" for name, value in report.compared.items()]
    return "\n".join(lines)
