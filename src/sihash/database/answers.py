"""What the database hands back."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sihash.datasets import Reject

Label = str | int | None
LabelSet = tuple[str | int, ...]  # of an item: sorted, each once; empty without a label
Id = str | int
Value = str | int | float | bool  # in a column


def only_label(labels: LabelSet) -> Label:
    """The label of an item that has exactly one; None where it has none or several."""
    return labels[0] if len(labels) == 1 else None


def label_words(labels: LabelSet) -> str:
    """Labels for people to read."""
    return ", ".join(map(str, labels)) or "no label"


class Labelled:
    """What has ``labels``, a tuple; ``label`` is the one of them where there is exactly one, else None."""

    labels: LabelSet

    @property
    def label(self) -> Label:
        return only_label(self.labels)


@dataclass(frozen=True)
class Why:
    """Why an item was found, whatever the ranking.

    ``same_class`` is the probability that query and item are of one class. ``margin`` says how far the
    query's margins agree with the item's bits, ``vector`` is the cosine between the centred vectors: both
    from −1 to 1.
    """

    same_class: float
    margin: float
    vector: float


@dataclass(frozen=True)
class Hit(Labelled):
    """An item that was found: ``distance`` is Hamming's, ``score`` the ranking's (larger is better).

    ``labels`` are its labels; ``label`` is the one where there is exactly one, else None. ``columns`` are
    what the source said of it beside them.
    """

    id: Id
    labels: LabelSet
    name: str
    distance: int
    score: float
    code: bytes
    why: Why = field(compare=False)  # its last digits depend on the order of sums
    columns: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a query found, best first, by which model version and ranking.

    ``remark`` says if the query looks like none of the classes.
    """

    version: int
    rank: str
    query_code: bytes
    hits: list[Hit]
    remark: str | None = None
    _thumbnail: Callable[[Id], bytes | None] = field(repr=False, compare=False, default=lambda _: None)

    def _repr_html_(self) -> str:
        cells = "".join(self._cell(hit) for hit in self.hits)
        return (
            f"<div><div>version {self.version}, {html.escape(self.rank)} ranking</div>"
            f'<div style="display:flex;flex-wrap:wrap;gap:8px">{cells}</div></div>'
        )

    def _cell(self, hit: Hit) -> str:
        image = self._thumbnail(hit.id)
        picture = f"<code>{hit.code.hex()}</code>"
        if image:
            data = base64.b64encode(image).decode()
            picture = f'<img alt="{html.escape(hit.name)}" src="data:image/jpeg;base64,{data}">'
        label = html.escape(label_words(hit.labels)) if hit.labels else ""
        return (
            f'<figure style="margin:0" title="{html.escape(hit.name)}">{picture}'
            f"<figcaption>{label} · {hit.score:.2f} · {hit.distance}</figcaption></figure>"
        )


@dataclass(frozen=True)
class ClassEvaluation:
    """Means over the queries of one class."""

    label: Label
    n_queries: int
    p_at_1: float
    p_at_10: float
    mAP: float


@dataclass(frozen=True)
class Evaluation:
    """How well searches answer: the share of right hits in the first place, and in the first ten, and mAP.

    ``note`` says what one should know before believing the figures, or is empty.
    """

    version: int
    rank: str
    p_at_1: float
    p_at_10: float
    mAP: float
    n_queries: int
    n_left_out: int
    n_items: int
    classes: list[ClassEvaluation]
    note: str = ""

    def worst(self, n: int = 10) -> list[ClassEvaluation]:
        """The classes whose queries fare worst: by P@10, then mAP."""
        return sorted(self.classes, key=lambda each: (each.p_at_10, each.mAP, str(each.label)))[:n]


@dataclass(frozen=True)
class Classification:
    """The likeliest class, ``label``, and the ``probabilities`` of all.

    ``labels`` are those to answer: that one, and where items have several labels all that are likely enough.
    """

    version: int
    label: Label
    probability: float
    probabilities: dict[Label, float]
    labels: LabelSet = ()


@dataclass(frozen=True)
class Item(Labelled):
    """An item of the collection. ``path`` is where its file was when it was added, if it was in a folder.

    ``label`` is its label where it has exactly one, else None.
    """

    id: Id
    labels: LabelSet
    name: str
    path: str | None
    version: int
    sha256: str
    code: bytes
    columns: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class LabelConflict(Labelled):
    """An item that was not added, because its content is there already, with other labels: ``kept``."""

    name: str
    labels: LabelSet
    kept: LabelSet


@dataclass(frozen=True)
class JoinedLabels(Labelled):
    """What was not added, because the source has its content twice; the item has the labels of both."""

    name: str
    labels: LabelSet


@dataclass(frozen=True)
class AddReport:
    """Ids of what was added; names of what was there already; what could not be used, and why.

    ``conflicts`` are those of ``skipped`` that came with another label than the item that was there before,
    ``joined`` those whose content came before in the same source with another label: that item has both.
    ``replaced`` are the ids among those added whose earlier items were removed by it.
    """

    version: int
    added: list[Id]
    skipped: list[str]
    rejected: list[Reject]
    replaced: list[Id] = field(default_factory=list)
    conflicts: list[LabelConflict] = field(default_factory=list)
    joined: list[JoinedLabels] = field(default_factory=list)


@dataclass(frozen=True)
class RemoveReport:
    """Ids of the items that went, and, where classes did, of those that lost a label and have another."""

    version: int
    removed: list[Id]
    relabelled: list[Id] = field(default_factory=list)


@dataclass(frozen=True)
class RelabelReport(Labelled):
    """Ids of the items that got ``labels``; those that had just them already are not among them."""

    version: int
    relabelled: list[Id]
    labels: LabelSet


@dataclass(frozen=True)
class UpdateReport:
    """What an update did. ``changed`` is False if there was nothing to learn from.

    ``compared`` holds mAP by strategy: passive, incremental, and scratch if that was asked for.
    ``n_bits_trained`` of the hash functions took steps, and ``bits_changed`` is the share of bits that the
    new ones give other values than the old ones, on items of the collection. Codes that are stored stay, but
    for ``n_reencoded`` of them. ``warnings`` say what is not good enough, and what to do.
    """

    version: int
    strategy: str
    changed: bool
    n_learned: int = 0
    n_forgotten: int = 0
    n_bits_trained: int = 0
    bits_changed: float = 0.0
    n_reencoded: int = 0
    bytes_written: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    text: str = ""
    compared: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class UndoReport:
    """What was taken back, and the version that is in force again."""

    version: int
    undone: str


@dataclass(frozen=True)
class CompactReport:
    """How many items were dropped for good, and how many segments there were and are.

    Removed items that the model in force was learned from are dropped by a compaction after the next update.
    """

    n_dropped: int
    segments_before: int
    segments_after: int


@dataclass(frozen=True)
class MergeReport:
    """How many items came from each of two databases; ids of those of the second that the first had, too."""

    version: int
    n_first: int
    n_second: int
    skipped: list[Id]


@dataclass(frozen=True)
class Version:
    """A model version: how and when it was learned, from how many rows; whether searches use it now.

    ``undone`` says that it was taken back.
    """

    number: int
    strategy: str
    at: str
    n_training: int
    current: bool
    undone: bool
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FileProblem:
    """Something that is wrong with a file of the database."""

    file: str
    reason: str
