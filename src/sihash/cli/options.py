"""What the verbs of a database share: how they are told which one, and what they tell of what was added."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sihash.cli.output import REJECTED, ProgressKind, emit, one_line, talk

if TYPE_CHECKING:
    from sihash.database import ImageDatabase
    from sihash.database.answers import AddReport

Database = Annotated[Path, typer.Argument(metavar="DB", help="A database made by `sihash create`.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Progress = Annotated[
    ProgressKind,
    typer.Option(help="How to show progress: bars on a terminal, a line of JSON per step, or not at all."),
]
AllowRejects = Annotated[bool, typer.Option(help="Exit with 0 even if files were rejected.")]
Size = Annotated[int | None, typer.Option(min=1, help="Side to which images are resized, in pixels.")]
Mean = Annotated[
    str | None, typer.Option(help="onnx: mean of each channel, such as 0.485,0.456,0.406; or see FILE.json.")
]
Std = Annotated[str | None, typer.Option(help="onnx: standard deviation of each channel; or see FILE.json.")]
Tensor = Annotated[str | None, typer.Option(help="onnx: name of the output to use.")]
Labels = Annotated[
    str | None,
    typer.Option(
        help="Where labels are: a CSV or JSONL file of (file, label), the labels file of an .npy, "
        "the label column of a table."
    ),
]

IdColumn = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="The column of SOURCE that holds ids; `id` if not said."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="A column of SOURCE to keep; repeat for more. All if not said."),
]
Where = Annotated[
    str | None, typer.Option(help="Only items whose columns meet conditions: \"price < 20 and size = 'XL'\".")
]


def open_database(path: Path) -> ImageDatabase:
    """A database. That there is none is told before the imports that take most of a second."""
    from sihash.database.catalogue import refuse_missing

    refuse_missing(path.expanduser().absolute())
    from sihash.database import ImageDatabase

    return ImageDatabase(path)


def refuse_missing_files(paths: Iterable[Path]) -> None:
    """As `open_database`: what is not there is told at once."""
    for path in paths:
        if not path.exists():
            raise ValueError(f"There is no file {path}.")


def refuse_missing_source(source: str) -> None:
    """As `open_database`, of a collection: a path, or the name of a data set."""
    if not Path(source).expanduser().exists():
        from sihash.datasets.places import NAMED

        if source not in NAMED:
            raise ValueError(f"There is nothing at {source}; give a path, or one of {', '.join(NAMED)}.")


def with_extension(path: Path, extension: str) -> Path:
    """``path`` as it is, or with an extension if it has none."""
    return path if path.suffix else path.with_name(path.name + extension)


def numbers(text: str | None) -> tuple[float, ...] | None:
    """``0.485,0.456,0.406`` as numbers."""
    try:
        return tuple(float(part) for part in text.split(",")) if text else None
    except ValueError:
        raise typer.BadParameter(f"expected numbers separated by commas, got {text!r}") from None


def check_vectors(X: Any, source: str) -> None:
    """Refuse what `sihash.datasets.load` leaves as it was: images."""
    if getattr(X, "ndim", None) != 2:
        raise ValueError(
            f"{source} holds images, and vectors are needed; choose --features gist, pixels or onnx:<file>."
        )


def emit_added(report: AddReport, text: str, as_json: bool, allow_rejects: bool) -> None:
    """Print what was added, list on stderr what was not, and end with the code that says so."""
    from sihash.database.answers import label_words

    for reject in report.rejected:
        talk(f"rejected: {one_line(reject.name)}: {one_line(reject.reason)}")
    for conflict in report.conflicts:
        here, kept = (one_line(label_words(labels)) for labels in (conflict.labels, conflict.kept))
        talk(f"same content, other label: {one_line(conflict.name)} is {here} here, kept as {kept}")
    for joined in report.joined:
        both = one_line(label_words(joined.labels))
        talk(f"same content twice: {one_line(joined.name)}; the item has the labels of both: {both}")
    data = {
        "version": report.version,
        "n_added": len(report.added),
        "added": report.added,
        "replaced": report.replaced,
        "skipped": report.skipped,
        "rejected": [{"name": reject.name, "reason": reject.reason} for reject in report.rejected],
        "conflicts": [vars(conflict) for conflict in report.conflicts],
        "joined": [vars(joined) for joined in report.joined],
    }
    counts = [f"{len(report.added):,} added"]
    counts += [f"{len(report.replaced):,} of them in the place of others"] if report.replaced else []
    counts += [f"{len(report.skipped):,} there already"] if report.skipped else []
    n_conflicts = len(report.conflicts)
    counts += [f"{n_conflicts:,} of these with another label"] if n_conflicts else []
    counts += [f"{len(report.joined):,} gave an item one more label"] if report.joined else []
    counts += [f"{len(report.rejected):,} rejected"] if report.rejected else []
    emit(data, f"{', '.join(counts)}; {text}", as_json)
    if report.rejected and not allow_rejects:
        raise typer.Exit(REJECTED)
