"""How those who watch are told what a database does, and how far it has come."""

from collections.abc import Callable

# What is being done ("reading", "learning: round 1, binary SVMs"), and how much of it is done, 0…1.
Progress = Callable[[str, float], None]


def silent(phase: str, done: float) -> None:
    """The progress of those who do not watch."""
