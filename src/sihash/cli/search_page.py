"""The page that ``sihash search --html`` writes."""

from __future__ import annotations

from html import escape
from pathlib import Path

from sihash.cli.page import answer, document, figure
from sihash.database import Database
from sihash.database.answers import Answer, Hit, Id, label_words
from sihash.database.sources import thumbnail
from sihash.features.images import as_image


def search_page(
    database: Database, images: list[Path], ids: list[Id], names: list[str], answers: list[Answer]
) -> str:
    """Every query, an image or an item of the database, and what it found."""
    n_bits = int(database.info()["n_bits"])
    first = answers[0]
    intro = (
        f'<p class="quiet">{escape(str(database.path))}, version {first.version}, {first.rank} ranking. '
        "Strips are codes; red: bits that differ from the query's.</p>"
    )
    rows = []
    for place, (name, found) in enumerate(zip(names, answers, strict=True)):
        picture = database.thumbnail(ids[place]) if ids else _picture(database, images, place)
        code = found.query_code
        query = figure(picture, name, f"query: {Path(name).name}", code, code, n_bits)
        rows.append(answer(query, (_hit(database, hit, code, n_bits) for hit in found.hits)))
    return document("Search results", [intro, *rows])


def _picture(database: Database, images: list[Path], place: int) -> bytes | None:
    """Of a query; where the database holds vectors there is none."""
    return None if database.features.name == "none" else thumbnail(as_image(images[place]))


def _hit(database: Database, hit: Hit, code: bytes, n_bits: int) -> str:
    caption = f"{label_words(hit.labels)}, score {hit.score:.2f}, distance {hit.distance}, id {hit.id}"
    return figure(database.thumbnail(hit.id), hit.name, caption, hit.code, code, n_bits)
