"""The picture of the demo: queries and their nearest images, with their codes. Pillow only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sihash._typing import Array

TILE, GAP, MARGIN = 96, 16, 40  # pixels: side of an image, space between images, border of the picture
STRIP = 9  # height of a code drawn as a strip of bits
TOP, CAPTION = 172, 44  # heights of the heading, and of strip and words under an image
LABELS, GUTTER = 116, 56  # widths of the words left of a query, and between query and neighbours

PAPER, INK, FAINT, LINE = "#ffffff", "#1c2733", "#6b7785", "#d5dbe1"
PLUS, MINUS, WRONG = "#2f6f9f", "#dbe6ee", "#d62839"


@dataclass(frozen=True)
class Row:
    """A query and what was found for it, nearest first. Images are 8-bit greys, codes ±1."""

    image: Array
    label: str
    note: str
    code: Array
    found_images: Array  # (k, h, w)
    found_codes: Array  # (k, n_bits)
    is_right: Array  # (k,)


def draw(rows: list[Row], title: str, subtitle: str, columns: list[str]) -> Image.Image:
    """The whole picture: a heading, the names of the columns of found images, and a line for each query."""
    k = len(rows[0].found_images)
    pitch = TILE + CAPTION + GAP
    width = 2 * MARGIN + LABELS + TILE + GUTTER + k * (TILE + GAP) - GAP
    picture = Image.new("RGB", (width, TOP + len(rows) * pitch + MARGIN - GAP), PAPER)
    pen = ImageDraw.Draw(picture)
    pen.text((MARGIN, 32), title, INK, _font(30))
    pen.text((MARGIN, 74), subtitle, FAINT, _font(17))
    first = MARGIN + LABELS + TILE // 2
    for i, name in enumerate(["query", *columns]):
        x = first + (TILE + GUTTER + (i - 1) * (TILE + GAP) if i else 0)
        pen.text((x, TOP - 14), name, INK, _font(16), anchor="ms")
    for i, row in enumerate(rows):
        _draw_row(picture, pen, TOP + i * pitch, row)
    return picture


def _draw_row(picture: Image.Image, pen: ImageDraw.ImageDraw, y: int, row: Row) -> None:
    x = MARGIN
    pen.text((x, y + TILE / 2), row.label, INK, _font(26), anchor="lm")
    pen.text((x, y + TILE / 2 + 18), row.note, FAINT, _font(14))
    x += LABELS
    _draw_item(picture, pen, (x, y), row.image, row.code, row.code, "its code", INK)
    x += TILE + GUTTER
    pen.line((x - GUTTER // 2, y, x - GUTTER // 2, y + TILE + STRIP + 6), LINE, 2)
    for image, code, right in zip(row.found_images, row.found_codes, row.is_right, strict=True):
        distance = int(np.count_nonzero(code != row.code))
        _draw_item(
            picture, pen, (x, y), image, code, row.code, f"distance {distance}", LINE if right else WRONG
        )
        x += TILE + GAP


def _draw_item(
    picture: Image.Image, pen: ImageDraw.ImageDraw, corner: tuple[int, int], image: Array, code: Array,
    reference: Array, words: str, frame: str,
) -> None:  # fmt: skip
    """One image in its frame; below it its code, bits unlike ``reference`` in red, and a few words."""
    x, y = corner
    greys = Image.fromarray(np.pad(255 - image, 1, constant_values=255))
    picture.paste(greys.resize((TILE, TILE), Image.Resampling.BICUBIC), corner)
    thick = 4 if frame == WRONG else 2
    pen.rectangle(
        (x - thick, y - thick, x + TILE - 1 + thick, y + TILE - 1 + thick), outline=frame, width=thick
    )
    top = y + TILE + 7
    for j, bit in enumerate(code):
        left, right = (x + TILE * i // len(code) for i in (j, j + 1))
        colour = WRONG if bit != reference[j] else PLUS if bit > 0 else MINUS
        pen.rectangle((left, top, right - 1, top + STRIP - 1), fill=colour)
    pen.text(
        (x + TILE / 2, top + STRIP + 4), words, WRONG if frame == WRONG else FAINT, _font(15), anchor="ma"
    )


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
