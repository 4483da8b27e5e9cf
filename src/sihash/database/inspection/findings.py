"""What `Database.doctor` returns: findings, each with a reason and the command that fixes it."""

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
    """A label that looks wrong.

    ``certainty`` (0…1) orders the findings of one kind. ``items`` are the items concerned, or examples of the
    classes; the first one should change. ``labels`` are those that it should have, if known.
    ``mend`` is the command, without ``sihash`` and the database.
    """

    kind: FindingKind
    certainty: float
    reason: str
    items: list[Item]
    mend: tuple[str, ...]
    labels: LabelSet = ()

    @property
    def title(self) -> str:
        """Its kind, in more words."""
        return KIND_TITLES[self.kind]

    def command(self, database: str) -> str:
        """The shell command that fixes it."""
        verb, *words = self.mend
        return shlex.join(["sihash", verb, database, *words])


@dataclass(frozen=True)
class Diagnosis:
    """Findings by kind, the most certain of each kind first.

    ``found`` counts all findings of each kind; the list may hold fewer. ``note`` says what was examined.
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
