"""`ImageDatabase`: a collection on disk that learns its codes, answers searches, and follows as it changes.

The work is done in the modules beside this one; here are the verbs.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np

from sihash._typing import Array
from sihash.checks import check_count
from sihash.database import (
    comparing,
    doctor,
    evaluating,
    exporting,
    inspecting,
    merging,
    originals,
    present,
    reencoding,
    searching,
    transactions,
    updating,
)
from sihash.database.answers import (
    AddReport,
    Answer,
    Classification,
    CompactReport,
    Evaluation,
    FileProblem,
    Id,
    Item,
    Label,
    LabelSet,
    MergeReport,
    RelabelReport,
    RemoveReport,
    UndoReport,
    UpdateReport,
    Version,
)
from sihash.database.catalogue import refuse_missing
from sihash.database.errors import CorruptFile, DatabaseBusy, DatabaseError, NoSuchItem
from sihash.database.findings import Diagnosis
from sihash.database.ids import of_row, plain_id, written
from sihash.database.inspecting import Bits
from sihash.database.label_text import joined_labels
from sihash.database.progress import Progress, silent
from sihash.database.reader import Reader
from sihash.database.server_index import reach
from sihash.database.snapshot import Snapshot
from sihash.database.sources import Features, ImageSource, Nothing, open_source
from sihash.evaluation import AlternativeScore, Comparison
from sihash.features import extractor
from sihash.hashing.training_sample import DEFAULT_BUDGET, Budget, check_budget
from sihash.index import open_index
from sihash.labels import several

Result = TypeVar("Result")


class ImageDatabase:
    """A database on disk. Any number of processes and threads may read it; one at a time writes.

    Opening takes no lock. Every answer is of the state that the last finished operation left, of whichever
    process; a write while another process writes is a `DatabaseBusy` at once.

    Parameters
    ----------
    path : path
        A folder that `create` made.
    background : bool
        Load the model version in force at once, and a later one beside the searches, which go on with the
        one before until it is there, instead of each in the first search that needs it.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> from sihash.database import ImageDatabase
    >>> X, y = load_digits(return_X_y=True)
    >>> folder = tempfile.TemporaryDirectory()
    >>> db = ImageDatabase.create(folder.name + "/digits", X[:1000], y[:1000], n_bits=16, n_anchors=100)
    >>> len(db.search(X[1000:1002], k=5)[0].hits)
    5
    >>> report = db.add(X[1000:], y[1000:])
    >>> db.update().version
    2
    """

    def __init__(self, path: str | os.PathLike[str], *, background: bool = False) -> None:
        self.path = Path(path).expanduser().absolute()  # the current folder may change
        refuse_missing(self.path)
        self._reader = Reader(self.path, self._warm_up if background else None)
        if background:
            with suppress(DatabaseError):  # the first search will tell
                self._read(self._warm_up)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        source: Any,
        labels: Any = None,
        *,
        names: Sequence[str] | None = None,
        ids: Any = None,
        columns: Any = None,
        n_bits: int | None = None,
        n_anchors: int = 1000,
        features: str = "auto",
        feature_options: dict[str, Any] | None = None,
        index: str = "auto",
        thumbnails: bool = True,
        training_rows: Budget = DEFAULT_BUDGET,
        progress: Progress | None = None,
        **sih_params: Any,
    ) -> Self:
        """Make a database from a source and learn its hash functions.

        What was skipped and rejected on the way is in ``created_`` of the database returned.

        Parameters
        ----------
        path : path
            Where; a folder that is not there yet, or empty.
        source : path, name, array or list
            A folder, zip or tar of class folders; a vector file (npy, npz, Parquet, Arrow); a data set by its
            name; vectors (n × d); or a list of images (paths, file contents, uint8 arrays, Pillow images).
        labels : sequence, path or label, optional
            One an item, None for an item without; or a list of labels for each item; or an indicator matrix
            (n × number of labels); or a CSV or JSONL file with rows (file, label) (docs/labels.md).
        names : sequence of str, optional
            What the items are called; the default follows from the source.
        ids : sequence or str, optional
            The user's own ids, text or whole numbers, one an item; or the name of the column of the source
            that holds them. The default is a column ``id``, the paths of files in folders and archives, or
            the number of the item.
        columns : mapping, DataFrame or names, optional
            What else is known of the items: values by name. Or the names of the columns of the source to
            keep; the default is all.
        n_bits : int, optional
            Bits of a code; the default goes by the number of classes: 32 for ten, 64 for 200, 96 for 1,000.
        n_anchors, **sih_params
            Of `SIH`.
        features : "auto", "gist", "pixels" or "onnx:<file>"
            How images become vectors, with ``feature_options``; "auto" is gist.
        index : str
            As `sihash.index.open_index` knows it; "auto" scans all codes, and above two million takes FAISS.
        thumbnails : bool
            Whether small pictures are kept, to show answers with.
        training_rows : int or "all"
            Learn from so many items at most, near enough: a fair sample of every class. Creating and updating
            a large collection then cost what these rows cost.
        progress : callable
            Called with what is being done and how much of it is done, 0…1.
        """
        from sihash.hashing import SIH  # scikit-learn, which searches have no use for

        root = Path(path).expanduser().absolute()
        opened = open_source(source, labels, names, ids, columns)
        chosen = Features("none")
        if isinstance(opened, ImageSource):
            name, options = "gist" if features == "auto" else features, feature_options or {}
            settings = extractor(name, **options).settings
            chosen = Features(name, options, json.loads(json.dumps(settings)))
            opened.features, opened.thumbnails = chosen, thumbnails
        elif features not in ("auto", "none"):
            raise DatabaseError(f"The source holds vectors; features={features!r} are made from images.")
        if index.startswith("milvus+"):  # what there is not is refused before anything is read
            reach(index)
        else:
            open_index(index, n_bits or 32)
        sih_params.setdefault("random_state", 0)
        hasher = SIH(n_anchors=n_anchors, **sih_params)
        meta = {"features": vars(chosen), "index": index, "thumbnails": thumbnails}
        report = transactions.create(
            root, opened, hasher, n_bits, meta, check_budget(training_rows), progress or silent
        )
        database = cls(root)
        database.created_ = report
        return database

    @classmethod
    def merge(
        cls,
        path: str | os.PathLike[str],
        first: str | os.PathLike[str],
        second: str | os.PathLike[str],
        *,
        progress: Progress | None = None,
    ) -> Self:
        """Make a database at ``path`` with the items of two others that share a model, and open it.

        They do if one began as a copy of the other and neither was updated since. An item of the second
        that the first has, too (the same id, content, label and columns; without an id of its own, the same
        content), comes once. Two different items under one id are refused. Numbers of the second's items
        change. The report is ``merged_`` of what is returned.
        """
        root = Path(path).expanduser().absolute()
        with cls(first) as one, cls(second) as other:
            report = one._read(lambda a: other._read(lambda b: merging.merge(root, a, b, progress or silent)))
        database = cls(root)
        database.merged_ = report
        return database

    created_: AddReport
    merged_: MergeReport

    def close(self) -> None:
        """Let go of files; the database is not to be used afterwards."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path,)

    def __repr__(self) -> str:
        return f"ImageDatabase({str(self.path)!r})"

    def __len__(self) -> int:
        return self._read(lambda snapshot: snapshot.n_items)

    def _read(self, work: Callable[[Snapshot], Result]) -> Result:
        """``work`` on the database as it is now; again if files went meanwhile, or a copy was restored."""
        again = False
        while True:
            with self._reader.current() as snapshot:
                operation = snapshot.operation
                try:
                    if again:  # additions may come faster than it works: it keeps hold of all files
                        for segment in snapshot.places.segments:
                            segment.hold()
                    return work(snapshot)
                except (CorruptFile, DatabaseBusy):
                    again = True
                    catalogue = self._reader.catalogue
                    if catalogue is snapshot.catalogue and catalogue.last_operation() == operation:
                        raise

    @property
    def features(self) -> Features:
        """How images become vectors here."""
        return Features(**self._reader.catalogue.meta["features"])

    # Searching.

    def _vectors(self, queries: Any) -> Array:
        return searching.query_vectors(queries, lambda: self.features)

    def _warm_up(self, snapshot: Snapshot) -> None:
        """Make what the first search would have to make, by searching for an item."""
        some = snapshot.places.live_ids()[:1]
        if len(some):
            ask = searching.wanted(10, None, None, None)
            searching.answers(snapshot, snapshot.catalogue, snapshot.vectors(some), ask, self.thumbnail)

    def search(
        self,
        queries: Any,
        *,
        k: int | None = None,
        radius: int | None = None,
        rank: str | None = None,
        classes: Iterable[Any] | None = None,
        where: str | None = None,
    ) -> list[Answer]:
        """The best items for each query: ``k`` of them (10), or all within Hamming distance ``radius``.

        With both, the ``k`` best within the radius.

        ``queries`` are vectors (n × d), or images: paths, file contents, uint8 arrays, Pillow images.
        ``rank`` is "combined" (the default), "label", "vector", "asymmetric" or "hamming"
        (`sihash.ranking.ranker`). The score of a hit is that of the ranking: larger is better, and scores of
        one query can be compared with each other.
        ``classes`` restricts the answers to items that have one of these labels, ``where`` to those whose
        columns meet conditions, as in ``"price < 20 and colour = 'red'"`` (`sihash.database.where`).
        """
        X = self._vectors(queries)
        ask = searching.wanted(k, radius, rank, classes, where)

        def work(snapshot: Snapshot) -> list[Answer]:
            fitting = searching.fitting(snapshot, X)
            return searching.answers(snapshot, snapshot.catalogue, fitting, ask, self.thumbnail)

        return self._read(work)

    def search_ids(
        self,
        ids: Iterable[Id],
        *,
        k: int | None = None,
        radius: int | None = None,
        rank: str | None = None,
        classes: Iterable[Any] | None = None,
        where: str | None = None,
    ) -> list[Answer]:
        """As `search`, with items of the database as the queries; each is left out of its own answer."""
        numbers = list(ids)
        ask = searching.wanted(k, radius, rank, classes, where)

        def work(snapshot: Snapshot) -> list[Answer]:
            own = snapshot.living(numbers)
            X = snapshot.vectors(own)
            return searching.answers(snapshot, snapshot.catalogue, X, ask, self.thumbnail, own)

        return self._read(work)

    def classify(self, queries: Any) -> list[Classification]:
        """The class that the margins of each query are likeliest to come from, with the probabilities of all.

        Where items have several labels, each label has a probability of its own, and ``labels`` are those
        that are likely enough.
        """
        X = self._vectors(queries)

        def work(snapshot: Snapshot) -> list[Classification]:
            hasher, rows = snapshot.hasher, searching.fitting(snapshot, X)
            labels = hasher.classes_.tolist()
            out = []
            for row, own in zip(hasher.predict_proba(rows), hasher.predict(rows), strict=True):
                best = int(np.argmax(row))
                every = dict(zip(labels, row.tolist(), strict=True))
                told = labels[best], float(row[best]), every, joined_labels(own)
                out.append(Classification(snapshot.version, *told))
            return out

        return self._read(work)

    # Changing.

    def add(
        self,
        source: Any,
        labels: Any = None,
        *,
        names: Sequence[str] | None = None,
        ids: Any = None,
        columns: Any = None,
        replace: bool = False,
        prefix: str = "",
        progress: Progress | None = None,
    ) -> AddReport:
        """Add items; they can be found when this returns, and the next update learns from their labels.

        Content that is there already is skipped, what cannot be read is rejected; both are in the report.
        ``ids`` and ``columns`` are as in `create`. What comes under the id of an item that is there is
        skipped if all of it is the same; else it is refused, or takes the item's place with ``replace``.
        ``prefix`` is put before paths that are ids, where a second folder has files of the same names.
        """
        opened = open_source(source, labels, names, ids, columns, replace, prefix)
        return transactions.add(self._reader, opened, progress or silent)

    def remove(self, ids: Iterable[Id]) -> RemoveReport:
        """Remove items; no search in any process finds them once this returns."""
        return transactions.remove(self._reader, list(ids))

    def remove_classes(self, labels: Iterable[Any]) -> RemoveReport:
        """Remove some classes, or one: an item loses that label, and goes when it has no other."""
        return transactions.remove_classes(self._reader, several(labels))

    def relabel(self, ids: Iterable[Id], label: Any) -> RelabelReport:
        """Give items another label, known or new, or a list of labels; None takes all away. All or none.

        Searches, filters and evaluations go by it at once; the next update learns from it.
        """
        return transactions.relabel(self._reader, list(ids), label)

    def relabel_classes(self, labels: Iterable[Any], label: Any) -> RelabelReport:
        """As `relabel`, all items of some classes: several classes become one, or one gets another name.

        Other labels of these items stay.
        """
        return transactions.relabel(self._reader, None, label, several(labels))

    def update(
        self,
        strategy: Literal["incremental", "relearn"] = "incremental",
        *,
        reencode: bool = False,
        compare: bool = False,
        progress: Progress | None = None,
    ) -> UpdateReport:
        """Learn the hash functions of the collection as it is now; searches go on, then switch at once.

        Classes keep their code words, so items keep their codes: no item is encoded again, and cost goes by
        the change and by ``training_rows``. ``strategy="relearn"`` draws words again, from scratch, and
        encodes everything. ``reencode`` encodes items whose codes are older than the hash functions; it can
        be stopped at any moment and goes on where it was. ``compare`` also learns from scratch, to tell the
        mAP of the three ways to live with a change.
        """
        report = updating.update_database(self.path, strategy, compare, progress or silent)
        if reencode:
            report = reencoding.reencode(self.path, report, progress or silent)
        return report

    def undo(self) -> UndoReport:
        """Take back the last add, remove, relabel or update that was not taken back yet."""
        return transactions.undo(self._reader)

    def compact(self) -> CompactReport:
        """Free what removed items and earlier versions take; there is no undoing past it."""
        return transactions.compact(self._reader)

    # Looking.

    @property
    def version(self) -> int:
        """The model version that searches use."""
        return self._read(lambda snapshot: snapshot.version)

    def versions(self) -> list[Version]:
        """All model versions in the order in which they were learned, the undone ones too."""

        def work(snapshot: Snapshot) -> list[Version]:
            learned = snapshot.log.of_kind("create", "update")
            about = [(o, o.details["strategy"], o.details["n_training"]) for o in learned]
            return [
                Version(
                    number=o.version,
                    strategy=how,
                    at=o.at,
                    n_training=n,
                    current=o.version == snapshot.version,
                    undone=o.number in snapshot.log.undone,
                    details=o.details,
                )
                for o, how, n in about
            ]

        return self._read(work)

    def items(
        self,
        offset: int = 0,
        limit: int = 100,
        classes: Iterable[Any] | None = None,
        where: str | None = None,
    ) -> list[Item]:
        """Items in the order in which they came, of some classes, or whose columns meet conditions."""
        labels = None if classes is None else list(classes)

        def work(snapshot: Snapshot) -> list[Item]:
            some = searching.numbers_allowed(snapshot, labels, where)
            numbers = snapshot.places.live_ids() if some is None else some
            return self._items(snapshot, numbers[offset : offset + limit])

        return self._read(work)

    def sample(
        self, n: int, classes: Iterable[Any] | None = None, seed: int = 0, where: str | None = None
    ) -> list[Item]:
        """Some items from as many classes as possible, mixed; another ``seed`` gives others.

        Of some classes, or whose columns meet conditions, as in `items`.
        """
        labels = None if classes is None else list(classes)

        def work(snapshot: Snapshot) -> list[Item]:
            own = searching.numbers_allowed(snapshot, labels, where)
            chosen = inspecting.sample(snapshot, n, own, seed)
            ordered = np.sort(chosen)
            found = dict(zip(ordered.tolist(), self._items(snapshot, ordered), strict=True))
            return [found[number] for number in chosen.tolist()]

        return self._read(work)

    def original(self, id: Id) -> bytes | None:
        """The image file that an item was made of, if it came from a folder and still lies there unchanged.

        Nothing else is ever handed out: the bytes must have the SHA-256 of what was added.
        """
        item = self.item(id)
        return None if item.path is None else originals.unchanged(item.path, item.sha256)

    def id_of(self, text: str) -> Id:
        """The id that is meant by text on a command line or in an address: 17 by "17", if that is a number
        here. The text itself if no item has such an id.
        """

        def work(snapshot: Snapshot) -> Id:
            rows = present.rows_under(snapshot.catalogue, snapshot.places, [plain_id(text)])
            return written(text, [of_row(row[0], row[5]) for row in rows.values()])

        return self._read(work)

    def item(self, id: Id) -> Item:
        """One item; `NoSuchItem` if it is not there."""
        return self._read(lambda snapshot: self._items(snapshot, snapshot.living([id]))[0])

    def _items(self, snapshot: Snapshot, numbers: Array) -> list[Item]:
        rows = list(snapshot.catalogue.rows_in("items", "id", numbers.tolist()))
        if len(rows) < len(numbers):
            raise snapshot.catalogue.corrupt("items are missing")
        out = []
        codes, columns = snapshot.codes(numbers), snapshot.places.columns(numbers)
        labels = snapshot.labels(numbers)
        for row, label, code, said in zip(rows, labels, codes, columns, strict=True):
            number, operation, _, name, content, given, _ = row
            about = snapshot.log.operations[operation]
            place = about.details["place"]
            path = os.path.join(place, name) if place else None
            own = of_row(number, given)
            out.append(Item(own, label, name, path, about.version, content.hex(), code.tobytes(), said))
        return out

    def thumbnail(self, id: Id) -> bytes | None:
        """A small JPEG of an item, if it is there and one is kept."""

        def work(snapshot: Snapshot) -> bytes | None:
            try:
                (number,) = snapshot.living([id]).tolist()
            except NoSuchItem:  # the item of an earlier answer, say
                return None
            rows = snapshot.catalogue.rows("thumbnails", "id = ?", (number,))
            return rows[0][1] if rows else None

        return self._read(work)

    def labels(self) -> list[Label]:
        """Labels of the classes that have items, in the order in which they came."""
        return self._read(
            lambda snapshot: list(inspecting.class_sizes(snapshot, snapshot.places.live_classes()))
        )

    def info(self, where: str | None = None) -> dict[str, Any]:
        """What the database is and holds, in plain types.

        With ``where``, items and classes are counted among the items whose columns meet these conditions.
        """
        return self._read(lambda s: inspecting.describe(self.path, s.catalogue, s, where))

    def bits(self) -> Bits:
        """How the bits are used: their balance, and the mean margin of every class in each."""
        return self._read(inspecting.bits)

    def evaluate(
        self,
        source: Any = None,
        labels: Any = None,
        *,
        rank: str | None = None,
        max_queries: int = 1000,
        max_items: int | None = None,
    ) -> Evaluation:
        """P@1, P@10 and mAP of the ranking that answers, also for each class. Relevant: a label in common.

        Queries are those in ``source``, or some of the items, then never an answer to themselves: items that
        were not learned from where there are enough, else items that ask as if they had been left out. Only
        labelled items count. ``max_queries`` and ``max_items`` bound the time by samples. The ``note`` of the
        result tells all this.
        """
        evaluating.check_limits(max_queries, max_items)
        ranking = searching.wanted(1, None, rank, None).rank
        queries = None if source is None else self._labelled_queries(source, labels)

        def work(snapshot: Snapshot) -> Evaluation:
            asked = evaluating.ask(self.path, snapshot, queries, max_queries, max_items)
            return evaluating.evaluation(snapshot, asked, ranking)

        return self._read(work)

    def compare(
        self,
        source: Any = None,
        labels: Any = None,
        *,
        max_queries: int = 1000,
        max_items: int | None = None,
    ) -> Comparison:
        """The answers of `search` beside what one would otherwise take, on the same data and in one run.

        Queries and limits are those of `evaluate`.
        """
        evaluating.check_limits(max_queries, max_items)
        queries = None if source is None else self._labelled_queries(source, labels)

        def work(snapshot: Snapshot) -> tuple[evaluating.EvaluationSet, AlternativeScore, int]:
            asked = evaluating.ask(self.path, snapshot, queries, max_queries, max_items)
            return asked, comparing.own_row(snapshot, asked, self.thumbnail), snapshot.n_bytes

        asked, own, code_bytes = self._read(work)
        return comparing.beside_alternatives(own, asked, code_bytes)

    def _labelled_queries(self, source: Any, labels: Any) -> tuple[Array, list[LabelSet]]:
        opened = open_source(source, labels)
        if isinstance(opened, ImageSource):
            opened.features = self.features
        blocks = list(opened.blocks(Nothing()))
        if opened.rejects:
            first = opened.rejects[0]
            warnings.warn(
                f"{len(opened.rejects)} queries cannot be used and are left out, {first.name} for one: "
                f"{first.reason}.",
                stacklevel=3,
            )
        if not blocks:
            raise DatabaseError("There is no query to evaluate with: nothing could be read from the source.")
        X = np.concatenate([block.vectors for block in blocks])
        joined = opened.joined_labels
        y = [
            joined.get(content, own)
            for block in blocks
            for content, own in zip(block.contents, block.labels, strict=True)
        ]
        if () in y:
            raise DatabaseError("Queries to evaluate with need a label each.")
        return self._vectors(X), y

    def doctor(self, limit: int = 100) -> Diagnosis:
        """Labels that look wrong or are in conflict, most certain first, each with what mends it.

        Of each kind of finding at most ``limit`` are listed; ``found`` counts all. In large collections
        samples are examined, so that it takes minutes at most; the ``note`` says so. Nothing is changed.
        """
        try:
            check_count("limit", limit)
        except ValueError as error:
            raise DatabaseError(str(error)) from None
        return self._read(lambda s: doctor.examine(s, limit, lambda ids: self._items(s, ids)))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write ids, labels, names, codes and vectors to a ``.parquet`` or ``.npz`` file."""
        self._read(lambda snapshot: exporting.export(snapshot, snapshot.catalogue, Path(path)))

    def verify(self, *, deleted: bool = False) -> list[FileProblem]:
        """Check every file, byte by byte; an empty list means that all is as it was written.

        With ``deleted`` also that nothing is left of removed items.
        """
        if deleted:
            from sihash.database.deleted import verify_deleted

            return verify_deleted(self.path)
        return inspecting.verify(self.path)
