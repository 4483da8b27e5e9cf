"""What `ImageDatabase.doctor` hands back: findings, each with a reason and the command that mends it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal, get_args

from sihash.database.answers import Item, Label, Labelled, LabelSet

FindingKind = Literal["wrong label", "conflict", "near-duplicate", "confused classes", "small class"]
FINDING_KINDS: tuple[FindingKind, ...] = get_args(FindingKind)
KIND_TITLES: dict[FindingKind, str] = {
    "wrong label": "Labels that neighbours and margins contradict",
    "conflict": "Duplicates with different labels",
    "near-duplicate": "Near-duplicates",
    "confused classes": "Classes that cannot be told apart",
    "small class": "Classes too small to learn",
}


@dataclass(frozen=True)
class Finding(Labelled):
    """Something about labels that looks wrong.

    ``certainty`` (0…1) orders the findings of one kind. ``items`` are those that it is about, or examples of
    its classes; the first one is to change. ``labels`` are those that it should have, where that is known.
    ``mend`` is the command, without ``sihash`` and the database.
    """

    kind: FindingKind
    certainty: float
    reason: str
    items: list[Item]
    mend: tuple[str, ...]
    labels: LabelSet = ()

    def command(self, database: str) -> str:
        """The command that mends it, to be put into a shell."""
        verb, *words = self.mend
        return shlex.join(["sihash", verb, database, *words])


@dataclass(frozen=True)
class Diagnosis:
    """Findings by kind, of each kind the most certain first.

    ``found`` says how many there are of each kind, of which the list may hold fewer. ``note`` says what was
    examined, and what one should know before believing it.
    """

    version: int
    findings: list[Finding]
    found: dict[FindingKind, int]
    note: str


def relabel_command(item: Item, labels: LabelSet) -> tuple[str, ...]:
    """The words after ``--`` may begin with a hyphen."""
    words = [str(item.id), *map(str, labels)]
    return ("relabel", *(["--"] if any(word.startswith("-") for word in words) else []), *words)


def merge_command(label: Label, into: Label) -> tuple[str, ...]:
    """All items of one class become items of another."""
    hyphen = ["--"] if str(into).startswith("-") else []
    return ("relabel", f"--class={label}", *hyphen, str(into))
