"""``sihash update``: learn from what changed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sihash.cli.options import DatabasePath, Json, Progress, open_database
from sihash.cli.output import ProgressKind, emit, phase_bars

if TYPE_CHECKING:
    from sihash.database.answers import UpdateReport


def update(
    database: DatabasePath,
    relearn: Annotated[
        bool,
        typer.Option(
            "--relearn", help="Learn from scratch, with new code words, and encode everything again."
        ),
    ] = False,
    reencode: Annotated[
        bool,
        typer.Option(
            "--reencode", help="Then encode items with older codes again. Can be interrupted and continued."
        ),
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", help="Also learn from scratch, to compare the mAP with that of the update."
        ),
    ] = False,
    progress: Progress = ProgressKind.auto,
    as_json: Json = False,
) -> None:
    """Learn from items that were added, removed or relabelled.

    Searches continue meanwhile. Codes of other items stay valid.

    Example: sihash update DB

    Example: sihash update DB --progress json
    """
    strategy: Literal["incremental", "relearn"] = "relearn" if relearn else "incremental"
    with phase_bars(progress) as tell, open_database(database) as opened:
        report = opened.update(strategy, reencode=reencode, compare=compare, progress=tell)
    emit(asdict(report), _text(report), as_json)


def _text(report: UpdateReport) -> str:
    from sihash.database.answers import UPDATE_WAYS

    rewritten = f"{report.n_reencoded:,} codes rewritten, {report.bytes_written / 1e6:,.1f} MB written"
    if not report.changed:
        same = f"Nothing has changed since version {report.version}."
        return f"{same}\n{rewritten}" if report.n_reencoded else same
    lines = [
        f"version {report.version}: {report.n_learned:,} items learned, {report.n_forgotten:,} forgotten",
        f"{report.n_bits_trained} hash functions changed, and with them {100 * report.bits_changed:.1f} % of "
        f"the bits; {rewritten}",
        report.text,
        "seconds: " + ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in report.seconds.items()),
    ]
    lines += [f"mAP {UPDATE_WAYS[name]}: {value:.4f}" for name, value in report.compared.items()]
    return "\n".join([*lines, *report.warnings])
