"""``sihash verify``, ``backup``, ``restore``, ``compact``, ``undo``, ``export``, ``merge``: small verbs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sihash.cli.options import DatabasePath, Json, open_database, with_extension
from sihash.cli.output import emit, one_line, phase_bars

if TYPE_CHECKING:
    from sihash.store.backup import Copied


def verify(
    database: DatabasePath,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Also check that nothing is left of removed items.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check every byte of a database, even one that does not open. Exits with 1 if something is wrong.

    Example: sihash verify DB

    Example: sihash verify DB --deleted
    """
    from sihash.store.catalogue import FILE

    if not (database / FILE).exists() and not (database / "segments").exists():
        raise ValueError(f"There is no database at {database}; make one with `sihash create`.")
    if deleted:
        from sihash.database.inspection.inspecting import verify_deleted as check
    else:
        from sihash.database.inspection.inspecting import verify as check
    problems = check(database)
    lines = [f"{one_line(problem.file)}: {problem.reason}" for problem in problems]
    data = {"ok": not problems, "problems": [asdict(problem) for problem in problems]}
    well = f"{database} is intact{', and nothing is left of removed items' if deleted else ''}."
    emit(data, "\n".join(lines) or well, as_json)
    if problems:
        raise typer.Exit(1)


def compact(database: DatabasePath, as_json: Json = False) -> None:
    """Free the space of removed items and old versions. Earlier operations cannot be undone afterwards.

    Example: sihash compact DB
    """
    with open_database(database) as opened:
        report = opened.compact()
    text = (
        f"{report.n_dropped:,} removed items deleted for good; "
        f"{report.segments_before:,} segments became {report.segments_after:,}."
    )
    emit(asdict(report), text, as_json)


def undo(database: DatabasePath, as_json: Json = False) -> None:
    """Undo the last add, remove, relabel or update.

    Run it again to undo the one before.

    Example: sihash undo DB
    """
    with open_database(database) as opened:
        report = opened.undo()
    emit(asdict(report), f"Undone: {report.undone}. Searches use version {report.version}.", as_json)


def export(
    database: DatabasePath,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="A .parquet or .npz file. Default: .npz.")],
    as_json: Json = False,
) -> None:
    """Write all items to a Parquet or NumPy file.

    The file holds ids, labels, names, codes, vectors and columns.

    Example: sihash export DB items.parquet
    """
    output = with_extension(output, ".npz")
    with open_database(database) as opened:
        opened.export(output)
        n_items = len(opened)
    n_bytes = output.stat().st_size
    data = {"output": str(output), "n_items": n_items, "bytes": n_bytes}
    emit(data, f"{n_items:,} items written to {output}, {n_bytes:,} bytes.", as_json)


def backup(
    database: DatabasePath,
    target: Annotated[Path, typer.Argument(help="A new folder, or an earlier backup.", metavar="TARGET")],
    as_json: Json = False,
) -> None:
    """Copy a database, also while others write. A second run copies only what is new.

    Example: sihash backup DB /mnt/backups/DB
    """
    from sihash.store.backup import back_up

    report = back_up(database, target)
    text = f"{target} holds {database} as of operation {report.operation:,}: {_copied(report)}."
    emit(asdict(report), text, as_json)


def restore(
    source: Annotated[Path, typer.Argument(help="A backup: folder or tar archive.", metavar="BACKUP")],
    database: Annotated[Path, typer.Argument(help="A new or empty folder.", metavar="DB")],
    as_json: Json = False,
) -> None:
    """Make a database of a backup. Every byte is checked.

    Example: sihash restore /mnt/backups/DB DB
    """
    from sihash.store.backup import restore

    report = restore(source, database)
    emit(asdict(report), f"{database} is restored: {_copied(report)}.", as_json)


def _copied(report: Copied) -> str:
    kept = f", {report.n_kept:,} were there" if report.n_kept else ""
    return f"{report.n_copied:,} files copied, {report.n_bytes:,} bytes{kept}; all bytes copied are checked"


def merge(
    first: Annotated[Path, typer.Argument(metavar="A", help="A database.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another database with the same model.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="C", help="A new or empty folder.")],
    as_json: Json = False,
) -> None:
    """Combine two databases in a new one.

    Both must share a model: one began as a copy of the other, and neither was updated since. Neither is
    changed. Items in both are kept once; two different items under one id are an error.

    Example: sihash merge A B -o C
    """
    with phase_bars() as progress:
        from sihash.database import Database

        with Database.merge(output, first, second, progress=progress) as merged:
            report, n_items = merged.merged_, len(merged)
    text = (
        f"{output} holds {n_items:,} items: {report.n_first:,} from {first}, {report.n_second:,} from "
        f"{second}; {len(report.skipped):,} are in both."
    )
    emit({**asdict(report), "n_items": n_items}, text, as_json)
