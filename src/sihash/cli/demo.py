"""``sihash demo``: the life of a database, on the digits that scikit-learn ships."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sihash.cli.options import Json
from sihash.cli.output import emit, print_message, print_result, write_page

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

    from sihash.database import Database
    from sihash.database.answers import Answer, Id

DEMO_BITS = 32
COPIES = 8  # of each digit, slightly different: on a thousand images everything is fast
MORE = 20  # one of this many of the known digits comes later
NEW, REMOVED = "9", "8"
MARK = "made-by-sihash-demo"  # a folder with this file in it may be replaced by the next demo


@dataclass(frozen=True)
class Search:
    """A query (an image file), what it shows, and its answers as the story goes on."""

    path: Path
    digit: str
    answers: dict[str, Answer]
    files: dict[Id, Path]  # of the items found, by id


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page, the images and the database.")] = Path(
        "sihash-demo"
    ),
    as_json: Json = False,
) -> None:
    """Show what a database does, on handwritten digits.

    Creates and searches a database, adds images and a new class, and removes a class. Writes a page with
    pictures. Needs no data and no network. Images and database stay in the folder until the next demo.

    Example: sihash demo
    """
    tell = print_message if as_json else print_result
    images, place = _prepare(out)
    _warm_up(images)
    figures, searches = _story(images, place, tell)
    removed = [search for search in searches if "removed" in search.answers]
    new = [search for search in searches if search not in removed]
    page = write_page(out / "index.html", "demo.html", figures=figures, new=new, removed=removed)
    tell(f"\nPictures of searches before and after: {page}\n\n{_how_to_go_on(place)}")
    if as_json:
        emit({**figures, "page": str(page), "database": str(place)}, "", as_json)


def _how_to_go_on(place: Path) -> str:
    """Commands to try, with the `sihash` of this environment; the shell may know none, or another."""
    sihash, pip = (_shown(Path(sys.executable).with_name(name)) for name in ("sihash", "pip"))
    query = min((place.parent / "images" / "queries" / NEW).iterdir())
    return (
        "The database is yours to try:\n"
        f"  {sihash} search {place} {query}\n"
        f"  {sihash} info {place}\n"
        f"  {sihash} create my-db my-photos/        # one folder of photos per class\n"
        f"For a page in the browser:\n"
        f"  {pip} install 'sihash[service]'\n"
        f"  {sihash} serve {place}"
    )


def _shown(command: Path) -> Path:
    return command.relative_to(Path.cwd()) if command.is_relative_to(Path.cwd()) else command


def _prepare(out: Path) -> tuple[Path, Path]:
    """Fresh folders for images and database; those of an earlier demo go."""
    work = out / "collection"
    if (work / MARK).is_file():
        shutil.rmtree(work)
    elif out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"{out} exists and was not made by a demo; choose another folder with --out.")
    work.mkdir(parents=True)
    (work / MARK).touch()
    _write_images(work / "images")
    return work / "images", work / "database"


def _write_images(folder: Path) -> None:
    """PNG files in class folders: first, more (of the same digits), new (the last digit), queries.

    Every third of the digits is a query, as it is; the others are there `COPIES` times.
    """
    import numpy as np
    from PIL import Image

    from sihash.datasets.digits import read

    collection, rng = read(), np.random.RandomState(0)
    assert collection.y is not None
    for i, (image, digit) in enumerate(zip(collection.X, collection.y.tolist(), strict=True)):
        picture = Image.fromarray(np.pad(255 - image, 2, constant_values=255))  # dark on light
        is_query = i % 3 == 2
        for k in range(1 if is_query else COPIES):
            part = "new" if str(digit) == NEW else "first" if (i + k) % MORE else "more"
            path = folder / ("queries" if is_query else part) / str(digit) / f"{i:04}-{k}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            (_varied(picture, rng) if k else picture).save(path)


def _varied(picture: Image.Image, rng: np.random.RandomState) -> Image.Image:
    """The same, a little turned, slanted, moved and larger or smaller, as if written once more."""
    import numpy as np
    from PIL import Image

    angle, scale = np.deg2rad(rng.uniform(-15, 15)), rng.uniform(0.9, 1.12)
    c, s = np.cos(angle) / scale, np.sin(angle) / scale
    A = np.array([[c, s + rng.uniform(-0.15, 0.15)], [-s, c]])  # from a place in the copy to one here
    centre = (np.array(picture.size) - 1) / 2
    (x, y), (a, b, d, e) = centre - A @ (centre + rng.uniform(-0.8, 0.8, 2)), A.ravel()
    return picture.transform(
        picture.size,
        Image.Transform.AFFINE,
        (a, b, x, d, e, y),
        Image.Resampling.BICUBIC,
        fillcolor=255,
    )


def _warm_up(images: Path) -> None:
    """Compile the inner loops before anything is timed, by a small database that is thrown away."""
    import tempfile

    with tempfile.TemporaryDirectory(dir=images.parent) as folder:
        database = _create(Path(folder) / "database", images / "more", n_anchors=100)
        few = list((images / "queries" / NEW).iterdir())  # or it would learn everything from scratch
        database.add(few, [NEW] * len(few))
        database.update()
        database.close()


def _create(place: Path, source: Path, **sih_params: Any) -> Database:
    from sihash.database import Database

    return Database.create(place, source, n_bits=DEMO_BITS, features="pixels", **sih_params)


def _story(images: Path, place: Path, tell: Callable[[str], None]) -> tuple[dict[str, Any], list[Search]]:
    queries = images / "queries"
    tell(f"DB is {place}, images are in {images}.\n")
    start = time.perf_counter()
    database = _create(place, images / "first")
    seconds = time.perf_counter() - start
    tell(
        "sihash create DB images/first --features pixels\n"
        f"  {len(database):,} images of the digits 0 to 8, codes of {DEMO_BITS} bits, {seconds:.2f} s"
    )
    figures: dict[str, Any] = {"n_bits": DEMO_BITS, "n_items": len(database), "create_seconds": seconds}
    figures["mAP"] = database.evaluate(queries).mAP
    tell(
        "sihash evaluate DB --queries images/queries\n"
        f"  mAP {figures['mAP']:.3f} on images of these digits that it never saw"
    )
    tell(_search_told(database, min((queries / "3").iterdir())))
    n_more = len(database.add(images / "more").added)
    tell(f"sihash add DB images/more\n  {n_more} more images of the same digits; then, to learn:")
    figures["more_images"] = _three_ways(database, queries, tell)
    n_new = len(database.add(images / "new").added)
    tell(f"sihash add DB images/new\n  {n_new} images of a digit that it does not know, the {NEW}:")
    searches = _queries_in(queries / NEW)
    _ask(database, searches, "before")
    searches = sorted(searches, key=_n_right)[:3]
    figures["new_class"] = _three_ways(database, queries, tell)
    _ask(database, searches, "after")
    n_removed = len(database.remove_classes([REMOVED]).removed)
    removed = _queries_in(queries / REMOVED)[:1]
    _ask(database, removed, "removed")
    database.undo()
    tell(
        f"sihash remove DB --class {REMOVED}\n  {n_removed} images removed: no search finds them\n"
        f"sihash undo DB\n  {len(database):,} images: all are back"
    )
    database.close()
    return {**figures, "n_removed": n_removed}, [*searches, *removed]


def _search_told(database: Database, query: Path) -> str:
    database.search([query], k=5)  # in a new installation the first search compiles its loops
    start = time.perf_counter()
    (answer,) = database.search([query], k=5)
    milliseconds = 1000 * (time.perf_counter() - start)
    found = ", ".join(f"{hit.label} at {hit.distance} bit{'s' * (hit.distance != 1)}" for hit in answer.hits)
    return f"sihash search DB images/queries/3/{query.name} -k 5\n  {found}; {milliseconds:.0f} ms"


def _three_ways(database: Database, queries: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """What a change asks for: nothing, learning from scratch, or an update, which stays in force.

    Codes alone show what was learned; the default ranking knows labels and vectors without learning.
    """
    passive = {"mAP": database.evaluate(queries, rank="hamming").mAP, "seconds": 0.0}
    ways: dict[str, Any] = {"passive": passive}
    strategies: tuple[Literal["relearn", "incremental"], ...] = ("relearn", "incremental")
    for strategy in strategies:
        report = database.update(strategy)
        ways[strategy] = {
            "mAP": database.evaluate(queries, rank="hamming").mAP,
            "seconds": report.seconds["learning"],
            "report": report.text,
        }
        if strategy == "relearn":
            database.undo()
    tell(
        "                             mAP of the codes   seconds of learning\n"
        f"  left as it was                      {passive['mAP']:.3f}   {0:.2f}\n"
        f"  sihash update DB --relearn          {ways['relearn']['mAP']:.3f}   "
        f"{ways['relearn']['seconds']:.2f}   (then sihash undo)\n"
        f"  sihash update DB                    {ways['incremental']['mAP']:.3f}   "
        f"{ways['incremental']['seconds']:.2f}\n"
        f"  {verdict(ways)}"
    )
    return ways


def verdict(ways: dict[str, Any]) -> str:
    """What the seconds say; nothing is promised that was not measured."""
    ratio = ways["incremental"]["seconds"] / ways["relearn"]["seconds"]
    compared = (
        f"The update took {ratio:.1f} times as long as learning from scratch"
        if ratio >= 1
        else f"The update took {100 * ratio:.0f} % of the time of learning from scratch"
    )
    return f"{compared}, on few and small images. docs/updates.md has larger collections."


def _queries_in(folder: Path) -> list[Search]:
    """The images of a class folder."""
    return [Search(path, folder.name, {}, {}) for path in sorted(folder.iterdir())]


def _n_right(search: Search) -> int:
    """How many answers before the update show the digit that was asked for."""
    return sum(hit.label == search.digit for hit in search.answers["before"].hits)


def _ask(database: Database, searches: list[Search], moment: str) -> None:
    answers = database.search([search.path for search in searches], k=10)
    for search, answer in zip(searches, answers, strict=True):
        search.answers[moment] = answer
        search.files.update({hit.id: Path(str(database.item(hit.id).path)) for hit in answer.hits})
