"""Names and labels as the database keeps them."""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np

from sihash.database.answers import Label
from sihash.database.errors import DatabaseError

LONGEST = 1000  # characters of a name, a label or an id


def printable(name: str) -> str:
    """A file's name as text; bytes that are none are spelt out."""
    try:
        text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        raise _half(name) from None
    return _not_too_long(text)


def check_text(text: str) -> str:
    """Text that is kept exactly as it came."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _half(text) from None
    return _not_too_long(text)


def _half(text: str) -> DatabaseError:
    return DatabaseError(
        "Names, labels and ids must be Unicode text, "
        f"got {text[:50]!r}, which holds half a character; correct it."
    )


def _not_too_long(text: str) -> str:
    if len(text) > LONGEST:
        raise DatabaseError(
            f"Names, labels and ids have at most {LONGEST:,} characters; got one of {len(text):,} that "
            f"begins with {text[:40]!r}."
        )
    return text


def plain_label(label: Any) -> Label:
    """A label as the database keeps it: text, a whole number, or None; −1 and "" are None, too.

    Text in the form NFC: an "é" of one character and an "é" of two look the same, and are the same class.
    """
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, float):
        if label != label:
            return None
        if label.is_integer():
            label = int(label)
    if isinstance(label, str):
        return unicodedata.normalize("NFC", printable(label)) or None
    if label == -1:
        return None
    if label is None or (isinstance(label, int) and not isinstance(label, bool)):
        return label
    raise DatabaseError(f"Labels must be text or whole numbers, or None for unlabelled; got {label!r}.")
