"""What the methods of a database return; the service sends the same as JSON, and the client reads it back.

These are plain dataclasses: a search needs no pydantic. Where pydantic is there, `Answered` and the types
below tell it what the JSON looks like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, get_args, get_type_hints

import numpy as np

from sihash._typing import Array
from sihash.datasets import Reject
from sihash.store.columns import Value as Value
from sihash.store.ids import Id as Id
from sihash.store.labels import Label as Label
from sihash.store.labels import LabelSet as LabelSet
from sihash.store.labels import label_words as label_words
from sihash.store.labels import only_label


class _InJson:
    """What a value is in JSON: the type there, and the functions to it and back."""

    def __init__(self, kind: Any, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
        self._kind, self._write, self._read = kind, write, read

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema as core

        kind = handler.generate_schema(self._kind)
        written = core.plain_serializer_function_ser_schema(self._write, return_schema=kind)
        return core.no_info_after_validator_function(self._read, kind, serialization=written)


@dataclass(frozen=True)
class ClassProbability:
    """One of the probabilities of a `Classification`, in JSON: the names in its objects are only text."""

    label: Label
    probability: float


def _largest_first(probabilities: dict[Label, float]) -> list[ClassProbability]:
    pairs = [ClassProbability(label, p) for label, p in probabilities.items()]
    return sorted(pairs, key=lambda pair: -pair.probability)


Code = Annotated[bytes, _InJson(str, bytes.hex, bytes.fromhex)]
Numbers = Annotated[Array, _InJson(list[float] | list[list[float]], np.ndarray.tolist, np.array)]
ByLabel = Annotated[
    dict[Label, float],
    _InJson(
        list[ClassProbability], _largest_first, lambda pairs: {pair.label: pair.probability for pair in pairs}
    ),
]
Rank = Literal["combined", "hamming", "vector"]
UPDATE_WAYS = {
    "passive": "without the update",
    "incremental": "with it",
    "relearn": "from scratch",
    "scratch": "from scratch",
}
RANKS: tuple[Rank, ...] = get_args(Rank)  # offered by the command line, the service and its page
SHOWN_IN_LISTS = 3
STAYS_HERE = {"stays here": True}  # metadata of a field that is not sent


class Answered:
    """As JSON, an answer has its fields and its properties, without the fields marked `STAYS_HERE`."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        schema = handler(source)
        inner = handler.resolve_ref_schema(schema)["schema"]
        here = {each.name for each in fields(source) if each.metadata == STAYS_HERE}
        for each in inner["fields"]:
            if each["name"] in here:
                each["serialization_exclude"] = True
        inner["computed_fields"] = [
            core_schema.computed_field(name, handler.generate_schema(get_type_hints(got.fget)["return"]))
            for name in dir(source)
            if isinstance(got := getattr(source, name), property)
        ]
        return schema


class Shortened:
    """Long lists are shown by their first items: in a notebook, a report is a line and not a page."""

    def __repr__(self) -> str:
        shown = (f"{each.name}={_short(getattr(self, each.name))}" for each in fields(self) if each.repr)  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > SHOWN_IN_LISTS:
        return f"[{', '.join(map(repr, value[:SHOWN_IN_LISTS]))}, … {len(value):,} in all]"
    return repr(value)


class Labelled(Answered):
    """Something with ``labels``, a tuple. ``label`` is the label if there is exactly one, otherwise None."""

    labels: LabelSet

    @property
    def label(self) -> Label:
        return only_label(self.labels)


@dataclass(frozen=True)
class Why:
    """Why an item was found, whatever the ranking.

    ``same_class`` is the probability that query and item have the same class. ``margin`` (−1 to 1) is how far
    the query's margins agree with the item's bits. ``vector`` is the cosine of the centred vectors.
    """

    same_class: float
    margin: float
    vector: float


@dataclass(frozen=True)
class Hit(Labelled):
    """An item that was found. ``distance`` is the Hamming distance; a larger ``score`` is better.

    ``label`` is its label if it has exactly one, otherwise None.
    """

    id: Id
    labels: LabelSet
    name: str
    distance: int
    score: float
    code: Code
    why: Why = field(compare=False)  # its last digits depend on the order of sums
    columns: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer(Answered):
    """The hits of a query, best first, with the model version and the ranking.

    ``remark`` says if the query looks like none of the classes.
    """

    version: int
    rank: str
    query_code: Code
    hits: list[Hit]
    remark: str | None = None
    _thumbnail: Callable[[Id], bytes | None] = field(
        repr=False, compare=False, default=lambda _: None, metadata=STAYS_HERE
    )

    def _repr_html_(self) -> str:
        from sihash.pages import render

        return render("answer.html", answer=self, hits=[(hit, self._thumbnail(hit.id)) for hit in self.hits])

    def to_pandas(self) -> Any:
        """The hits as a DataFrame; `Database.search` returns answers that have this for all of them."""
        from sihash.database.result_tables import Answers

        return Answers([self]).to_pandas()


@dataclass(frozen=True)
class Confusion:
    """``n`` queries of a class found an item of the class ``label`` first; ``items`` are some of them."""

    label: Label
    n: int
    items: list[Id]


@dataclass(frozen=True)
class ClassEvaluation:
    """Means over the queries of one class, which has ``n_items`` items; ``confused`` is what their first hits
    were instead, most often first.
    """

    label: Label
    n_queries: int
    p_at_1: float
    p_at_10: float
    mAP: float
    n_items: int = 0
    confused: list[Confusion] = field(default_factory=list)


@dataclass(frozen=True, repr=False)
class Evaluation(Shortened):
    """How well searches answer: how often the first hit is right, the share among the first ten, and mAP.

    ``note`` says where the queries come from, or is empty.
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
        """The classes with the worst answers: by P@10, then mAP."""
        return sorted(self.classes, key=lambda each: (each.p_at_10, each.mAP, str(each.label)))[:n]

    def plot(self, axes: Any = None) -> Any:
        """Draw the quality of every class by its size, with matplotlib."""
        from sihash.database import plots

        return plots.draw_quality(self, axes)

    def plot_confused(self, axes: Any = None) -> Any:
        """Draw which classes are found in the place of others, with matplotlib."""
        from sihash.database import plots

        return plots.draw_confused(self, axes)


@dataclass(frozen=True)
class Classification:
    """The most probable class, ``label``, and the ``probabilities`` of all classes by label.

    ``labels`` is the prediction: that class, and where items have several labels all that are likely enough.
    """

    version: int
    label: Label
    probability: float
    probabilities: ByLabel
    labels: LabelSet = ()


@dataclass(frozen=True)
class Item(Labelled):
    """An item. ``path`` is where its file was when it was added, if it came from a folder.

    ``label`` is its label if it has exactly one, otherwise None. The service does not tell the ``path``.
    """

    id: Id
    labels: LabelSet
    name: str
    version: int
    sha256: str
    code: Code
    columns: dict[str, Value] = field(default_factory=dict)
    path: str | None = field(default=None, metadata=STAYS_HERE)


@dataclass(frozen=True)
class LabelConflict(Labelled):
    """An item whose content an earlier one has with different labels, ``kept``. An image is not added then;
    a vector is, as an item with its own labels.
    """

    name: str
    labels: LabelSet
    kept: LabelSet


@dataclass(frozen=True)
class JoinedLabels(Labelled):
    """Content that the source has twice with different labels: it became one item with the labels of both."""

    name: str
    labels: LabelSet


@dataclass(frozen=True, repr=False)
class AddReport(Shortened):
    """Ids of the added items, names of those already there (``skipped``), and files that could not be used.

    ``conflicts`` are items with a different label than an earlier one with the same content. ``joined`` are
    images that came twice in one source with different labels: the item has both. ``replaced`` are the added
    ids that replaced older items. ``repeated`` are added vectors, without ids of yours, that equal earlier
    ones. ``note`` says which columns of a table were taken for what.
    """

    version: int
    added: list[Id]
    skipped: list[str]
    rejected: list[Reject]
    replaced: list[Id] = field(default_factory=list)
    conflicts: list[LabelConflict] = field(default_factory=list)
    joined: list[JoinedLabels] = field(default_factory=list)
    repeated: list[Id] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True, repr=False)
class RemoveReport(Shortened):
    """Ids of the removed items. ``relabelled`` are items that lost the label of a removed class and stay."""

    version: int
    removed: list[Id]
    relabelled: list[Id] = field(default_factory=list)


@dataclass(frozen=True, repr=False)
class RelabelReport(Shortened, Labelled):
    """Ids of the items that got ``labels``, without those that already had exactly these.

    ``labels`` is empty if they got different ones.
    """

    version: int
    relabelled: list[Id]
    labels: LabelSet


@dataclass(frozen=True)
class UpdateReport:
    """What an update did. ``changed`` is False if there was nothing to learn from.

    ``compared`` holds mAP without the update (passive), with it (incremental), and from scratch if asked for.
    ``n_bits_trained`` hash functions changed; ``bits_changed`` is the share of bits with new values, measured
    on items. ``n_reencoded`` stored codes were rewritten. ``warnings`` say what is not good enough, and what
    to do.
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

    def plot(self, axes: Any = None) -> Any:
        """Draw mAP without the update and with it, with matplotlib."""
        from sihash.database import plots

        return plots.draw_update(self, axes)


@dataclass(frozen=True)
class UndoReport:
    """What was undone, and the version that searches use again."""

    version: int
    undone: str


@dataclass(frozen=True)
class CompactReport:
    """How many items were deleted for good, and the number of segments before and after.

    Removed items that the current model was learned from can be deleted only after the next update.
    """

    n_dropped: int
    segments_before: int
    segments_after: int


@dataclass(frozen=True, repr=False)
class MergeReport(Shortened):
    """How many items came from each database. ``skipped`` are ids of the second's that the first has too."""

    version: int
    n_first: int
    n_second: int
    skipped: list[Id]


@dataclass(frozen=True)
class Version:
    """A model version: how and when it was learned, from how many rows, and whether searches use it.

    ``undone`` says that it was undone. ``seconds`` are those of its phases, ``compared`` its mAP and that of
    the version before on the same items, as in `UpdateReport`.
    """

    number: int
    strategy: str
    at: str
    n_training: int
    current: bool
    undone: bool
    seconds: dict[str, float] = field(default_factory=dict)
    compared: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Bits:
    """How the bits are used: ``balance`` (n_bits,) is the share of items in which each is +1; ``margins``
    (n_classes × n_bits) the mean signed score of each class, in the order of ``classes``.
    """

    version: int
    balance: Numbers
    classes: list[Label]
    margins: Numbers


@dataclass(frozen=True)
class FileProblem:
    """A problem with a file of the database."""

    file: str
    reason: str
