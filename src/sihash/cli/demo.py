"""``sihash demo``: the life of a database, on the digits that scikit-learn ships."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sihash.cli.output import emit, say, talk
from sihash.cli.shared import Json

if TYPE_CHECKING:
    from sihash.database import ImageDatabase
    from sihash.database.answers import Answer

N_BITS, N_ANCHORS = 32, 300
FIRST = 7  # digits known at first
REMOVED = "8"
MARK = "made-by-sihash-demo"  # a folder with this file in it may be replaced by the next demo


@dataclass(frozen=True)
class Search:
    """A query (an image file), what it shows, and its answers as the story goes on."""

    path: Path
    digit: str
    answers: dict[str, Answer]
    files: dict[int, Path]  # of the items found, by id


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page, the images and the database.")] = Path(
        "sihash-demo"
    ),
    as_json: Json = False,
) -> None:
    """Make a database of handwritten digits, search it, let it grow by images and by classes, take one away.

    Writes a page with pictures. Needs no data and no network. The images and the database stay in the folder
    until the next demo.
    """
    from sihash.cli.demo_page import write_page

    tell = talk if as_json else say
    images, place = _prepare(out)
    _warm_up(images)
    figures, searches = _story(images, place, tell)
    page = write_page(out / "index.html", figures, searches)
    tell(
        f"\nPictures of searches before and after: {page}\nThe database is yours to try: sihash serve {place}"
    )
    if as_json:
        emit({**figures, "page": str(page), "database": str(place)}, "", as_json)


def _prepare(out: Path) -> tuple[Path, Path]:
    """Fresh folders for images and database; those of an earlier demo go."""
    work = out / "collection"
    if (work / MARK).is_file():
        shutil.rmtree(work)
    elif out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"{out} is there and not of a demo; choose another folder with --out.")
    work.mkdir(parents=True)
    (work / MARK).touch()
    _write_images(work / "images")
    return work / "images", work / "database"


def _write_images(folder: Path) -> None:
    """PNG files in class folders: first, more (known digits), new (digits), queries (every third image)."""
    import numpy as np
    from PIL import Image

    from sihash.datasets.digits import read

    collection = read()
    assert collection.y is not None
    for i, (image, digit) in enumerate(zip(collection.X, collection.y.tolist(), strict=True)):
        part = "first" if i % 9 else "more"  # of the two thirds that are no queries, a sixth comes later
        part = "queries" if i % 3 == 2 else "new" if digit >= FIRST else part
        path = folder / part / str(digit) / f"{i:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.pad(255 - image, 2, constant_values=255)).save(path)  # dark on light


def _warm_up(images: Path) -> None:
    """Compile the inner loops before anything is timed, by a small database that is thrown away."""
    import tempfile

    with tempfile.TemporaryDirectory(dir=images.parent) as folder:
        database = _create(Path(folder) / "database", images / "more", 100)
        database.add(images / "new" / "9")
        database.update()
        database.close()


def _create(place: Path, source: Path, n_anchors: int = N_ANCHORS) -> ImageDatabase:
    from sihash.database import ImageDatabase

    return ImageDatabase.create(place, source, n_bits=N_BITS, n_anchors=n_anchors, features="pixels")


def _story(images: Path, place: Path, tell: Callable[[str], None]) -> tuple[dict[str, Any], list[Search]]:
    queries = images / "queries"
    tell(f"DB is {place}, images are in {images}.\n")
    start = time.perf_counter()
    database = _create(place, images / "first")
    seconds = time.perf_counter() - start
    tell(
        f"sihash create DB images/first --features pixels --anchors {N_ANCHORS}\n"
        f"  {len(database)} images of the digits 0 to {FIRST - 1}, codes of {N_BITS} bits, {seconds:.2f} s"
    )
    figures: dict[str, Any] = {"n_bits": N_BITS, "n_items": len(database), "create_seconds": seconds}
    figures["mAP"] = database.evaluate(queries).mAP
    tell(
        "sihash evaluate DB --queries images/queries\n"
        f"  mAP {figures['mAP']:.3f} with images of these digits that it never saw"
    )
    tell(_search_told(database, min((queries / "3").iterdir())))
    n_more = len(database.add(images / "more").added)
    tell(f"sihash add DB images/more\n  {n_more} more images of the same digits; then, to learn:")
    figures["more_images"] = _three_ways(database, queries, tell)
    searches = _choose_queries(queries)
    n_new = len(database.add(images / "new").added)
    tell(
        f"sihash add DB images/new\n  {n_new} images of the new digits 7, 8 and 9. With them more than a "
        "quarter of all\n  is new, and then an update chooses everything anew, as from scratch:"
    )
    _ask(database, searches, "before")
    figures["new_classes"] = _three_ways(database, queries, tell)
    _ask(database, searches, "after")
    n_removed = len(database.remove_classes([REMOVED]).removed)
    _ask(database, searches, "removed")
    database.undo()
    tell(
        f"sihash remove DB --class {REMOVED}\n  {n_removed} images gone: no search finds them\n"
        f"sihash undo DB\n  {len(database)} images, all back"
    )
    database.close()
    return {**figures, "n_removed": n_removed}, searches


def _search_told(database: ImageDatabase, query: Path) -> str:
    database.search([query], k=5)  # in a new installation the first search compiles its loops
    start = time.perf_counter()
    (answer,) = database.search([query], k=5)
    milliseconds = 1000 * (time.perf_counter() - start)
    found = ", ".join(f"{hit.label} at {hit.distance} bit{'s' * (hit.distance != 1)}" for hit in answer.hits)
    return f"sihash search DB images/queries/3/{query.name} -k 5\n  {found}; {milliseconds:.0f} ms"


def _three_ways(database: ImageDatabase, queries: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """What a change asks for: nothing, learning from scratch, or an update, which stays in force."""
    passive = {"mAP": database.evaluate(queries).mAP, "seconds": 0.0}
    ways: dict[str, Any] = {"passive": passive}
    for strategy in ("scratch", "incremental"):
        report = database.update(strategy)
        ways[strategy] = {
            "mAP": database.evaluate(queries).mAP,
            "seconds": report.seconds["learning"],
            "report": report.text,
        }
        if strategy == "scratch":
            database.undo()
    tell(
        "                                        mAP   seconds of learning\n"
        f"  left as it was                      {passive['mAP']:.3f}   {0:.2f}\n"
        f"  sihash update DB --strategy scratch {ways['scratch']['mAP']:.3f}   "
        f"{ways['scratch']['seconds']:.2f}   (then sihash undo)\n"
        f"  sihash update DB                    {ways['incremental']['mAP']:.3f}   "
        f"{ways['incremental']['seconds']:.2f}\n"
        f"  {verdict(ways)}"
    )
    return ways


def verdict(ways: dict[str, Any]) -> str:
    """What the seconds say; nothing is promised that was not measured."""
    ratio = ways["incremental"]["seconds"] / ways["scratch"]["seconds"]
    compared = (
        f"The update took {ratio:.1f} times as long as learning from scratch"
        if ratio >= 1
        else f"The update took {100 * ratio:.0f} % of the time from scratch"
    )
    return f"{compared}; on so few images that says little, the README has 50,000."


def _choose_queries(folder: Path) -> list[Search]:
    """One image of each new digit: the first in its folder."""
    digits = [str(digit) for digit in range(FIRST, 10)]
    return [Search(min((folder / digit).iterdir()), digit, {}, {}) for digit in digits]


def _ask(database: ImageDatabase, searches: list[Search], moment: str) -> None:
    answers = database.search([search.path for search in searches], k=10)
    for search, answer in zip(searches, answers, strict=True):
        search.answers[moment] = answer
        search.files.update({hit.id: Path(str(database.item(hit.id).path)) for hit in answer.hits})
