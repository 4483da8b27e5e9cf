"""HTML that stands by itself, from the templates beside this file: nothing in it is loaded from elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sihash.codes import unpack
from sihash.store.labels import label_words

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: Any) -> str:
    """The HTML of a template in ``templates/``; every value is escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # only who writes a page waits for it

    made = Environment(
        loader=PackageLoader("sihash"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "data_address": _data_address,
        "compared_with": _compared_with,
        "file_name": lambda name: Path(name).name,
        "label_words": label_words,
        "constraints": lambda schema: {k: v for k, v in schema.items() if k not in ("title", "description")},
        "last_part": lambda path: path.rpartition("/")[2],
    }
    return made


def _data_address(picture: bytes) -> str:
    kind = "png" if picture.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


def _compared_with(code: bytes, reference: bytes, n_bits: int) -> Sequence[tuple[str, list[int]]]:
    """Bits by colour: those set in both codes, and those in which they differ."""
    bits, expected = (unpack(np.frombuffer(each, np.uint8)[None], n_bits)[0] for each in (code, reference))
    alike, differing = (bits == expected) & (bits > 0), bits != expected
    return [("set", np.flatnonzero(alike).tolist()), ("differ", np.flatnonzero(differing).tolist())]
