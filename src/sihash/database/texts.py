"""Names and labels as the database keeps them."""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np

from sihash.database.answers import Label
from sihash.database.errors import DatabaseError


def printable(name: str) -> str:
    """A file's name as text; bytes that are none are spelt out."""
    try:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        raise DatabaseError(
            f"Names and labels must be Unicode text, got {name!r}, which holds half a character; correct it."
        ) from None


def plain_label(label: Any) -> Label:
    """A label as the database keeps it: text, a whole number, or None.

    Text in the form NFC: an "é" of one character and an "é" of two look the same, and are the same class.
    """
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, float):
        if label != label:
            return None
        if label.is_integer():
            return int(label)
    if isinstance(label, str):
        return unicodedata.normalize("NFC", printable(label))
    if label is None or (isinstance(label, int) and not isinstance(label, bool)):
        return label
    raise DatabaseError(f"Labels must be text or whole numbers, or None for unlabelled; got {label!r}.")
