"""What every verb does with its words: data to stdout, talk to stderr, one exit code for each ending.

0 is success, 1 an error told in one sentence, 2 a wrong command line, 3 success with some files rejected.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

REJECTED = 3


def emit(data: Any, text: str, as_json: bool) -> None:
    """Print the result: ``data`` as one line of JSON, or ``text``."""
    typer.echo(json.dumps(_plain(data), allow_nan=False) if as_json else _printable(text))


def _plain(value: Any) -> Any:
    """JSON has no NaN: a mean over nothing is null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def talk(text: str) -> None:
    typer.echo(_printable(text), err=True)


def _printable(text: str) -> str:
    """File names may hold bytes that are no text at all."""
    return text.encode("utf-8", "backslashreplace").decode()


@contextmanager
def errors_told() -> Iterator[None]:
    """An error that has a sentence for the user ends the command with it and with code 1."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        talk(f"Error: {error}")
        raise typer.Exit(1) from None


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on stderr, if somebody watches; yields the function that moves it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
