"""``sihash search``: the items most like a query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sihash.cli.options import (
    DatabasePath,
    Json,
    RankOption,
    Where,
    open_database,
    refuse_missing_files,
)
from sihash.cli.output import emit, one_line, print_message, write_page
from sihash.cli.queries import read_queries

if TYPE_CHECKING:
    from sihash.database import Database
    from sihash.database.answers import Answer, Hit, Id, Value

LONGEST_SHOWN = 40  # characters of a value


def search(
    database: DatabasePath,
    images: Annotated[
        list[Path] | None, typer.Argument(metavar="IMAGE…", help="Images, or files of vectors.")
    ] = None,
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="An item of the database as the query; repeat for more.")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Number of results. Default: 10.")] = None,
    radius: Annotated[
        int | None,
        typer.Option(min=0, help="All items whose codes differ in at most this many bits; not with -k."),
    ] = None,
    rank: RankOption = None,
    classes: Annotated[
        list[str] | None, typer.Option("--class", help="Only items of this class; repeat for more.")
    ] = None,
    where: Where = None,
    rescore: Annotated[
        bool, typer.Option("--rescore", help="Rank by the vectors on the disk, not by sketches of them.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a page with pictures.")] = None,
    as_json: Json = False,
) -> None:
    """Find the items most like images, or like items of the database.

    Example: sihash search DB query.jpg -k 5

    Example: sihash search DB --id 17 --class cat --html found.html
    """
    if bool(images) == bool(ids):
        raise typer.BadParameter("give images or vector files, or items of the database with --id.")
    if k is not None and radius is not None:
        raise typer.BadParameter("give -k (a number of results) or --radius (all items within it), not both.")
    refuse_missing_files(images or [])
    with open_database(database) as opened:
        from sihash.store.labels import written_labels

        how = {
            "k": k,
            "radius": radius,
            "rank": rank,
            "classes": written_labels(opened.labels(), classes) if classes else None,
            "where": where,
            "rescore": rescore,
        }
        items = [opened.id_of(text) for text in ids or []]
        names, answers = _ask(opened, images, items, how)
        if html:
            pictures = [opened.thumbnail(id) for id in items] or _pictures(opened, images or [], len(names))
            queries = list(zip(names, pictures, answers, strict=True))
            values = {"n_bits": opened.info()["n_bits"], "answers": answers, "queries": queries}
            print_message(f"page: {write_page(html, 'search.html', database=opened, **values)}")
    emit(_data(names, answers), "\n".join(map(_text, names, answers)), as_json)


def _ask(
    database: Database, images: list[Path] | None, ids: list[Id], how: dict[str, Any]
) -> tuple[list[str], list[Answer]]:
    if ids:
        return [f"item {id}" for id in ids], database.search_ids(ids, **how)
    queries, names = read_queries(database, images or [])
    return names, database.search(queries, **how)


def _pictures(database: Database, images: list[Path], n: int) -> list[bytes | None]:
    """Of ``n`` queries; where the database holds vectors there are none."""
    if database.features.name == "none":
        return [None] * n
    from sihash.database.describing import thumbnail
    from sihash.features.images import as_image

    return [thumbnail(as_image(image)) for image in images]


def _data(names: list[str], answers: list[Answer]) -> dict[str, Any]:
    return {
        "version": answers[0].version,
        "rank": answers[0].rank,
        "answers": [
            {
                "query": name,
                "code": answer.query_code.hex(),
                "remark": answer.remark,
                "hits": [_hit(hit) for hit in answer.hits],
            }
            for name, answer in zip(names, answers, strict=True)
        ],
    }


def _hit(hit: Hit) -> dict[str, Any]:
    return {**vars(hit), "label": hit.label, "code": hit.code.hex(), "why": vars(hit.why)}


def _text(name: str, answer: Answer) -> str:
    lines = [f"{one_line(name)}: {len(answer.hits)} found, version {answer.version}, {answer.rank} ranking"]
    lines += [f"      {answer.remark}"] if answer.remark else []
    lines += [f"{place:>4}  {_line(hit)}" for place, hit in enumerate(answer.hits, 1)]
    return "\n".join(lines)


def _line(hit: Hit) -> str:
    from sihash.database.answers import label_words

    label = one_line(label_words(hit.labels)) if hit.labels else "-"
    score = hit.score + 0.0  # no minus before a zero
    name = "" if hit.name == str(hit.id) else f"  {one_line(hit.name)}"
    columns = "".join(f"  {one_line(column)} {_shown(value)}" for column, value in hit.columns.items())
    number = f"score {score:<7.4g} distance {hit.distance:<3}"
    return f"{number} {label:<16}  id {one_line(str(hit.id))}{name}{columns}"


def _shown(value: Value) -> str:
    text = one_line(str(value))
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
