"""The token that lets its bearer change a database: made once, shown once, kept as a hash."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

MIN_LENGTH = 16  # of a token that somebody chose; ours have 43 characters
PLACE = Path("service") / "token.sha256"  # in the folder of the database, which leaves it alone


def hash_of(token: str) -> str:
    """A plain SHA-256 is enough: tokens are random, nobody has a dictionary of them."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_token(text: str, token_hash: str) -> bool:
    return hmac.compare_digest(hash_of(text), token_hash)


def first_token(folder: Path) -> tuple[str, str | None]:
    """The hash of a database's token and, if it was made just now, the token itself to be shown."""
    path = folder / PLACE
    try:
        stored = path.read_text().strip()
    except FileNotFoundError:
        return new_token(folder)
    if len(stored) != 64:
        raise ValueError(f"{path} is damaged; delete it and start again to get a new token.")
    return stored, None


def new_token(folder: Path) -> tuple[str, str]:
    """Make a token, keep its hash for the owner's eyes only, forget the one before."""
    token = secrets.token_urlsafe(32)
    path = folder / PLACE
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as file:
        file.write(hash_of(token) + "\n")
    return hash_of(token), token


def chosen_token(token: str) -> str:
    """The hash of a token that the user brings along; it is not stored."""
    if not token.isascii() or not token.isprintable() or token != token.strip():
        raise ValueError(
            "Expected a token of ASCII letters, digits and signs, without blanks at its ends: others do not "
            "survive an HTTP header."
        )
    if len(token) < MIN_LENGTH:
        raise ValueError(f"Expected a token of at least {MIN_LENGTH} characters, got {len(token)}.")
    return hash_of(token)
