"""Requests and answers of the service, shared by the routes, the OpenAPI description and the client."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

Label = str | int | None
Labels = list[str | int]  # in answers; beside them ``label``, the one where there is exactly one, else null
Strategy = Literal["incremental", "relearn"]
FindingKind = Literal["wrong label", "conflict", "near-duplicate", "confused classes", "small class"]
Rank = Literal["combined", "label", "vector", "asymmetric", "hamming"]

MAX_ID = 2**63 - 1
MAX_RESULTS = 1000
MAX_BATCH_ITEMS = 1000
MAX_WIDTH = 65_536  # numbers in a vector
MAX_LABELS = 1000  # of an item, or in a filter

Number = Annotated[int, Field(strict=True, ge=-MAX_ID - 1, le=MAX_ID)]
IdText = Annotated[str, Field(strict=True, min_length=1, max_length=1000)]
Id = IdText | Number
Value = str | int | float | bool
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
Vector = Annotated[
    list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1, max_length=MAX_WIDTH)
]


class Model(BaseModel):
    """No other fields are allowed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ErrorAnswer(Model):
    """Every error is one sentence."""

    detail: str


# Searching.


class Why(Model):
    """Why an item was found: the probability that query and item have the same class (a label in common); how
    far the query's margins agree with the item's bits, from −1 to 1; and the cosine of the vectors.
    """

    same_class: float
    margin: float
    vector: float


class Hit(Model):
    """An item that was found: ``distance`` in bits, ``score`` of the ranking, ``code`` in hex.

    ``id`` is the user's, or a number; ``label`` is the one of the ``labels`` if there is exactly one, else
    null; ``columns`` are other facts about the item.
    """

    id: str | int
    label: Label
    labels: Labels
    name: str
    distance: int
    score: float
    code: str
    why: Why
    columns: dict[str, Value]


class SearchAnswer(Model):
    """The hits of a query, best first, and the model ``version`` that found them.

    ``remark`` says if the query looks like none of the classes.
    """

    version: int
    rank: str
    query_code: str
    remark: str | None = None
    hits: list[Hit]

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "version": 3,
                    "rank": "combined",
                    "query_code": "5a01ff3c",
                    "remark": None,
                    "hits": [
                        {
                            "id": "cat/17.jpg",
                            "label": "cat",
                            "labels": ["cat"],
                            "name": "cat/17.jpg",
                            "distance": 1,
                            "score": 0.72,
                            "code": "5b01ff3c",
                            "why": {"same_class": 0.93, "margin": 0.88, "vector": 0.79},
                            "columns": {"price": 19.5},
                        }
                    ],
                }
            ]
        },
    )


class SearchOptions(Model):
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


class VectorSearch(SearchOptions):
    """A search by a vector, as long as those in the database."""

    vector: Vector = Field(examples=[[0.0, 0.5, 1.0, 0.25]])


class VectorQuery(Model):
    vector: Vector = Field(examples=[[0.0, 0.5, 1.0, 0.25]])


class ClassProbability(Model):
    label: Label
    probability: float


class ClassifyAnswer(Model):
    """The most likely class, ``label``, and the probabilities of all, largest first.

    ``labels`` are those to answer: that one, and where items have several labels all that are likely enough.
    """

    version: int
    label: Label
    labels: Labels
    probability: float
    probabilities: list[ClassProbability]


# The collection.


class ItemModel(Model):
    """An item; ``label`` is the one of the ``labels`` if there is exactly one, else null."""

    id: str | int
    label: Label
    labels: Labels
    name: str
    version: int
    sha256: str
    code: str
    columns: dict[str, Value]


class ItemsPage(Model):
    version: int
    items: list[ItemModel]


class ClassCount(Model):
    """How many items have a label; ``n_only`` have no other, and are removed with the class."""

    label: Label
    n_items: int
    n_only: int


class InfoAnswer(Model):
    """What the database holds; ``n_waiting`` changes wait for the next update, ``rank`` is the default.

    An item counts in the class of each of its labels; ``n_several`` items have more than one.

    ``thumbnails`` says whether small pictures are stored; ``columns`` are the kinds of columns by name:
    "number", "text", "true or false".
    """

    name: str
    version: int
    n_items: int
    n_several: int
    n_bits: int
    holds_images: bool
    thumbnails: bool
    width: int
    features: str
    index: str
    ranks: list[str]
    rank: str
    classes: list[ClassCount]
    columns: dict[str, str]
    n_waiting: int


class ClassMargins(Model):
    """Mean margin of a class for each bit: its sign is the side of the bit that the class is on."""

    label: Label
    margins: list[float]


class BitsAnswer(Model):
    """How the bits are used: ``balance`` is the share of items with each bit set."""

    version: int
    balance: list[float]
    classes: list[ClassMargins]


class AlternativeModel(Model):
    """A method: bytes per item, quality, milliseconds per query, its lead over the first (low, high)."""

    name: str
    bytes_per_item: int
    p_at_1: float
    p_at_10: float
    map: float
    ms_per_query: float
    lead_at_1: tuple[float, float] | None
    lead_at_10: tuple[float, float] | None


class SkippedAlternative(Model):
    name: str
    reason: str


class ComparisonAnswer(Model):
    """The database (first of ``rows``) compared with other methods; ``advice`` is one sentence.

    ``note`` says where the queries come from, or is empty.
    """

    version: int
    rows: list[AlternativeModel]
    skipped: list[SkippedAlternative]
    n_items: int
    n_queries: int
    n_left_out: int
    note: str
    advice: str


class FindingItem(Model):
    id: str | int
    label: Label
    labels: Labels
    name: str
    code: str


class FindingModel(Model):
    """A label that looks wrong: why, the items concerned, and how to fix it.

    ``labels`` are those that the first item should have, if known; ``remove`` says that it should be removed
    instead.
    """

    kind: FindingKind
    certainty: float
    reason: str
    items: list[FindingItem]
    label: Label
    labels: Labels
    remove: bool
    command: str


class FoundCount(Model):
    kind: FindingKind
    title: str
    n: int


class DoctorAnswer(Model):
    """Findings by kind, the most certain first; ``found`` counts all, listed or not.

    ``note`` says what was examined.
    """

    version: int
    found: list[FoundCount]
    findings: list[FindingModel]
    note: str


# Changes.


class BatchItem(Model):
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


class Batch(Model):
    """Items of one kind: all images or all vectors, all with an id or none, a label each or a list each.

    ``replace`` allows items to replace those with the same ids.
    """

    replace: bool = False
    items: list[BatchItem] = Field(min_length=1, max_length=MAX_BATCH_ITEMS)


class Ids(Model):
    ids: list[Id] = Field(min_length=1, max_length=100_000, examples=[["cat/17.jpg", 23]])


class Relabelling(Ids):
    """Items and the label, or the list of labels, that replaces all of theirs.

    Null or an empty list removes them.
    """

    label: OneOrSeveral | None = Field(examples=["cat", ["cat", "asleep"]])


class ClassRelabelling(Model):
    """Classes and the label, or the list of labels, that replaces them in their items.

    Other labels of these items stay. Null or an empty list removes the labels of these classes.
    """

    classes: list[LabelText] = Field(min_length=1, max_length=MAX_LABELS, examples=[["kitten"]])
    label: OneOrSeveral | None = Field(examples=["cat", ["cat", "young"]])


class Rejected(Model):
    name: str
    reason: str


class LabelConflict(Model):
    """An item whose content an earlier one has with other labels, ``kept``. Vectors are added anyway."""

    name: str
    labels: Labels
    kept: Labels


class JoinedLabels(Model):
    """An item that was not added: the request has its content twice. The item has the ``labels`` of both."""

    name: str
    labels: Labels


class AddAnswer(Model):
    """Ids of the added items, names of items already there (``skipped``), and items that could not be used.
    ``replaced`` are added ids that replaced others, ``repeated`` those of vectors without ids that equal
    earlier ones. ``conflicts`` and ``joined`` are items with other labels than earlier ones of their content.
    """

    version: int
    added: list[str | int]
    replaced: list[str | int] = []
    skipped: list[str] = []
    rejected: list[Rejected] = []
    conflicts: list[LabelConflict] = []
    joined: list[JoinedLabels] = []
    repeated: list[str | int] = []


class RemoveAnswer(Model):
    """Ids of the removed items, and, for a class, of those that lost its label and have another."""

    version: int
    removed: list[str | int]
    relabelled: list[str | int] = []


class RelabelAnswer(Model):
    """Ids of the items whose labels changed, and the new labels."""

    version: int
    relabelled: list[Id]
    label: Label
    labels: Labels


class UndoAnswer(Model):
    """What was undone, and the version that searches use again."""

    version: int
    undone: str


class UpdateOrder(Model):
    """``reencode`` also encodes items with older codes; ``compare`` also learns from scratch, to measure."""

    strategy: Strategy = "incremental"
    reencode: bool = False
    compare: bool = False


class UpdateState(Model):
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
    scores: dict[str, float | None] = {}
    warnings: list[str] = []
    error: str | None = None


class VersionModel(Model):
    version: int
    strategy: str
    created: str
    n_training: int
    current: bool
    undone: bool
    scores: dict[str, float | None]


class VersionsAnswer(Model):
    current: int
    undoable: bool
    versions: list[VersionModel]


class Health(Model):
    status: Literal["ok"]


class Ready(Model):
    status: Literal["ready"]
    version: int


# From what the database returns to these.


def search_answer(answer: Any) -> dict[str, Any]:
    """A `SearchAnswer` in plain types: building models is too slow for the most used route."""
    return {
        "version": answer.version,
        "rank": answer.rank,
        "query_code": answer.query_code.hex(),
        "remark": answer.remark,
        "hits": [
            {
                "id": hit.id,
                "label": hit.label,
                "labels": hit.labels,
                "name": hit.name,
                "distance": hit.distance,
                "score": hit.score,
                "code": hit.code.hex(),
                "why": {
                    "same_class": round(hit.why.same_class, 4),
                    "margin": round(hit.why.margin, 4),
                    "vector": round(hit.why.vector, 4),
                },
                "columns": hit.columns,
            }
            for hit in answer.hits
        ],
    }


def comparison_answer(version: int, found: Any) -> ComparisonAnswer:
    return ComparisonAnswer(
        version=version,
        rows=[AlternativeModel(**vars(row)) for row in found.rows],
        skipped=[SkippedAlternative(name=name, reason=reason) for name, reason in found.skipped.items()],
        n_items=found.n_items,
        n_queries=found.n_queries,
        n_left_out=found.n_left_out,
        note=found.note,
        advice=found.advice(),
    )


def doctor_answer(found: Any, titles: dict[FindingKind, str], name: str) -> DoctorAnswer:
    """``name`` is the database in the suggested commands."""
    return DoctorAnswer(
        version=found.version,
        found=[FoundCount(kind=kind, title=titles[kind], n=n) for kind, n in found.found.items()],
        findings=[
            FindingModel(
                kind=each.kind,
                certainty=each.certainty,
                reason=each.reason,
                items=[
                    FindingItem(
                        id=item.id,
                        label=item.label,
                        labels=list(item.labels),
                        name=item.name,
                        code=item.code.hex(),
                    )
                    for item in each.items
                ],
                label=each.label,
                labels=list(each.labels),
                remove=each.kind in ("conflict", "near-duplicate") and not each.labels,
                command=each.command(name),
            )
            for each in found.findings
        ],
        note=found.note,
    )


def version_models(versions: list[Any], undoable: bool) -> VersionsAnswer:
    return VersionsAnswer(
        current=next(version.number for version in versions if version.current),
        undoable=undoable,
        versions=[
            VersionModel(
                version=version.number,
                strategy=version.strategy,
                created=version.at,
                n_training=version.n_training,
                current=version.current,
                undone=version.undone,
                scores=version.details.get("compared", {}),
            )
            for version in versions
        ],
    )
