"""What a fit or an update did and cost."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np

from sihash._typing import Array
from sihash.svm.settings import DEFAULTS, SolverSettings

logger = logging.getLogger("sihash.learning")
BEFORE_ROUNDS = ("kernel", "words", "rows", "lost rows")  # the other phases belong to a round
_watcher: ContextVar[Callable[[str, int], None] | None] = ContextVar("sihash_watcher", default=None)


@contextmanager
def watched_by(tell: Callable[[str, int], None]) -> Iterator[None]:
    """Within a ``with`` block: ``tell(phase, n_rounds)`` is called as learning begins each phase."""
    token = _watcher.set(tell)
    try:
        yield
    finally:
        _watcher.reset(token)


def show_log() -> None:
    """Where nobody has set up logging, lines of ours go to stderr."""
    if not logger.hasHandlers():
        logging.getLogger("sihash").addHandler(logging.StreamHandler())
    logger.setLevel(logging.INFO)


@dataclass
class Round:
    """One round of Algorithm 1. Arrays have one entry per bit."""

    n_steps: Array  # steps that each bit's SVM took; 0: it was still good enough
    gaps: Array  # relative gaps to the optimum after training ...
    are_proved: bool  # ... proved, or estimates
    n_flips: Array  # rows whose bit changed afterwards

    @property
    def bits_trained(self) -> int:
        return int(np.count_nonzero(self.n_steps))


@dataclass
class Report:
    """What was done, round by round, and the seconds by phase.

    ``scratch_steps`` and ``scratch_seconds`` recall the last fit from scratch (its seconds scaled to the
    present number of rows): what an update saved is the difference. `relearn` has neither.
    """

    kind: str
    n_rows: int = 0
    n_added: int = 0
    n_removed: int = 0
    n_anchors: int = 0  # of a kernel map that was chosen now
    n_anchors_asked: int = 0
    rounds: list[Round] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    scratch_steps: float = float("nan")
    scratch_seconds: float = float("nan")
    solver: SolverSettings = DEFAULTS  # what the SVMs were solved by
    verbose: bool = False  # whether phases are logged for people, or for those who debug

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of a ``with`` block under ``name``, and tell those who watch that it begins."""
        n_rounds = len(self.rounds)
        round_ = "" if name in BEFORE_ROUNDS else f"round {n_rounds + 1}, "
        logger.log(logging.INFO if self.verbose else logging.DEBUG, "%s: %s%s", self.kind, round_, name)
        watcher = _watcher.get()
        if watcher:
            watcher(f"{round_}{name}", n_rounds)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    @property
    def n_steps(self) -> float:
        """Steps summed over rounds, a mean over the bits: each costs two products with Φ."""
        return float(sum(np.mean(r.n_steps) for r in self.rounds))

    @property
    def max_gap(self) -> float:
        """The widest gap of any bit after the last round: see `gaps_are_proved`."""
        return float(max(self.rounds[-1].gaps)) if self.rounds else float("nan")

    @property
    def gaps_are_proved(self) -> bool:
        """Whether the gaps are true bounds (OCAS), or what the smoothed solver expects."""
        return bool(self.rounds) and self.rounds[-1].are_proved

    def __str__(self) -> str:
        text = (
            f"{self.kind}: {self.n_rows:,} rows (+{self.n_added:,} −{self.n_removed:,}), "
            f"rounds: {len(self.rounds)}, {self.n_steps:.1f} steps per bit, "
            f"{'proved' if self.gaps_are_proved else 'estimated'} gap ≤ {100 * self.max_gap:.2f} %, "
            f"{self.total_seconds:.2f} s"
        )
        if self.n_anchors > self.n_anchors_asked:
            text += f"; {self.n_anchors:,} anchors, one per class, not {self.n_anchors_asked:,}"
        if self.kind != "fit" and np.isnan(self.scratch_seconds):
            text += " (learned from scratch)"
        elif self.kind != "fit":
            text += f" (from scratch: about {self.scratch_steps:.1f} steps, {self.scratch_seconds:.2f} s)"
        return text
