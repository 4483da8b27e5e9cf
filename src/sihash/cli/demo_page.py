"""The page of the demo: queries and their answers before and after, with the figures."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sihash.cli.page import answer, document, figure, table
from sihash.store.atomic_file import whole_file

if TYPE_CHECKING:
    from sihash.cli.demo import Search

WAYS = {
    "passive": "left as it was",
    "incremental": "updated from what was learned",
    "relearn": "learned from scratch",
}


def write_page(path: Path, figures: dict[str, Any], searches: list[Search]) -> Path:
    """Write everything that the story showed; red frames are answers of another digit."""
    removed = [search for search in searches if "removed" in search.answers]
    new = [search for search in searches if search not in removed]
    body = [
        _note(f"A database of {figures['n_items']:,} images of the digits 0 to 8 gets more images of them, "
              "then the 9, which it does not know. mAP is by Hamming distance, with images that were never "
              "learned from; seconds are those of learning."),
        table(["", "more images: mAP", "seconds", "a new digit: mAP", "seconds"], _rows(figures)),
        "<h2>The 9 is new, nothing is learned yet</h2>",
        _note("Images of the 9 were added and can be found, by hash functions that never saw their like. "
              "Left a query, right its ten best answers; the three queries that fared worst. "
              f"Strips are codes of {figures['n_bits']} bits; red: bits unlike the query's, and images of "
              "another digit."),
        *(_row(search, "before", figures["n_bits"]) for search in new),
        "<h2>After the update</h2>",
        _note("The same queries, by hash functions that learned the new digit."),
        *(_row(search, "after", figures["n_bits"]) for search in new),
        "<h2>The 8 is removed</h2>",
        _note("What an 8 finds then. One undo later they are back."),
        *(_row(search, "removed", figures["n_bits"]) for search in removed),
    ]  # fmt: skip
    with whole_file(path) as file:
        file.write(document("Handwritten digits, before and after an update", body).encode())
    return path


def _note(text: str) -> str:
    return f'<p class="quiet">{escape(text)}</p>'


def _rows(figures: dict[str, Any]) -> list[list[str]]:
    changes = [figures["more_images"], figures["new_class"]]
    return [
        [words, *(text for c in changes for text in (f"{c[way]['mAP']:.3f}", f"{c[way]['seconds']:.2f}"))]
        for way, words in WAYS.items()
    ]


def _row(search: Search, moment: str, n_bits: int) -> str:
    found = search.answers[moment]
    code = found.query_code
    query = figure(search.path.read_bytes(), search.path.name, f"query: a {search.digit}", code, code, n_bits)
    hits = (
        figure(
            search.files[hit.id].read_bytes(),
            hit.name,
            f"a {hit.label}, {hit.distance} bit{'s' * (hit.distance != 1)} off",
            hit.code,
            code,
            n_bits,
            wrong=str(hit.label) != search.digit,
        )
        for hit in found.hits
    )
    return answer(query, hits)
