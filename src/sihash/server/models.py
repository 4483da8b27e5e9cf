"""What goes over the wire, in one place for the service, its description and the client."""

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
    """Fields are what they say and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ErrorAnswer(Model):
    """Every error looks like this: one sentence."""

    detail: str


# Searching.


class Why(Model):
    """Why an item was found: the probability that query and item are of one class (have a label in common);
    from −1 to 1, how far the query's margins agree with the item's bits, and the cosine between the vectors.
    """

    same_class: float
    margin: float
    vector: float


class Hit(Model):
    """An item that was found: ``distance`` in bits, ``score`` of the ranking, ``code`` in hex.

    ``id`` is the user's own, or a number; ``label`` is the one of the ``labels`` where there is exactly one,
    else null; ``columns`` are what else is known of the item.
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
    """What a query found, best first. ``version`` is the model version by which all of it was found.

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
    """What to look for; in an address ``classes`` is ``class``, once for each."""

    k: int = Field(default=10, ge=1, le=MAX_RESULTS, description="Results at most.")
    radius: int | None = Field(
        default=None, ge=0, le=4096, description="Of these, only items at most this many bits away."
    )
    rank: Rank | None = Field(default=None, description="How to order; the database has a default.")
    classes: list[LabelText] = Field(
        default=[],
        max_length=MAX_LABELS,
        examples=[["cat"]],
        description="Only items that have one of these labels.",
    )
    where: WhereText | None = Field(
        default=None,
        examples=["price < 20 and colour = 'red'"],
        description="Only items whose columns meet these conditions.",
    )


class VectorSearch(SearchOptions):
    """A search by a vector, of the width that the database has."""

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
    """An item; ``label`` is the one of the ``labels`` where there is exactly one, else null."""

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
    """How many items have a label; ``n_only`` of them have no other, and go if the class is removed."""

    label: Label
    n_items: int
    n_only: int


class InfoAnswer(Model):
    """What the database holds; ``n_waiting`` changes wait for the next update, ``rank`` is the default.

    An item counts in each class that it has a label of; ``n_several`` items have more than one.

    ``thumbnails`` says whether small pictures of images are kept; ``columns`` are the kinds of columns by
    name: "number", "text", "true or false".
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
    """Mean margin of a class for each bit: its sign says on which side of the bit the class lies."""

    label: Label
    margins: list[float]


class BitsAnswer(Model):
    """How the bits are used: ``balance`` is the share of items in which each is set."""

    version: int
    balance: list[float]
    classes: list[ClassMargins]


class AlternativeModel(Model):
    """A way to search: bytes that it keeps of an item, how well it answers, milliseconds of a query."""

    name: str
    bytes_per_item: int
    p_at_1: float
    p_at_10: float
    map: float
    ms_per_query: float


class SkippedAlternative(Model):
    name: str
    reason: str


class ComparisonAnswer(Model):
    """The database, in the first of ``rows``, beside what one would otherwise take; ``advice`` is a sentence.

    ``note`` is what to know before believing the figures, or empty.
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
    """Something about labels that looks wrong: why, the items that it is about, and what mends it.

    ``labels`` are those that the first of the items should have, where that is known; ``remove`` says that
    this item is to go instead.
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
    """Findings by kind, of each kind the most certain first; ``found`` counts those that are not listed, too.

    ``note`` says what was examined, and what to know before believing it.
    """

    version: int
    found: list[FoundCount]
    findings: list[FindingModel]
    note: str


# Changes.


class BatchItem(Model):
    """An item to be added: an image file in Base64, or a vector, and what is known of it.

    ``label`` is its label, or a list of its labels; null or an empty list means that it has none.
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

    ``replace`` lets items take the place of those that have their ids.
    """

    replace: bool = False
    items: list[BatchItem] = Field(min_length=1, max_length=MAX_BATCH_ITEMS)


class Ids(Model):
    ids: list[Id] = Field(min_length=1, max_length=100_000, examples=[["cat/17.jpg", 23]])


class Relabelling(Ids):
    """Items, and the label, or the list of labels, that they are to have in the place of all that they have.

    Null or an empty list takes their labels away.
    """

    label: OneOrSeveral | None = Field(examples=["cat", ["cat", "asleep"]])


class ClassRelabelling(Model):
    """Classes whose items are to have another label, known or new, or several, in the place of theirs.

    Other labels of these items stay. Null or an empty list takes the labels of these classes away.
    """

    classes: list[LabelText] = Field(min_length=1, max_length=MAX_LABELS, examples=[["kitten"]])
    label: OneOrSeveral | None = Field(examples=["cat", ["cat", "young"]])


class Rejected(Model):
    name: str
    reason: str


class LabelConflict(Model):
    """What was not added, because its content is there already, with other labels: those are ``kept``."""

    name: str
    labels: Labels
    kept: Labels


class JoinedLabels(Model):
    """What was not added, because the request has its content twice; the item has ``labels`` of both."""

    name: str
    labels: Labels


class AddAnswer(Model):
    """Ids of what was added (``replaced``: in the place of others), names of what was there already, and what
    could not be used. ``conflicts`` and ``joined`` are those of the skipped whose labels differ.
    """

    version: int
    added: list[str | int]
    replaced: list[str | int] = []
    skipped: list[str] = []
    rejected: list[Rejected] = []
    conflicts: list[LabelConflict] = []
    joined: list[JoinedLabels] = []


class RemoveAnswer(Model):
    """Ids of the items that went, and, where a class did, of those that lost its label and have another."""

    version: int
    removed: list[str | int]
    relabelled: list[str | int] = []


class RelabelAnswer(Model):
    """Ids of the items whose labels have changed, and the labels that they were given."""

    version: int
    relabelled: list[Id]
    label: Label
    labels: Labels


class UndoAnswer(Model):
    """What was taken back, and the version in force again."""

    version: int
    undone: str


class UpdateOrder(Model):
    """``reencode`` then encodes items with older codes; ``compare`` also learns from scratch, to measure."""

    strategy: Strategy = "incremental"
    reencode: bool = False
    compare: bool = False


class UpdateState(Model):
    """How far an update is: ``share`` runs from 0 to 1, ``scores`` are mAP by strategy when it is done."""

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


# From the database's words to these.


def search_answer(answer: Any) -> dict[str, Any]:
    """A `SearchAnswer` as plain types: the route that is asked most has no time for models."""
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
    """``name`` is what the commands call the database."""
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
