"""How verbs print: results to stdout, messages to stderr, and an exit code.

0 is success, 1 an error in one sentence, 2 a wrong command line, 3 success with some files rejected.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

REJECTED = 3


def emit(data: Any, text: str, as_json: bool) -> None:
    """Print the result: ``data`` as one line of JSON, or ``text``."""
    print_result(json.dumps(_plain(data), allow_nan=False) if as_json else text)


def print_result(text: str) -> None:
    """Print to stdout. If the reader has gone, as behind `head`, the command ends silently."""
    try:
        typer.echo(_printable(text))
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python tries again as it ends
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(1) from None
        raise OSError(f"The result could not be printed: {error.strerror}.") from None


def _plain(value: Any) -> Any:
    """JSON has no NaN, so a mean over nothing becomes null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_page(path: Path, template: str, **values: Any) -> Path:
    """Write a page from a template of `sihash.pages`; where it is."""
    from sihash.pages import render
    from sihash.store.atomic_file import whole_file

    path = path if path.suffix else path.with_name(path.name + ".html")
    page = render(template, **values).encode()
    with whole_file(path) as file:
        file.write(page)
    return path


def print_message(text: str) -> None:
    typer.echo(_printable(text), err=True)


def _printable(text: str) -> str:
    """File names may hold bytes that are not valid text."""
    return text.encode("utf-8", "backslashreplace").decode()


def one_line(name: str) -> str:
    """Make a file or class name safe to print: control characters are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


class _PrintRecords(logging.Handler):
    """Print log records on the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        print_message(record.getMessage())


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Around a verb: errors become one sentence and exit code 1, warnings become sentences."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: print_message(f"Note: {one_line(str(message))}")
        compiling = logging.getLogger("sihash.compiling")
        if not compiling.handlers:  # seconds of silence at the first use would look like a fault
            compiling.addHandler(_PrintRecords())
            compiling.setLevel(logging.INFO)
        try:
            yield
        except (ValueError, OSError, ImportError, MemoryError, OverflowError) as error:
            print_message(f"Error: {one_line(_sentence(error))}")
            raise typer.Exit(1) from None


def _sentence(error: Exception) -> str:
    """The message of an error of ours; Python's own errors become a sentence."""
    if isinstance(error, MemoryError):
        return "Not enough memory. Use fewer items, anchors or bits, or a larger machine."
    if isinstance(error, OverflowError):
        return f"One of the numbers given is too large: {error}."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return str(error)


class ProgressKind(StrEnum):
    auto = "auto"
    json = "json"
    none = "none"


@contextmanager
def phase_bars(kind: ProgressKind = ProgressKind.auto) -> Iterator[Callable[[str, float], None]]:
    """A bar per phase of a database's work (reading, learning, …) if stderr is a terminal."""
    if kind is ProgressKind.json:
        yield _phase_line
        return
    if not _is_watched(kind):
        yield lambda phase, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, TaskID] = {}

        def move(step: str, done: float) -> None:
            phase, _, detail = step.partition(": ")
            if phase not in tasks:  # the bar pulses until a share is known
                tasks[phase] = bar.add_task(phase, total=None, detail="")
            bar.update(tasks[phase], completed=done, total=1.0 if done else None, detail=detail)

        yield move


def _is_watched(kind: ProgressKind) -> bool:
    return kind is ProgressKind.auto and sys.stderr.isatty()


def _phase_line(step: str, done: float) -> None:
    phase, _, detail = step.partition(": ")
    _json_line({"phase": phase, "detail": detail, "share": round(done, 4)})


def _json_line(data: dict[str, Any]) -> None:
    print_message(json.dumps(data))
