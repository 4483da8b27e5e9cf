"""Who is told how far an operation has come: the caller, or the notebook that it runs in."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

from sihash._typing import Progress


def watched(progress: Progress | None) -> Progress:
    """The caller's ``progress``; without one bars in a notebook, and nothing elsewhere."""
    if progress is not None:
        return progress
    return NotebookBars() if in_notebook() else silent


def silent(phase: str, done: float) -> None:
    """The progress of those who do not watch."""


def in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")


class NotebookBars:
    """A bar for each phase, in the output of the cell."""

    def __init__(self) -> None:
        self._phases: dict[str, tuple[str, float]] = {}
        self._shown: Any = None

    def __call__(self, step: str, done: float) -> None:
        phase, _, detail = step.partition(": ")
        before = self._phases.get(phase)
        self._phases[phase] = detail, done
        if before is None or before[0] != detail or int(100 * before[1]) != int(100 * done):
            self._show()

    def _show(self) -> None:
        import IPython.display as notebook

        html = notebook.HTML("".join(_bar(phase, *each) for phase, each in self._phases.items()))
        if self._shown is None:
            self._shown = notebook.display(html, display_id=True)
        else:
            self._shown.update(html)


def _bar(phase: str, detail: str, done: float) -> str:
    share = f' value="{done:.3f}"' if done else ""  # without one it moves to and fro
    return f"<div>{escape(phase)} <progress{share}></progress> {escape(detail)}</div>"
