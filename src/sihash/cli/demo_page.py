"""The page of the demo: queries and their answers before and after, with the figures."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sihash.cli.page import answer, document, figure, table

if TYPE_CHECKING:
    from sihash.cli.demo import Search

WAYS = {
    "passive": "left as it was",
    "incremental": "updated from what was learned",
    "scratch": "learned from scratch",
}


def write_page(path: Path, figures: dict[str, Any], searches: list[Search]) -> Path:
    """Write everything that the story showed; red frames are answers of another digit."""
    removed = [search for search in searches if search.digit == "8"]
    body = [
        '<p class="quiet">Left the query, right the ten best answers of the database. Strips are codes of '
        f"{figures['n_bits']} bits; red bits differ from the query's, red frames are another digit.</p>",
        "<h2>Three digits are new, nothing is learned yet</h2>",
        _note("The database learned the digits 0 to 6. Images of 7, 8 and 9 were added and can be found, "
              "by hash functions that never saw their like."),
        *(_row(search, "before", figures["n_bits"]) for search in searches),
        "<h2>After the update</h2>",
        _note("The same queries, by hash functions that learned the new digits."),
        *(_row(search, "after", figures["n_bits"]) for search in searches),
        "<h2>The 8 is removed</h2>",
        _note("What an 8 finds then. One undo later they are back."),
        *(_row(search, "removed", figures["n_bits"]) for search in removed),
        "<h2>Figures</h2>",
        _note("mAP with images that were never learned from, by Hamming distance; seconds of learning."),
        table(["", "more images: mAP", "seconds", "three new digits: mAP", "seconds"], _rows(figures)),
    ]  # fmt: skip
    path.write_text(document("Handwritten digits, before and after an update", body), "utf-8")
    return path


def _note(text: str) -> str:
    return f'<p class="quiet">{escape(text)}</p>'


def _rows(figures: dict[str, Any]) -> list[list[str]]:
    changes = [figures["more_images"], figures["new_classes"]]
    return [
        [words, *(text for c in changes for text in (f"{c[way]['mAP']:.3f}", f"{c[way]['seconds']:.2f}"))]
        for way, words in WAYS.items()
    ]


def _row(search: Search, moment: str, n_bits: int) -> str:
    from sihash.database.sources import thumbnail
    from sihash.features.images import as_image

    found = search.answers[moment]
    code = found.query_code
    picture = thumbnail(as_image(search.path))
    query = figure(picture, search.path.name, f"query: a {search.digit}", code, code, n_bits)
    hits = (
        figure(
            search.pictures[hit.id],
            hit.name,
            f"a {hit.label}, distance {hit.distance}",
            hit.code,
            code,
            n_bits,
            wrong=str(hit.label) != search.digit,
        )
        for hit in found.hits
    )
    return answer(query, hits)
