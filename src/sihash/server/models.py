"""What only HTTP has: requests, and answers that are not in `sihash.database.answers`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, TypeAdapter

from sihash.database.answers import ClassEvaluation, Item, Label, Rank, Value, Version

Strategy = Literal["incremental", "relearn"]

MAX_ID = 2**63 - 1
MAX_RESULTS = 1000
MAX_BATCH_ITEMS = 1000
MAX_WIDTH = 65_536  # numbers in a vector
MAX_LABELS = 1000  # of an item, or in a filter

# JSON knows one kind of number: 17.0 is 17. Descriptions round bounds, these to what still fits.
Number = Annotated[
    int,
    Field(strict=True, ge=-MAX_ID - 1, le=MAX_ID),
    BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value),
    Field(json_schema_extra={"minimum": -MAX_ID + 1023, "maximum": MAX_ID - 1023}),
]
# "." and ".." are taken out of addresses by browsers; no text of ours holds NUL.
IdText = Annotated[
    str,
    Field(
        strict=True,
        min_length=1,
        max_length=1000,
        json_schema_extra={"pattern": r"^(?!\.{1,2}$)[^\x00\uFFFE\uFFFF]+$"},
    ),
]
Id = IdText | Number
ColumnName = Annotated[str, Field(min_length=1, max_length=1000)]
WhereText = Annotated[str, Field(min_length=1, max_length=2000)]
LabelText = Annotated[str, Field(min_length=1, max_length=1000)]
LabelTexts = Annotated[list[LabelText], Field(max_length=MAX_LABELS)]
# In requests: one label, or a list of labels; an empty list is none.
OneOrSeveral = Annotated[
    Annotated[LabelText, Tag("text")] | Annotated[LabelTexts, Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, list) else "text"),
]
Name = Annotated[str, Field(min_length=1, max_length=500)]
LARGEST = 1e18  # of a vector: the squares of larger ones leave the numbers that vectors are kept in
Vector = Annotated[
    list[Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-LARGEST, le=LARGEST)]],
    Field(min_length=1, max_length=MAX_WIDTH),
]


# Requests.


class Request(BaseModel):
    """No other fields are allowed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SearchOptions(Request):
    """What to search for. In a URL, ``classes`` is ``class``, repeated for each."""

    k: int = Field(default=10, ge=1, le=MAX_RESULTS, description="Maximum number of results.")
    radius: int | None = Field(
        default=None, ge=0, le=4096, description="Only items at most this many bits away."
    )
    rank: Rank | None = Field(
        default=None, description="How to order the hits. Default: that of the database."
    )
    classes: list[LabelText] = Field(
        default=[],
        max_length=MAX_LABELS,
        examples=[["cat"]],
        description="Only items that have one of these labels.",
    )
    where: WhereText | None = Field(
        default=None,
        examples=["price < 20 and colour = 'red'"],
        description="Only items that match these conditions on columns.",
    )
    before_update: bool = Field(
        default=False, description="Search the collection as it was before the last update."
    )


class VectorSearch(SearchOptions):
    """A search by a vector, as long as those in the database."""

    vector: Vector = Field(examples=[[0.0, 0.5, 1.0, 0.25]])


class VectorQuery(Request):
    vector: Vector = Field(examples=[[0.0, 0.5, 1.0, 0.25]])


class BatchItem(Request):
    """An item to add: an image file in Base64 or a vector, with its label, name, id and columns.

    ``label`` is one label, or a list of several; null or an empty list means none.
    """

    image: str | None = Field(default=None, examples=["iVBORw0KGgo…"])
    vector: Vector | None = None
    label: OneOrSeveral | None = Field(default=None, examples=["cat", ["cat", "asleep"]])
    name: Name | None = Field(default=None, examples=["cat-17.jpg"])
    id: Id | None = Field(default=None, examples=["sku-17"])
    columns: dict[ColumnName, Value | None] = Field(
        default={}, max_length=1000, examples=[{"price": 19.5, "colour": "red"}]
    )


class Batch(Request):
    """Items of one kind: all images or all vectors, all with an id or none, a label each or a list each.

    ``replace`` allows items to replace those with the same ids.
    """

    replace: bool = False
    items: list[BatchItem] = Field(min_length=1, max_length=MAX_BATCH_ITEMS)


class Ids(Request):
    ids: list[Id] = Field(min_length=1, max_length=100_000, examples=[["cat/17.jpg", 23]])


class Relabelling(Ids):
    """Items and the label, or the list of labels, that replaces all of theirs.

    Null or an empty list removes them.
    """

    label: OneOrSeveral | None = Field(examples=["cat", ["cat", "asleep"]])


class Relabellings(Request):
    """Several relabellings as one change, which one undo takes back. Each item comes once."""

    changes: list[Relabelling] = Field(min_length=1, max_length=10_000)


class ClassRelabelling(Request):
    """Classes and the label, or the list of labels, that replaces them in their items.

    Other labels of these items stay. Null or an empty list removes the labels of these classes.
    """

    classes: list[LabelText] = Field(min_length=1, max_length=MAX_LABELS, examples=[["kitten"]])
    label: OneOrSeveral | None = Field(examples=["cat", ["cat", "young"]])


class UpdateOrder(Request):
    """``reencode`` also encodes items with older codes; ``compare`` also learns from scratch, to measure."""

    strategy: Strategy = "incremental"
    reencode: bool = False
    compare: bool = False


# Answers.


@dataclass(frozen=True)
class ErrorAnswer:
    """Every error is one sentence."""

    detail: str


@dataclass(frozen=True)
class ItemsPage:
    version: int
    items: list[Item]


@dataclass(frozen=True)
class IdsAnswer:
    version: int
    ids: list[Id]


@dataclass(frozen=True)
class MapAnswer:
    """Items in the plane: ``x`` and ``y`` run from 0 to 65,535; items that are alike lie together.

    ``classes`` are places in ``labels``, −1 for an item without a label; of several labels it is the first.
    ``n_items`` counts all items, of which these may be a sample.
    """

    version: int
    n_items: int
    ids: list[Id]
    x: list[int]
    y: list[int]
    classes: list[int]
    labels: list[Label]


@dataclass(frozen=True)
class ClassCount:
    """How many items have a label; ``n_only`` have no other, and are removed with the class."""

    label: Label
    n_items: int
    n_only: int


@dataclass(frozen=True)
class InfoAnswer:
    """What the database holds; ``n_waiting`` changes wait for the next update, ``rank`` is the default.

    An item counts in the class of each of its labels; ``n_several`` items have more than one.

    ``thumbnails`` says whether small pictures are stored, ``read_only`` whether the service refuses to
    change anything; ``columns`` are the kinds of columns by name:
    "number", "text", "true or false". ``title`` is the column that the page shows as the title of an item.
    ``about_features`` is a line on what describes images, its origin and licence.
    """

    name: str
    version: int
    n_items: int
    n_several: int
    n_bits: int
    holds_images: bool
    thumbnails: bool
    read_only: bool
    width: int
    features: str
    about_features: str
    index: str
    ranks: list[str]
    rank: str
    classes: list[ClassCount]
    columns: dict[str, str]
    title: str | None
    n_waiting: int


@dataclass(frozen=True)
class ComparisonRow:
    """A method: bytes per item, quality, milliseconds per query, its lead over the first (low, high).

    As `sihash.evaluation.AlternativeScore` has it; a client does without that package.
    """

    name: str
    bytes_per_item: int
    p_at_1: float
    p_at_10: float
    map: float
    ms_per_query: float
    lead_at_1: tuple[float, float] | None
    lead_at_10: tuple[float, float] | None


@dataclass(frozen=True)
class ComparisonAnswer:
    """The database (first of ``rows``) compared with other methods; ``advice`` is one sentence.

    ``skipped`` are the reasons why methods are missing. ``note`` says where the queries come from, or is
    empty. ``classes`` are the scores of the database by class.
    """

    version: int
    rows: list[ComparisonRow]
    skipped: dict[str, str]
    n_items: int
    n_queries: int
    n_left_out: int
    note: str
    advice: str
    classes: list[ClassEvaluation]


@dataclass(frozen=True)
class UpdateState:
    """Progress of an update: ``share`` runs from 0 to 1; ``scores`` are mAP by strategy when it is done."""

    state: Literal["idle", "running", "done", "failed"]
    strategy: Strategy | None = None
    compare: bool = False
    phase: str = ""
    share: float = 0.0
    started: float | None = None
    seconds: float = 0.0
    seconds_left: float | None = None
    version: int | None = None
    scores: dict[str, float | None] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    error: str | None = None


@dataclass(frozen=True)
class VersionsAnswer:
    """The model versions, oldest first, and whether there is a change to undo."""

    undoable: bool
    versions: list[Version]


@dataclass(frozen=True)
class Health:
    status: Literal["ok"]


@dataclass(frozen=True)
class Ready:
    status: Literal["ready"]
    version: int


UPDATE_STATE = TypeAdapter(UpdateState)
