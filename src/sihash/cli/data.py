"""``sihash data``: list, inspect and download data sets."""

from __future__ import annotations

from typing import Annotated

import typer

from sihash.cli.options import Json, class_lines
from sihash.cli.output import REJECTED, all_told, emit, one_line, progress_bar

app = typer.Typer(no_args_is_help=True, help="List, inspect and download data sets.")

SourceArgument = Annotated[str, typer.Argument(help="A name from `sihash data list`, or a path.")]


@app.command("list")
@all_told()
def list_named(as_json: Json = False) -> None:
    """List the data sets known by name, and where they are.

    Example: sihash data list
    """
    from sihash.datasets import NAMED, find

    rows = []
    for entry in NAMED.values():
        place = "built in" if entry.name == "digits" else find(entry)
        status = str(place) if place else "can be downloaded" if entry.remotes else "not found"
        rows.append({"name": entry.name, "title": entry.title, "found": bool(place), "place": status})
    emit(rows, "\n".join(f"{r['name']:<10}{r['title']}\n{'':<10}{r['place']}" for r in rows), as_json)


@app.command()
@all_told()
def info(source: SourceArgument, as_json: Json = False) -> None:
    """Show what a data set holds. Reads every file; exits with 3 if some were rejected.

    Example: sihash data info photos/
    """
    from sihash.datasets import load
    from sihash.datasets.loading import read

    with progress_bar("reading") as progress:
        vectors = read(source).holds_vectors
        # A few pixels of each image are enough to know that it can be read, and need no memory.
        options = {} if vectors else {"features": "pixels", "size": 4, "cache": False, "progress": progress}
        data = load(source, **options)  # type: ignore[arg-type]
    summary = {
        key: value for key, value in data.summary.items() if vectors or key not in ("shape", "features")
    }
    lines = [line for key, value in summary.items() if value != [] for line in _lines(key, value)]
    emit(summary, "\n".join(lines), as_json)
    if data.rejects:
        raise typer.Exit(REJECTED)


def _lines(key: str, value: object) -> list[str]:
    if isinstance(value, dict):
        return class_lines(value)
    if isinstance(value, list):
        return [f"{key}:", *(f"  {one_line(str(each))}" for each in value)]
    return [f"{key}: {value}"]


@app.command()
@all_told()
def fetch(
    name: Annotated[str, typer.Argument(help="A name from `sihash data list`.")], as_json: Json = False
) -> None:
    """Find a data set, or download it into the user's cache; print where it is.

    Example: sihash data fetch mnist
    """
    from sihash.datasets import fetch as fetch_named

    with progress_bar("downloading") as progress:
        place = "built in" if name == "digits" else str(fetch_named(name, progress=progress))
    emit({"name": name, "place": place}, place, as_json)
