"""Options that several verbs share, and the summary of what was added."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sihash.cli.output import REJECTED, ProgressKind, emit, one_line, print_message

if TYPE_CHECKING:
    from sihash.database import Database
    from sihash.database.answers import AddReport

DatabasePath = Annotated[Path, typer.Argument(metavar="DB", help="A database made by `sihash create`.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Progress = Annotated[
    ProgressKind,
    typer.Option(help="How to show progress: bars on a terminal, a line of JSON per step, or not at all."),
]
AllowRejects = Annotated[bool, typer.Option(help="Exit with 0 even if files were rejected.")]
Size = Annotated[int | None, typer.Option(min=1, help="Resize images to this many pixels per side.")]
Mean = Annotated[
    str | None,
    typer.Option(help="onnx: mean of each channel, like 0.485,0.456,0.406. Or put it in FILE.json."),
]
Std = Annotated[
    str | None, typer.Option(help="onnx: standard deviation of each channel. Or put it in FILE.json.")
]
Tensor = Annotated[str | None, typer.Option(help="onnx: name of the output to use.")]
Labels = Annotated[
    str | None,
    typer.Option(
        help="Where labels are: a CSV or JSONL file of (file, label), the labels file of an .npy, "
        "the label column of a table."
    ),
]


def _known_rank(rank: str | None) -> str | None:
    if rank is not None and rank not in _ranks(rank):
        raise typer.BadParameter(f"expected one of {', '.join(_ranks())}, got {rank!r}.")
    return rank


def _ranks(incomplete: str = "") -> list[str]:
    from sihash.database.answers import RANKS

    return [rank for rank in RANKS if rank.startswith(incomplete)]


RankOption = Annotated[
    str | None,
    typer.Option(
        "--rank",
        callback=_known_rank,
        autocompletion=_ranks,
        help="How results are ordered: combined (the default), hamming or vector.",
    ),
]
LISTED_CLASSES = 20  # the largest; --json has all

IdColumn = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="The column of SOURCE that holds ids. Default: `id`."),
]
Vectors = Annotated[
    list[str] | None,
    typer.Option(
        "--vectors", metavar="COLUMN", help="The column of SOURCE that holds vectors, if not guessed."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="A column of SOURCE to keep; repeat for more. Default: all."),
]
Where = Annotated[
    str | None,
    typer.Option(help="Only items that match conditions on columns: \"price < 20 and size = 'XL'\"."),
]


def open_database(path: Path) -> Database:
    """Open a database. A missing one is reported before the imports that take most of a second."""
    from sihash.store.catalogue import refuse_missing

    refuse_missing(path.expanduser().absolute())
    from sihash.database import Database

    return Database(path)


def refuse_database(path: Path) -> None:
    """Report a folder that already holds a database before the slow imports."""
    from sihash.store.catalogue import is_finished

    if is_finished(path.expanduser()):
        raise ValueError(f"{path} already holds a database; choose another folder, or use `sihash add`.")


def refuse_missing_files(paths: Iterable[Path]) -> None:
    """Report missing files before the slow imports, as `open_database` does."""
    for path in paths:
        if not path.exists():
            raise ValueError(f"There is no file {path}.")


def refuse_missing_source(source: str) -> None:
    """Report a missing collection (a path, or ``digits``) before the slow imports."""
    if not Path(source).expanduser().exists() and source != "digits":
        raise ValueError(f"There is nothing at {source}; give a path, or digits.")


def with_extension(path: Path, extension: str) -> Path:
    """Return ``path``, with ``extension`` if it has none."""
    return path if path.suffix else path.with_name(path.name + extension)


def feature_names(incomplete: str) -> list[str]:
    names = ("auto", "efficientnet-lite2", "gist", "pixels", "onnx:")
    return [name for name in names if name.startswith(incomplete)]


def feature_options(
    size: int | None, mean: str | None, std: str | None, tensor: str | None
) -> dict[str, Any]:
    """What is given of the options of features."""
    given = {"size": size, "mean": _numbers(mean), "std": _numbers(std), "output": tensor}
    return {name: value for name, value in given.items() if value is not None}


def _numbers(text: str | None) -> tuple[float, ...] | None:
    """Read ``0.485,0.456,0.406`` as numbers."""
    try:
        return tuple(float(part) for part in text.split(",")) if text else None
    except ValueError:
        raise typer.BadParameter(f"expected numbers separated by commas, got {text!r}") from None


def class_lines(sizes: dict[Any, int]) -> list[str]:
    """How many classes there are, and the largest, one per line."""
    largest = sorted(sizes.items(), key=lambda each: (-each[1], str(each[0])))[:LISTED_CLASSES]
    width = max((len(f"{n:,}") for _, n in largest), default=0)
    more = len(sizes) - len(largest)
    return [
        f"classes: {len(sizes):,}",
        *(f"  {n:>{width},}  {one_line(str(label))}" for label, n in largest),
        *([f"  and {more:,} more; --json lists all"] if more else []),
    ]


MOST_LISTED = 20  # conflicts


def emit_added(report: AddReport, text: str, as_json: bool, allow_rejects: bool) -> None:
    """Print what was added, list on stderr what was not, and exit with 3 if files were rejected."""
    from sihash.database.answers import label_words

    for reject in report.rejected:
        print_message(f"rejected: {one_line(reject.name)}: {one_line(reject.reason)}")
    for conflict in report.conflicts[:MOST_LISTED]:
        here, kept = (one_line(label_words(labels)) for labels in (conflict.labels, conflict.kept))
        name = one_line(conflict.name)
        print_message(f"same content, different label: {name} is {here} here, and {kept} in an earlier item")
    if len(report.conflicts) > MOST_LISTED:
        print_message(
            f"same content, different label: {len(report.conflicts) - MOST_LISTED:,} more; see --json"
        )
    for joined in report.joined:
        both = one_line(label_words(joined.labels))
        print_message(f"same content twice: {one_line(joined.name)}; the item has both labels: {both}")
    data = {
        "version": report.version,
        "n_added": len(report.added),
        "added": report.added,
        "replaced": report.replaced,
        "skipped": report.skipped,
        "rejected": [{"name": reject.name, "reason": reject.reason} for reject in report.rejected],
        "conflicts": [vars(conflict) for conflict in report.conflicts],
        "joined": [vars(joined) for joined in report.joined],
        "repeated": report.repeated,
        "note": report.note,
    }
    counts = [f"{len(report.added):,} added"]
    counts += [f"{len(report.replaced):,} of them replace others"] if report.replaced else []
    counts += [f"{len(report.skipped):,} already there"] if report.skipped else []
    counts += [f"{len(report.repeated):,} of them equal to earlier items"] if report.repeated else []
    n_conflicts = len(report.conflicts)
    counts += [f"{n_conflicts:,} with another label than an equal item"] if n_conflicts else []
    counts += [f"{len(report.joined):,} gave an item another label"] if report.joined else []
    counts += [f"{len(report.rejected):,} rejected"] if report.rejected else []
    note = f"Taken from the table: {one_line(report.note)}.\n" if report.note else ""
    emit(data, f"{note}{', '.join(counts)}; {text}", as_json)
    if report.rejected and not allow_rejects:
        raise typer.Exit(REJECTED)
