"""``sihash data``: which data sets there are, what is in them, and how to get them."""

from __future__ import annotations

from typing import Annotated

import typer

from sihash.cli.options import Json
from sihash.cli.output import REJECTED, all_told, emit, progress_bar

app = typer.Typer(no_args_is_help=True, help="Data sets: list, look into, download.")

SourceArgument = Annotated[str, typer.Argument(help="A name from `sihash data list`, or a path.")]


@app.command("list")
@all_told()
def list_named(as_json: Json = False) -> None:
    """The data sets known by name, and where they are.

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
    """What a data set holds. Reads every file; exits with 3 if some had to be rejected.

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
    emit(
        summary, "\n".join(f"{key}: {_line(value)}" for key, value in summary.items() if value != []), as_json
    )
    if data.rejects:
        raise typer.Exit(REJECTED)


def _line(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {n:,}" for name, n in value.items())
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


@app.command()
@all_told()
def fetch(
    name: Annotated[str, typer.Argument(help="A name from `sihash data list`.")], as_json: Json = False
) -> None:
    """Find a data set, or download it into the user's cache; prints where it is.

    Example: sihash data fetch mnist
    """
    from sihash.datasets import fetch as fetch_named

    with progress_bar("downloading") as progress:
        place = "built in" if name == "digits" else str(fetch_named(name, progress=progress))
    emit({"name": name, "place": place}, place, as_json)
