"""Parts of a page that stands by itself: pictures and their codes in HTML, nothing to load from elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape

import numpy as np

from sihash import codes

PAGE_STYLE = """
:root { --paper: #f6f6f3; --card: #fff; --ink: #1b2530; --quiet: #5d6874; --line: #dfe1dc;
  --set: #3f7ea6; --unset: #d6e2ea; --differ: #cf4326; color-scheme: light;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 36px 32px 48px; max-width: 1240px; background: var(--paper);
  color: var(--ink); }
h1 { font-size: 1.6rem; margin: 0 0 4px; letter-spacing: -.01em; }
h2 { font-size: 1.1rem; margin: 36px 0 2px; }
p { margin: 0 0 12px; max-width: 78ch; }
.quiet, figcaption { color: var(--quiet); }
.answer { display: flex; gap: 22px; background: var(--card); border: 1px solid var(--line);
  border-radius: 12px; padding: 16px 18px; margin: 10px 0; }
.query { border-right: 1px solid var(--line); padding-right: 22px; }
.hits { display: flex; flex-wrap: wrap; gap: 14px 10px; }
figure { margin: 0; width: 84px; font-size: .78rem; line-height: 1.3; }
.picture { display: block; width: 84px; height: 84px; object-fit: contain; background: #fff;
  border: 1px solid var(--line); border-radius: 6px; }
span.picture { display: grid; place-items: center; color: var(--quiet); }
.wrong .picture { outline: 3px solid var(--differ); }
.wrong figcaption { color: var(--differ); }
.strip { display: block; width: 84px; height: 7px; margin: 5px 0 3px; background: var(--unset); }
figcaption { overflow-wrap: anywhere; }
table { border-collapse: collapse; background: var(--card); border: 1px solid var(--line);
  border-radius: 12px; margin: 12px 0; }
th, td { padding: 6px 18px; text-align: left; font-variant-numeric: tabular-nums; }
th { color: var(--quiet); font-weight: 500; font-size: .86rem; }
td.number, th.number { text-align: right; }
tr + tr td { border-top: 1px solid var(--line); }
"""


def document(title: str, body: Iterable[str]) -> str:
    """A whole page; ``title`` is text, ``body`` HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{PAGE_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def answer(query: str, hits: Iterable[str]) -> str:
    """One query and what it found, both made by `figure`."""
    found = "".join(hits) or '<p class="quiet">nothing found</p>'
    return f'<div class="answer"><div class="query">{query}</div><div class="hits">{found}</div></div>'


def figure(
    image: bytes | None,
    name: str,
    caption: str,
    code: bytes,
    reference: bytes,
    n_bits: int,
    wrong: bool = False,
) -> str:
    """A picture (PNG, JPEG), its code as a strip with the bits unlike ``reference`` in red, a caption."""
    picture = '<span class="picture">no picture</span>'
    if image:
        kind = "png" if image.startswith(b"\x89PNG") else "jpeg"
        data = base64.b64encode(image).decode()
        picture = f'<img class="picture" alt="{escape(name)}" src="data:image/{kind};base64,{data}">'
    mark = ' class="wrong"' if wrong else ""
    return (
        f'<figure{mark} title="{escape(name)}">{picture}{_strip(code, reference, n_bits)}'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _strip(code: bytes, reference: bytes, n_bits: int) -> str:
    bits, expected = (codes.unpack(np.frombuffer(c, np.uint8)[None], n_bits)[0] for c in (code, reference))
    differing = np.flatnonzero(bits != expected)
    alike = np.flatnonzero((bits == expected) & (bits > 0))
    return (
        f'<svg class="strip" viewBox="0 0 {n_bits} 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<path fill="var(--set)" d="{_cells(alike)}"/>'
        f'<path fill="var(--differ)" d="{_cells(differing)}"/></svg>'
    )


def _cells(places: Iterable[int]) -> str:
    return "".join(f"M{place} 0h1v1h-1z" for place in places)


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """The first column is words, the others are numbers."""

    def line(tag: str, cells: list[str]) -> str:
        return (
            "<tr>"
            + "".join(
                f"<{tag}{' class=number' if column else ''}>{escape(cell)}</{tag}>"
                for column, cell in enumerate(cells)
            )
            + "</tr>"
        )

    return f"<table>{line('th', head)}{''.join(line('td', row) for row in rows)}</table>"
